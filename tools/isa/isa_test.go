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
	blocks := assembly(program)
	assert.Equal(t, [4]int{1, 1, 0, 1}, all(blocks).Loads, "no scalar loads, reloads or stores")
	loop, ok := hottest(blocks)
	require.True(t, ok)
	// Four multiply-adds and one instruction at a quarter of the rate; 16 and 2 x 4 bytes a lane.
	assert.Equal(t, counts{Multiplies: 4, Vector: 8, Shared: 24}, loop)
	assert.Equal(t, 100*4*2/(24*64*2/128), share("navi21", loop), "workgroup memory is slower than 8 slots of 2 clocks")
	assert.Equal(t, 100*4*4/(24*64*4/128), share("vega10", loop))
	_, ok = hottest(assembly("BB0:\n\tv_fma_f32 v0, v1, v2, v3\n\ts_cbranch_execz BB1\nBB1:\n\ts_endpgm\n"))
	assert.False(t, ok, "a branch onward is no loop")
}

func TestFigures(t *testing.T) {
	const statistics = "SGPRs\t128\nVGPRs\t96\nSpilled SGPRs\t2\nSpilled VGPRs\t5\nScratch size\t1024\nLDS size\t8704\nSubgroups per SIMD\t8\nInstructions\t633\n"
	f, err := figuresOf("navi21", named{"gputrain.graph.k", "m"}, statistics, program)
	require.NoError(t, err)
	assert.Equal(t, figures{
		Family: "navi21", named: named{"gputrain.graph.k", "m"}, VGPRs: 96, SGPRs: 128, Spills: 7, Scratch: 1024, LDS: 8704, Waves: 4, Instructions: 633,
		Loads: [4]int{1, 1, 0, 1}, Share: 33,
	}, f)
	f, err = figuresOf("vega10", named{}, statistics, program)
	require.NoError(t, err)
	assert.Equal(t, 8, f.Waves, "counted in waves of 64")
	_, err = figuresOf("navi21", named{Label: "k"}, "VGPRs\tmany\n", "")
	assert.ErrorContains(t, err, `navi21: k: statistics: found "VGPRs\tmany`)
	_, err = figuresOf("navi21", named{Label: "k"}, "VGPRs\t96\n", "")
	assert.ErrorContains(t, err, "found no")
}

func TestLimitsAreHeld(t *testing.T) {
	limits := []limit{{kernel: `graph\.a.*`, waves: [2]int{4, 2}, narrow: 1}, {kernel: `optim\..*`}}
	good := figures{Family: "navi21", named: named{"gputrain.graph.a1", "llama"}, Waves: 4, Loads: [4]int{0, 1, 0, 9}}
	broken := func(change func(*figures), exceptions ...limit) error {
		f := good
		change(&f)
		return check([]figures{good, f}, limits, exceptions, true)
	}
	assert.NoError(t, broken(func(*figures) {}))
	assert.NoError(t, broken(func(f *figures) { f.Family, f.Waves = "vega10", 2 }))
	const name = "isa: gputrain.graph.a1 (llama): "
	for want, change := range map[string]func(*figures){
		name + "navi21: spilled registers: found 1, wanted at most 0":            func(f *figures) { f.Spills = 1 },
		name + "navi21: bytes of scratch: found 1024, wanted at most 0":          func(f *figures) { f.Scratch = 1024 },
		name + "navi21: waves: found 3, wanted at least 4":                       func(f *figures) { f.Waves = 3 },
		name + "vega10: waves: found 1, wanted at least 2":                       func(f *figures) { f.Family, f.Waves = "vega10", 1 },
		name + "navi21: loads of less than 16 bytes: found 3, wanted at most 1":  func(f *figures) { f.Loads = [4]int{1, 1, 1, 9} },
		"isa: gputrain.graph.b: found no limit":                                  func(f *figures) { f.Label = "gputrain.graph.b" },
		"isa: gputrain.optim.x (llama): navi21: spilled registers: found 9, wan": func(f *figures) { *f = figures{Family: "navi21", named: named{"gputrain.optim.x", "llama"}, Spills: 9} },
	} {
		assert.ErrorContains(t, broken(change), want)
	}

	spills := limit{kernel: `graph\.a1`, spills: 5}
	assert.NoError(t, broken(func(f *figures) { f.Spills = 5 }, spills))
	assert.ErrorContains(t, broken(func(f *figures) { f.Spills = 6 }, spills), "found 6, wanted at most 5")
	assert.ErrorContains(t, broken(func(f *figures) { f.Scratch = 4 }, spills), "scratch: found 4, wanted at most 0")
	assert.ErrorContains(t, broken(func(*figures) {}, spills), `exception graph\.a1: no kernel needs it`)
	assert.NoError(t, check([]figures{good}, limits, []limit{spills}, false), "the kernels that need it may not have been compiled")
}

// TestBrokenOnPurpose compiles two kernels as they should not be: an array of an invocation's own with an index that is only known when it
// runs, and a copy four bytes at a time.
func TestBrokenOnPurpose(t *testing.T) {
	tools, err := newToolchain()
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
	all, driver, err := tools.compile(t.Context(), families[:1], work{Given: []found{
		kernel("copy", quads, "dst[i] = src[i];\n"),
		kernel("narrow", numbers, "dst[i] = src[i];\n"),
		kernel("private", quads, "var a: array<vec4<f32>, 64>;\nfor (var j = 0u; j < 64u; j++) { a[(j * 7u + u32(src[0].x)) % 64u] = src[i + j]; }\ndst[i] = a[u32(src[1].x) % 64u];\n"),
	}})
	require.NoError(t, err)
	t.Log(driver)
	assert.NoError(t, check(all[:1], limits, nil, true))
	assert.ErrorContains(t, check(all[1:2], limits, nil, true), "isa: gputrain.graph.elementwise_narrow (a test): navi21: loads of less than 16 bytes: found 1, wanted at most 0")
	assert.ErrorContains(t, check(all[2:], limits, nil, true), "isa: gputrain.graph.elementwise_private (a test): navi21: bytes of scratch: found ")
}
