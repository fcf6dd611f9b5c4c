package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
)

// TestMain lets the test program be the child that compiles.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArgument {
		if err := child(context.Background(), os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// program has an inner loop (BB2) inside an outer one (BB1), as the driver prints them.
const program = "BB0:\n" +
	"\tbuffer_load_dwordx4 v[0:3], v0, s[0:3], 0 offen             ; e0381000 80000000\n" +
	"\tbuffer_load_ubyte v4, v0, s[0:3], 0 offen\n" +
	"\ts_buffer_load_dword s0, s[8:11], null\n" +
	"\tscratch_load_dword v9, off, s5 offset:4\n" +
	"BB1:\n" +
	"\tglobal_load_dwordx2 v[0:1], v[2:3], off\n" +
	"BB2:\n" +
	"\tds_read_b128 v[0:3], v4\n" +
	"\tds_read2_b32 v[5:6], v4\n" +
	"\tv_fmac_f32_e32 v0, v1, v2\n" +
	"\tv_fma_f32 v0, v1, v2, v3\n" +
	"\tv_fmac_f32_e32 v0, v1, v2\n" +
	"\tv_fmac_f32_e32 v0, v1, v2\n" +
	"\tv_mul_lo_u32 v0, v1, v2\n" +
	"\ts_cbranch_scc1 BB2                                          ; bf850001\n" +
	"BB3:\n" +
	"\tbuffer_store_dword v0, v1, s[0:3], 0 offen\n" +
	"\tv_fmac_f32_e32 v0, v1, v2\n" +
	"\ts_branch BB1\n" +
	"BB4:\n" +
	"\ts_endpgm\n"

func TestAssembly(t *testing.T) {
	blocks := amdBlocks(program)
	assert.Equal(t, [4]int{1, 1, 0, 1}, all(blocks).Loads, "no scalar loads, reloads or stores")
	loop, ok := hottest(blocks)
	require.True(t, ok)
	// Four multiply-adds and one instruction at a quarter of the rate; 16 and 2 x 4 bytes a lane.
	assert.Equal(t, counts{Multiplies: 4, Vector: 8, Shared: 24}, loop)
	assert.Equal(t, 100*4*2/(24*64*2/128), share("navi21", loop), "workgroup memory is slower than 8 slots of 2 clocks")
	assert.Equal(t, 100*4*4/(24*64*4/128), share("vega10", loop))
	_, ok = hottest(amdBlocks("BB0:\n\tv_fma_f32 v0, v1, v2, v3\n\ts_cbranch_execz BB1\nBB1:\n\ts_endpgm\n"))
	assert.False(t, ok, "a branch onward is no loop")
}

// What RADV prints of a loop of two products by units on RDNA 3.
const unitProgram = "BB0:\n" +
	"\tbuffer_load_b128 v[0:3], v0, s[0:3], 0 offen\n" +
	"BB1:\n" +
	"\tbuffer_load_b64 v[0:1], v0, s[0:3], 0 offen\n" +
	"\tbuffer_load_u8 v4, v0, s[0:3], 0 offen\n" +
	"\tds_load_b128 v[0:3], v4\n" +
	"\tds_store_2addr_stride64_b64 v4, v[0:1], v[2:3] offset1:1\n" +
	"\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]\n" +
	"\tv_dual_mov_b32 v0, 0 :: v_dual_mov_b32 v1, 0\n" +
	"\tv_fma_f32 v0, v1, v2, v3\n" +
	"\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]\n" +
	"\ts_cbranch_scc1 BB1\n" +
	"BB2:\n" +
	"\tv_fma_f32 v0, v1, v2, v3\n" +
	"\tv_fma_f32 v0, v1, v2, v3\n" +
	"\ts_cbranch_scc1 BB2\n" +
	"\ts_endpgm\n"

func TestMatrixUnits(t *testing.T) {
	blocks := amdBlocks(unitProgram)
	assert.Equal(t, [4]int{1, 1, 0, 1}, all(blocks).Loads)
	loop, ok := hottest(blocks)
	require.True(t, ok)
	assert.Equal(t, counts{Multiplies: 1, Units: 2, Vector: 2, Shared: 32, Loads: [4]int{1, 1}}, loop, "of the loop with units, though another has more multiply-adds")
	assert.Equal(t, 100*64/(64+2), share("navi31", loop))
	loop.Shared = 1000
	assert.Equal(t, 100*64/(1000*32*2/128), share("navi31", loop), "workgroup memory is slower")
	f, err := figuresOf(card{family: "navi31", driver: radvUnits}, named{},
		"VGPRs\t120\nSpilled VGPRs\t0\nScratch size\t0\nLDS size\t20480\nSubgroups per SIMD\t12\nInstructions\t800\n", "\n==== Assembly\n"+unitProgram)
	require.NoError(t, err)
	assert.Equal(t, 12, f.Waves, "of 32, as they are counted")
}

// What ANV and NVK print of a loop of three multiply-adds and two other instructions, within another.
const (
	intelProgram = "LABEL2:\n" +
		"add(8)          g5<1>D          g5<8,8,1>D      1D              { align1 1Q };\n" +
		"LABEL1:\n" +
		"mad(8)          g7<1>F          g7<8,8,1>F      g8<8,8,1>F      g9<1,1,1>F { align1 1Q };\n" +
		"sync nop(8)     null<0,1,0>UB   { align1 1Q };\n" +
		"(+f0.0) mad.sat(8) g7<1>F       g7<8,8,1>F      g8<8,8,1>F      g9<1,1,1>F { align1 1Q };\n" +
		"mad(8)          g7<1>F          g7<8,8,1>F      g8<8,8,1>F      g9<1,1,1>F { align1 1Q };\n" +
		"send(8)         g10UD           g11UD           nullUD          a0.2<0>UD  { align1 1Q };\n" +
		"while(8)        JIP:  LABEL1                                    { align1 1Q };\n" +
		"mad(8)          g7<1>F          g7<8,8,1>F      g8<8,8,1>F      g9<1,1,1>F { align1 1Q };\n" +
		"while(8)        JIP:  LABEL2                                    { align1 1Q };\n"
	nvidiaProgram = "    block 0 [] -> {1}\n" +
		"    r0 = mov 0x0                // delay=1\n" +
		"    block 1 [0, 3] -> {2, 3}\n" +
		"    r1 = ffma r2 r3 r1          // delay=4\n" +
		"    @!p0 r1 = ffma r2 r3 r1\n" +
		"    @p0 bra L1\n" +
		"    block 2 [1] -> {}\n" +
		"    r1 = ffma r2 r3 r1\n" +
		"    r1 = ffma r2 r3 r1\n" +
		"    block 3 [1] -> {1}\n" +
		"    r1 = ffma.ftz r2 r3 r1\n" +
		"    r4 = lds.b128 [r5]\n"
)

func TestLoopsOfOtherMakes(t *testing.T) {
	want := counts{Multiplies: 3, Vector: 5}
	loop, ok := hottest(intelBlocks(intelProgram))
	assert.True(t, ok)
	assert.Equal(t, want, loop)
	loop, ok = nvidiaHottest(nvidiaProgram)
	assert.True(t, ok)
	assert.Equal(t, want, loop, "the block between its two is not of the loop")
	assert.Zero(t, plainShare(loop, true), "too few to tell")
	assert.Equal(t, 60, plainShare(counts{Multiplies: 9, Vector: 15}, true))
	_, ok = nvidiaHottest("    block 0 [] -> {1}\n    block 1 [0] -> {}\n")
	assert.False(t, ok)
}

func TestFigures(t *testing.T) {
	const text = "\n==== NIR\nBB9:\n\tbuffer_load_dword v0\n\n==== Assembly\n" + program
	const statistics = "executable\t0\nsubgroup size\t64\nSGPRs\t128\nVGPRs\t96\nSpilled SGPRs\t2\nSpilled VGPRs\t5\nScratch size\t1024\nLDS size\t8704\nSubgroups per SIMD\t8\nInstructions\t633\n"
	navi21, vega10 := card{family: "navi21", driver: radv}, card{family: "vega10", driver: radv}
	f, err := figuresOf(navi21, named{"gputrain.graph.k", "m"}, statistics, text)
	require.NoError(t, err)
	assert.Equal(t, figures{
		Family: "navi21", named: named{"gputrain.graph.k", "m"}, Registers: 96, Spills: 7, Scratch: 1024, LDS: 8704, Waves: 4, Instructions: 633,
		Loads: [4]int{1, 1, 0, 1}, Share: 33,
	}, f)
	f, err = figuresOf(vega10, named{}, statistics, text)
	require.NoError(t, err)
	assert.Equal(t, 8, f.Waves, "counted in waves of 64")
	_, err = figuresOf(navi21, named{Label: "k"}, "VGPRs\tmany\n", "")
	assert.ErrorContains(t, err, `found "VGPRs\tmany`)
	_, err = figuresOf(navi21, named{Label: "k"}, "VGPRs\t96\n", "")
	assert.ErrorContains(t, err, "found no")

	for _, c := range []struct {
		card       card
		statistics string
		want       figures
	}{
		// Of two executables the last one runs.
		{card{"tgl", anv, false}, "executable\t0\nSpill Count\t9\nexecutable\t1\nsubgroup size\t16\nSpill Count\t0\nInstruction Count\t70\n", figures{Width: 16, Instructions: 70}},
		{card{"bmg", anv, true}, "executable\t0\nsubgroup size\t16\nSpills\t86\nInstructions\t1030\nMax live registers\t343\n", figures{Registers: 343, Spills: 86, Width: 16, Instructions: 1030}},
		{card{"ga102", nvk, true}, "executable\t0\nNumber of GPRs\t255\nSpills to memory\t65\nMax warps/SM\t8\nInstruction count\t5\n", figures{Registers: 255, Spills: 65, Waves: 8, Instructions: 5}},
		{card{"a740", turnip, true}, "executable\t0\nRegisters used\t48\nSTP Count\t12\nMax Waves Per Core\t4\nInstruction Count\t5\n", figures{Registers: 192, Spills: 12, Waves: 4, Instructions: 5}},
		{card{"m1", honeykrisp, true}, "executable\t0\nGPRs\t255\nSpills\t67\nThreads\t384\nInstrs\t5\n", figures{Registers: 128, Spills: 67, Waves: 384, Instructions: 5}},
	} {
		f, err := figuresOf(c.card, named{}, c.statistics, "")
		require.NoError(t, err)
		c.want.Family = c.card.family
		assert.Equal(t, c.want, f)
	}
}

func TestLimitsAreHeld(t *testing.T) {
	limits := map[string][]limit{}
	for _, c := range cards {
		limits[c.family] = []limit{{kernel: `graph\.a.*`, waves: [2]int{4, 2}, narrow: 1}, {kernel: `optim\..*`}}
	}
	limits["tgl"] = []limit{{kernel: `.*`, width: 8}}
	good := figures{Family: "navi21", named: named{"gputrain.graph.a1", "llama"}, Waves: 4, Loads: [4]int{0, 1, 0, 9}}
	broken := func(change func(*figures), exceptions ...limit) error {
		f := good
		change(&f)
		return compare([]figures{good, f}, limits, exceptions, true)
	}
	assert.NoError(t, broken(func(*figures) {}))
	assert.NoError(t, broken(func(f *figures) { f.Family, f.Waves = "vega10", 2 }))
	assert.NoError(t, broken(func(f *figures) { *f = figures{Family: "tgl", named: named{Label: "gputrain.x"}, Width: 8} }))
	const name = "isa: gputrain.graph.a1 (llama): "
	for want, change := range map[string]func(*figures){
		name + "navi21: spilled registers: found 1, wanted at most 0":               func(f *figures) { f.Spills = 1 },
		name + "navi21: bytes of scratch: found 1024, wanted at most 0":             func(f *figures) { f.Scratch = 1024 },
		name + "navi21: waves: found 3, wanted at least 4":                          func(f *figures) { f.Waves = 3 },
		name + "vega10: waves: found 1, wanted at least 2":                          func(f *figures) { f.Family, f.Waves = "vega10", 1 },
		name + "navi21: loads of less than four numbers: found 3, wanted at most 1": func(f *figures) { f.Loads = [4]int{1, 1, 1, 9} },
		name + "tgl: invocations of a subgroup: found 4, wanted at least 8":         func(f *figures) { f.Family, f.Width = "tgl", 4 },
		"isa: gputrain.graph.b: navi21: found no limit":                             func(f *figures) { f.Label = "gputrain.graph.b" },
		"isa: gputrain.optim.x (llama): navi21: spilled registers: found 9, wan":    func(f *figures) { *f = figures{Family: "navi21", named: named{"gputrain.optim.x", "llama"}, Spills: 9} },
	} {
		assert.ErrorContains(t, broken(change), want)
	}

	spills := limit{kernel: `graph\.a1`, family: "navi.*", spills: 5}
	assert.NoError(t, broken(func(f *figures) { f.Spills = 5 }, spills))
	assert.ErrorContains(t, broken(func(f *figures) { f.Spills = 6 }, spills), "found 6, wanted at most 5")
	assert.ErrorContains(t, broken(func(f *figures) { f.Scratch = 4 }, spills), "scratch: found 4, wanted at most 0")
	assert.ErrorContains(t, broken(func(f *figures) { f.Family, f.Spills = "vega10", 5 }, spills), "found 5, wanted at most 0", "another family's")
	assert.ErrorContains(t, broken(func(*figures) {}, spills), `exception graph\.a1: no kernel needs it`)
	assert.NoError(t, compare([]figures{good}, limits, []limit{spills}, false), "the kernels that need it may not have been compiled")
	delete(limits, "navi10")
	assert.NoError(t, broken(func(*figures) {}, spills), "a card that needs it may not have been compiled for")
}

func TestCardsThatAreNotThere(t *testing.T) {
	tools := &toolchain{shims: t.TempDir(), mesa: t.TempDir()}
	found, missing, err := tools.available([]string{"tgl", "m1"})
	require.NoError(t, err)
	assert.Empty(t, found)
	assert.Equal(t, []string{
		"tgl (ANV): found no shim of its kernel driver, which tools/isa/shims.sh builds (-shims FOLDER)",
		"m1 (Honeykrisp): found no shim of its kernel driver, which tools/isa/shims.sh builds (-shims FOLDER)",
	}, missing)
	require.NoError(t, os.WriteFile(tools.shim(honeykrisp), nil, 0o644))
	_, missing, err = tools.available([]string{"m1"})
	require.NoError(t, err)
	assert.Equal(t, []string{"m1 (Honeykrisp): found no driver in " + tools.libraries()}, missing)
	_, missing, err = tools.available([]string{"navi31"})
	require.NoError(t, err)
	assert.Equal(t, []string{"navi31 (RADV for matrix units): found no Mesa 25, which tools/isa/shims.sh unpacks (-shims FOLDER)"}, missing)
	_, _, err = tools.available([]string{"navi99"})
	assert.ErrorContains(t, err, `found no such family`)
}

// TestBrokenOnPurpose compiles two kernels as they should not be: an array of an invocation's own with an index that is only known when it
// runs, and a copy four bytes at a time.
func TestBrokenOnPurpose(t *testing.T) {
	tools, err := newToolchain("", "")
	var missing *missingError
	if errors.As(err, &missing) {
		t.Skip("skipped: ", missing)
	}
	require.NoError(t, err)
	defer tools.remove()
	kernel := func(name, declarations, body string) found {
		return found{gpu.KernelOf("gputrain.graph.elementwise_"+name, declarations+
			"@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n let i = id.x;\n"+body+"}\n"), "a test"}
	}
	quads := "@group(0) @binding(0) var<storage, read> src: array<vec4<f32>>;\n@group(0) @binding(1) var<storage, read_write> dst: array<vec4<f32>>;\n"
	numbers := strings.ReplaceAll(quads, "vec4<f32>", "f32")
	all, drivers, err := tools.compile(t.Context(), cards[:1], work{Given: []found{
		kernel("copy", quads, "dst[i] = src[i];\n"),
		kernel("narrow", numbers, "dst[i] = src[i];\n"),
		kernel("private", quads, "var a: array<vec4<f32>, 64>;\nfor (var j = 0u; j < 64u; j++) { a[(j * 7u + u32(src[0].x)) % 64u] = src[i + j]; }\ndst[i] = a[u32(src[1].x) % 64u];\n"),
	}})
	require.NoError(t, err)
	t.Log(drivers)
	limits := map[string][]limit{cards[0].family: amdLimits}
	assert.NoError(t, compare(all[:1], limits, nil, true))
	assert.ErrorContains(t, compare(all[1:2], limits, nil, true), "isa: gputrain.graph.elementwise_narrow (a test): navi21: loads of less than four numbers: found 1, wanted at most 0")
	assert.ErrorContains(t, compare(all[2:], limits, nil, true), "isa: gputrain.graph.elementwise_private (a test): navi21: bytes of scratch: found ")
}
