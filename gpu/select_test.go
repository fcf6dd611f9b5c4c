package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func machine() []Adapter {
	all := []Adapter{
		{Name: "llvmpipe (LLVM 15.0.6, 256 bits)", Backend: "vulkan", Type: "cpu"},
		{Name: "Intel(R) Arc", Backend: "vulkan", Type: "integrated"},
		{Name: "NVIDIA H200", Backend: "vulkan", Type: "discrete"},
		{Name: "NVIDIA H200", Backend: "gl", Type: "discrete"},
		{Name: "llvmpipe (LLVM 15.0.6, 256 bits)", Backend: "gl", Type: "cpu"},
	}
	for i := range all {
		all[i].Index = i
	}
	return all
}

func TestSelect(t *testing.T) {
	cases := []struct {
		selector string
		want     int
	}{
		{"", 2}, {"0", 0}, {"4", 4}, {"arc", 1}, {"ARC", 1}, {"gl:nvidia", 3}, {"vulkan:llvm", 0}, {"GL:llvmpipe", 4},
	}
	for _, c := range cases {
		a, err := choose(machine(), c.selector)
		require.NoError(t, err, c.selector)
		require.Equal(t, c.want, a.Index, c.selector)
	}
}

func TestSelectErrorsListAdapters(t *testing.T) {
	_, err := choose(machine(), "radeon")
	require.ErrorContains(t, err, `gpu: select adapter "radeon": matches none of:`)
	require.ErrorContains(t, err, "1: Intel(R) Arc, vulkan, integrated")
	_, err = choose(machine(), "nvidia")
	require.ErrorContains(t, err, `"nvidia": matches 2 adapters`)
	require.ErrorContains(t, err, "2: NVIDIA H200, vulkan, discrete\n  3: NVIDIA H200, gl, discrete")
	require.NotContains(t, err.Error(), "llvmpipe")
	_, err = choose(machine(), "5")
	require.ErrorContains(t, err, "no such index")
	require.ErrorContains(t, err, "4: llvmpipe")
	_, err = choose(machine(), "-1")
	require.ErrorContains(t, err, "no such index")
}

func TestSelectPrefersNativeBackends(t *testing.T) {
	all := machine()
	a, err := choose(all[3:], "")
	require.NoError(t, err)
	require.Equal(t, "NVIDIA H200", a.Name)
	a, err = choose([]Adapter{all[4], all[0]}, "")
	require.NoError(t, err)
	require.Equal(t, "vulkan", a.Backend)
}

func TestSelectReadsEnvironment(t *testing.T) {
	anyAdapter(t)
	t.Setenv("GPUTRAIN_ADAPTER", "no such adapter")
	_, err := Select("")
	require.ErrorContains(t, err, "matches none of")
	a, err := Select("0")
	require.NoError(t, err)
	require.Equal(t, 0, a.Index)
}

func TestAdaptersAreStable(t *testing.T) {
	anyAdapter(t)
	first, err := Adapters()
	require.NoError(t, err)
	for range 3 {
		again, err := Adapters()
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
	for i, a := range first {
		require.Equal(t, i, a.Index)
		require.NotEmpty(t, a.Name)
		require.NotEmpty(t, a.Driver)
		require.NotZero(t, a.Limits.BindingBytes)
		require.NotZero(t, a.Limits.StorageAlign)
	}
}

func TestParseDrivers(t *testing.T) {
	lines := []string{
		"Debug utils not enabled",
		`Adapter Vulkan AdapterInfo { name: "old", vendor: 1, device: 0, device_type: Cpu, driver: "x", driver_info: "y", backend: Vulkan }`,
		`Adapter Vulkan AdapterInfo { name: "llvmpipe", vendor: 65541, device: 0, device_type: Cpu, driver: "llvmpipe", driver_info: "Mesa 22.3.6 (LLVM 15.0.6)", backend: Vulkan }`,
		"Version: OpenGL ES 3.2 Mesa 22.3.6",
		`Adapter Gl AdapterInfo { name: "llvmpipe", vendor: 65541, device: 0, device_type: Cpu, driver: "", driver_info: "", backend: Gl }`,
	}
	require.Equal(t, []string{"llvmpipe Mesa 22.3.6 (LLVM 15.0.6)", "OpenGL ES 3.2 Mesa 22.3.6"}, parseDrivers(lines, 2))
	require.Equal(t, []string{"", "", "", ""}, parseDrivers(lines, 4), "a log that tells of fewer is not trusted")
}
