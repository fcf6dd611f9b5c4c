package state

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/gpu"
)

// A checkpoint tells a card from a part of it, which adds up in another order; of software it says nothing more.
func TestAdapterNames(t *testing.T) {
	card := gpu.Adapter{Name: "NVIDIA H100 80GB HBM3", Backend: "vulkan", Driver: "550"}
	of := func(multiprocessors int) *gpu.Device {
		return gpu.DryOf(card, gpu.Limits{Multiprocessors: multiprocessors})
	}
	assert.Equal(t, "NVIDIA H100 80GB HBM3, vulkan, 550", AdapterName(of(0)))
	assert.Equal(t, "NVIDIA H100 80GB HBM3, vulkan, 550, 132 multiprocessors; NVIDIA H100 80GB HBM3, vulkan, 550, 16 multiprocessors", AdapterName(of(132), of(16), of(132)))
}
