package gpu

import (
	"debug/elf"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The plain bodies of shared/matrix.wgsl are a unit's product on every adapter: operands rounded to f16, to even on half of the way, those below its normal
// numbers too.
func TestMatrixFunctions(t *testing.T) {
	all, err := Adapters()
	if err != nil {
		anyAdapter(t)
	}
	for _, a := range all {
		if testing.Short() && a.Backend == "gl" {
			continue
		}
		d, err := Open(t.Context(), a, Options{Keep: true})
		require.NoError(t, err)
		defer d.Release()
		for lanes, s := range map[int]MatrixShape{8: {8, 8, 8}, 16: {8, 16, 16}, 64: {16, 16, 16}} {
			if a.Backend == "gl" && lanes > 8 {
				continue // OpenGL's driver takes half a minute to compile them
			}
			assert.NoError(t, d.probeMatrix(t.Context(), matrixProbeKernel(s, lanes), s), "%s: %s", a, s)
		}
		assert.Zero(t, d.Limits().Matrix, "units that nobody asked for")
	}
}

// Units that do otherwise than what kernels rely on are refused: here, plain bodies that do.
func TestMatrixProbeRefuses(t *testing.T) {
	d, err := Open(t.Context(), anyAdapter(t), Options{Keep: true})
	require.NoError(t, err)
	defer d.Release()
	s, lanes := MatrixShape{16, 16, 16}, 64
	source := matrixProbeKernel(s, lanes).Source
	halves := func(by string) [2]string { return [2]string{"pack2x16float(c.q0.zw);", "pack2x16float(" + by + ");"} }
	barrier := func(before string) [2]string { return [2]string{before + "    matrix_barrier();\n", before} }
	for name, c := range map[string]struct {
		change [2]string
		result string
	}{
		"stores that cut what halves do not hold": {halves("bitcast<vec2<f32>>(bitcast<vec2<u32>>(c.q0.zw) & vec2<u32>(0xffffe000u))"), "result 3"},
		"stores that round ties up":               {halves("c.q0.zw * (1.0 + 0x1p-14)"), "result 3"},
		"stores without halves below the normal":  {halves("select(vec2<f32>(), c.q0.zw, abs(c.q0.zw) >= vec2<f32>(0x1p-14))"), "result 3"},
		"plain stores that loads do not see":      {barrier("numbers(subgroup * quads_c + i));\n    }\n"), "result 3"},
		"loads that later stores overtake":        {barrier("matrix_load_c(own, 16u / 4u);\n"), "result 3"},
		"halves that plain loads do not see":      {barrier("matrix_mul(matrix_exp2(x, 0.0), x));\n"), "result 3"},
		"scores that plain loads do not see":      {[2]string{"16u / 4u, scores);\n        matrix_barrier();", "16u / 4u, scores);"}, "result 4"},
		"weights that loads do not see":           {[2]string{"% quads_c]));\n        }\n        matrix_barrier();", "% quads_c]));\n        }"}, "result 4"},
	} {
		changed := strings.Replace(source, c.change[0], c.change[1], 1)
		require.NotEqual(t, source, changed, name)
		assert.ErrorContains(t, d.probeMatrix(t.Context(), KernelOf("gputrain.test.matrix_probe", changed), s), c.result+" of 4 subgroups", name)
	}
}

// The library makes a kernel's module within the call that makes its pipeline, on the thread of the call, and one: the hook counts them. What it makes of
// the functions of shared/matrix.wgsl can be rewritten.
func TestMatrixModules(t *testing.T) {
	a := anyAdapter(t)
	if a.Backend != "vulkan" || runtime.GOOS != "linux" {
		t.Skipf("skipped, needs Vulkan on Linux, found %s", a)
	}
	d := newDevice(a.Limits, Options{})
	d.adapter = a
	var err error
	d.native, err = openNative(a, a.order, "gputrain.test.matrix", false, false, true)
	require.NoError(t, err)
	defer d.Release()
	var modules [][]uint32
	watchMatrix = func(code []uint32) { modules = append(modules, slices.Clone(code)) }
	defer func() { watchMatrix = nil }()
	s := MatrixShape{8, 8, 8}
	for _, k := range []*Kernel{matrixProbeKernel(s, 8), probeKernel} {
		p, err := d.native.pipeline(k, true)
		require.NoError(t, err)
		d.native.releasePipeline(p)
	}
	require.Len(t, modules, 2)
	plain, err := d.native.pipeline(probeKernel, false)
	require.NoError(t, err)
	d.native.releasePipeline(plain)
	require.Len(t, modules, 2, "of a kernel without units")

	made, err := matrixModule(modules[0], s)
	require.NoError(t, err)
	all, err := instructionsOf(made)
	require.NoError(t, err)
	counts, constants := map[int]int{}, map[uint32]uint32{}
	barriers := map[uint32]int{} // by scope
	for _, i := range all {
		counts[i.op()]++
		if i.op() == opConstant {
			constants[i[2]] = i[3]
		}
		if i.op() == opControlBarrier {
			barriers[constants[i[1]]]++
			assert.Equal(t, uint32(makeAvailableAndVisible), constants[i[3]]&makeAvailableAndVisible, "what plain stores wrote, matrix loads see")
		}
		if i.op() == opMemoryModel {
			assert.Equal(t, []uint32{memoryModelLogical, memoryModelVulkan}, []uint32(i[1:]))
		}
	}
	// Each function is called where the kernel says; the type of C is in f16 too.
	assert.Equal(t, []int{4, 8, 5, 9}, []int{counts[opTypeMatrix], counts[opMatrixLoad], counts[opMatrixMulAdd], counts[opMatrixStore]})
	assert.Equal(t, 9, barriers[scopeSubgroup])
	assert.Equal(t, 7, counts[opFConvert], "what packs two numbers, and a matrix")
	for _, i := range all {
		assert.False(t, i.op() == opExtInst && i[4] == packHalf2x16, "which need not round to even")
		if i.op() == opConstant && i[3]&^0xf == matrixMark {
			for _, user := range all {
				assert.False(t, user.op() == opVariable && len(user) > 4 && user[4] == i[2], "a marked function is left")
			}
		}
	}

	_, err = matrixModule(modules[1], s)
	require.ErrorContains(t, err, "gpu: module with matrix units: found no function of mark 1")
	_, err = matrixModule(modules[0][:3], s)
	require.ErrorContains(t, err, "found 3 words, wanted a header of 5")
	_, err = matrixModule(modules[0][:6], s)
	require.ErrorContains(t, err, "found an instruction of")
}

// Where an adapter has units, what they compute is what the plain bodies do, and the device says that it has them.
func TestMatrixUnits(t *testing.T) {
	all, _ := Adapters()
	found := false
	for _, a := range all {
		if len(a.Limits.Matrix.Shapes) == 0 {
			continue
		}
		found = true
		d, err := Open(t.Context(), a, Options{Matrix: true})
		require.NoError(t, err)
		defer d.Release()
		assert.Equal(t, a.Limits.Matrix, d.Limits().Matrix)
		require.True(t, d.native.matrix)
	}
	if !found && os.Getenv("GPUTRAIN_REQUIRE_MATRIX") != "" {
		t.Fatal("GPUTRAIN_REQUIRE_MATRIX: found no adapter with matrix units")
	} else if !found {
		t.Skip("skipped, needs an adapter with matrix units")
	}
}

// Without units a line says so, and the device is as any other.
func TestMatrixUnitsThatAreNotThere(t *testing.T) {
	a := anyAdapter(t)
	a.Limits.Matrix = MatrixUnits{}
	var log strings.Builder
	d, err := Open(t.Context(), a, Options{Matrix: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer d.Release()
	assert.Contains(t, log.String(), "matrix units: off")
	assert.Contains(t, log.String(), "found none")
	assert.Zero(t, d.Limits().Matrix)
	assert.True(t, lowersMatrix("Intel(R) Xe Graphics (TGL GT2)"))
	assert.False(t, lowersMatrix("Intel(R) Arc(tm) A770 Graphics (DG2)"))
}

// A program that is built with the tag nomatrix has no symbol wrapped; one without it has.
func TestMatrixTag(t *testing.T) {
	if testing.Short() {
		t.Skip("without -short: links two programs")
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped, the hook is Linux's")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nimport \"gputrain/gpu\"\n\nfunc main() { gpu.Adapters() }\n"), 0o600))
	for tags, wanted := range map[string]bool{"": true, "nomatrix": false} {
		program := filepath.Join(dir, "program"+tags)
		out, err := exec.Command("go", "build", "-tags", tags, "-o", program, source).CombinedOutput()
		require.NoError(t, err, "%s", out)
		f, err := elf.Open(program)
		require.NoError(t, err)
		defer f.Close()
		symbols, err := f.Symbols()
		require.NoError(t, err)
		wrapped := slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__wrap_dlsym" || strings.HasPrefix(s.Name, "gt_matrix") })
		assert.Equal(t, wanted, wrapped, "tags %q", tags)
	}
}
