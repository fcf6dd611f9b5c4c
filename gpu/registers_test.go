package gpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Names are those that drivers give on Vulkan, Direct3D 12, Metal and OpenGL.
func TestRegistersOfMakes(t *testing.T) {
	for name, want := range map[string]Registers{
		"AMD Radeon RX 6800 XT (RADV NAVI21)":              {Budget: 256},
		"Radeon RX 580 Series":                             {Budget: 256},
		"NVIDIA GeForce RTX 3060":                          {Budget: 255},
		"NVK":                                              {Budget: 255},
		"GeForce GTX 1080/PCIe/SSE2":                       {Budget: 255},
		"Turnip Adreno (TM) 740":                           {Budget: 192},
		"Apple M1 (G13G B1)":                               {Budget: 128},
		"Intel(R) Arc(tm) A770 Graphics (DG2)":             {Budget: 128, Twice: true},
		"Mesa Intel(R) Xe Graphics (TGL GT2)":              {Budget: 128, Twice: true},
		"Mali-G78":                                         {Budget: 128, Twice: true},
		"Microsoft Basic Render Driver that nobody knows ": {Budget: 128, Twice: true},
	} {
		assert.Equal(t, want, registersOf(name, false), name)
	}
	assert.Equal(t, Registers{Budget: 256}, registersOf("llvmpipe (LLVM 15.0.6, 256 bits)", true))
	assert.Equal(t, Registers{Budget: 128, Twice: true}, Registers{}.OrLeast())
}

func TestRegistersHold(t *testing.T) {
	assert.True(t, Registers{Budget: 128}.Holds(64, 64))
	assert.False(t, Registers{Budget: 128}.Holds(64, 65))
	assert.False(t, Registers{Budget: 128, Twice: true}.Holds(64, 45), "a tile of 64 sums on Intel")
	assert.True(t, Registers{Budget: 128, Twice: true}.Holds(16, 45), "one of 16")
}

func TestStricterRegisters(t *testing.T) {
	amd, intel := Registers{Budget: 256}, Registers{Budget: 128, Twice: true}
	assert.Equal(t, intel, amd.within(intel))
	assert.Equal(t, intel, intel.within(amd))
	assert.Equal(t, amd, amd.within(Registers{}))
}
