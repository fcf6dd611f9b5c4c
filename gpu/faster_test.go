package gpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// An adapter is judged by what it is, whatever its name.
func TestClass(t *testing.T) {
	for want, adapters := range map[class][]Adapter{
		hardware: {
			{Name: "llvmpipe in name only", Backend: "gl", Type: "integrated"},
			{Backend: "vulkan", Type: "discrete"},
			{Backend: "metal", Type: "integrated"},
			{Backend: "vulkan", Type: "other"},
		},
		software:   {{Name: "SwiftShader", Backend: "vulkan", Type: "cpu"}, {Backend: "d3d12", Type: "cpu"}},
		softwareGL: {{Name: "softpipe", Backend: "gl", Type: "cpu"}},
	} {
		for _, a := range adapters {
			assert.Equal(t, want, a.class(), "%v", a)
		}
	}
	assert.Less(t, softwareGL, software)
	assert.Less(t, software, hardware)
}

func TestFaster(t *testing.T) {
	all := machine() // 0 and 4: software by Vulkan and OpenGL; 2: the best
	const install = "get mesa"
	for _, c := range []struct {
		taken int
		all   []Adapter
		want  string
	}{
		{2, all, ""},
		{1, all, ""}, // hardware too; which of two cards is faster is not known
		{3, all, ""},
		{0, all, "; faster: 2: NVIDIA H200, vulkan, discrete: --adapter 2"},
		{4, all, "; faster: 2: NVIDIA H200, vulkan, discrete: --adapter 2"},
		{4, []Adapter{all[0], all[4]}, "; faster: 0: llvmpipe (LLVM 15.0.6, 256 bits), vulkan, cpu: --adapter 0"},
		{0, []Adapter{all[0], all[4]}, ""},
		{4, []Adapter{all[4]}, "; faster: Vulkan's software driver, 1.3 to 5 times as fast: get mesa"},
	} {
		assert.Equal(t, c.want, faster(all[c.taken], c.all, install), "%v", all[c.taken])
	}
	assert.Equal(t, "; faster: Vulkan's software driver, 1.3 to 5 times as fast", faster(all[4], all[4:], ""))
}

func TestInstallCommand(t *testing.T) {
	has := func(names ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	assert.Equal(t, "sudo apt-get update && sudo apt-get install -y mesa-vulkan-drivers libvulkan1", installWith(has("apt-get"), false))
	assert.Equal(t, "apt-get update && apt-get install -y mesa-vulkan-drivers libvulkan1", installWith(has("apt-get", "apk"), true))
	assert.Equal(t, "sudo dnf install -y mesa-vulkan-drivers vulkan-loader", installWith(has("dnf"), false))
	assert.Equal(t, "pacman -S --noconfirm --needed vulkan-swrast vulkan-icd-loader", installWith(has("pacman"), true))
	assert.Equal(t, "apk add mesa-vulkan-swrast vulkan-loader", installWith(has("apk"), true))
	assert.Empty(t, installWith(has(), true))
}
