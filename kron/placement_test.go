package kron

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

// placedLeaves are of every kind, with MaxSizeDense 10 and BlockSize 4: 2 x 6 + 1 dense blocks.
var placedLeaves = []Leaf{
	{Path: "bias", Shape: []int{6}},
	{Path: "blocks", Shape: []int{2, 6, 10}, Scanned: true},
	{Path: "embedding", Shape: []int{12, 7}},
	{Path: "empty", Shape: []int{0, 7}},
	{Path: "head", Shape: []int{7, 11}},
	{Path: "huge", Shape: []int{11, 13}},
	{Path: "small", Shape: []int{3, 2}},
}

func placedPlan(t *testing.T, c Config) *Plan {
	c.MaxSizeDense, c.BlockSize, c.NoiseScale = 10, 4, 0.1
	p, err := NewPlan(placedLeaves, c)
	require.NoError(t, err)
	require.Equal(t, 13, p.DenseBlocks())
	return p
}

func gradients(p *Plan, n int64) map[string][]float64 {
	u := map[string][]float64{}
	for i, m := range p.Leaves {
		u[m.Path] = draws(1000*uint64(n)+uint64(i), m.Batch*m.Rows*m.Cols, 1)
	}
	return u
}

func tensorsByName(hosts []buffers.Host) map[string]buffers.Host {
	out := map[string]buffers.Host{}
	for _, h := range hosts {
		out[h.Path] = h
	}
	return out
}

// TestDividedStackHasTheSameBits divides the dense stack over devices: outputs and state are those of one device, to the bit.
func TestDividedStackHasTheSameBits(t *testing.T) {
	for _, c := range []Config{plain(Quad, 4), plain(Skew, 4), {
		Method: Quad, PreconditionerLR: 0.7, InitScale: 1, DType: buffers.BF16, Damping: 0.1, Rules: Stable(),
	}} {
		p := placedPlan(t, c)
		at := map[string]int{}
		for i, m := range p.Leaves {
			at[m.Path] = i % 2
		}
		for axis, padding := range map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 16: 3} {
			whole, err := NewTwin(p, nil)
			require.NoError(t, err)
			placement, err := p.Place(at, axis)
			require.NoError(t, err)
			assert.Equal(t, padding, placement.Padding(), "%d devices", axis)
			var devices []*Twin
			for _, part := range placement.Parts {
				devices = append(devices, NewTwinOf(p, part))
			}
			for n := int64(99); n <= 101; n++ {
				want := gradients(p, n)
				require.NoError(t, whole.Update(n, want, false, false))
				got := gradients(p, n)
				for i, device := range devices {
					u := gradients(p, n)
					maps.DeleteFunc(u, func(path string, _ []float64) bool { return !slices.Contains(p.Paths(placement.Parts[i]), path) })
					require.NoError(t, device.Update(n, u, false, false))
					for _, b := range append(slices.Concat(device.own...), device.dense...) {
						b.write(got[b.leaf.Path], b.read(u[b.leaf.Path]))
					}
				}
				assert.Equal(t, want, got, "%d devices, update %d", axis, n)
			}
			requireSameState(t, whole, devices, placement)
		}
	}
}

// requireSameState compares what the parts hold, put together, with the whole.
func requireSameState(t *testing.T, whole *Twin, devices []*Twin, placement *Placement) {
	got := map[string][]float32{}
	for _, device := range devices {
		for _, h := range device.Tensors() {
			got[h.Path] = append(got[h.Path], h.Data...)
		}
	}
	for _, h := range whole.Tensors() {
		joined := got[h.Path]
		if h.Path[:6] == "dense/" {
			rest := joined[len(h.Data):]
			joined = joined[:len(h.Data)]
			require.Len(t, rest, placement.Padding()*len(h.Data)/h.Shape[0])
		}
		require.Equal(t, h.Data, joined, h.Path)
		delete(got, h.Path)
	}
	require.Empty(t, got)
}

// TestStagesHaveTheSameBits: leaves spread over stages, each with a stack of its own.
func TestStagesHaveTheSameBits(t *testing.T) {
	c := plain(Quad, 4)
	c.Rules = Stable()
	p := placedPlan(t, c)
	at := map[string]int{"bias": 0, "blocks": 2, "embedding": 0, "empty": 0, "head": 2, "huge": 1, "small": 0}
	placement, err := p.Place(at, 0)
	require.NoError(t, err)
	require.Len(t, placement.Parts, 3)
	whole, err := NewTwin(p, nil)
	require.NoError(t, err)
	var stages []*Twin
	for stage := range 3 {
		var paths []string
		for _, m := range p.Leaves {
			if at[m.Path] == stage {
				paths = append(paths, m.Path)
			}
		}
		twin, err := NewTwin(p, paths)
		require.NoError(t, err)
		assert.Equal(t, placement.Parts[stage], twin.part)
		stages = append(stages, twin)
	}
	for n := int64(1); n <= 3; n++ {
		want, got := gradients(p, n), gradients(p, n)
		require.NoError(t, whole.Update(n, want, n == 3, false))
		for _, stage := range stages {
			require.NoError(t, stage.Update(n, got, n == 3, false))
		}
		assert.Equal(t, want, got)
	}
	state := tensorsByName(whole.Tensors())
	assert.Equal(t, state["leaf/huge/Ql"], tensorsByName(stages[1].Tensors())["leaf/huge/Ql"])
	// Block 12, the last, is that of "small", in a stack of its own of shape [1, 3, 3] instead of [13, 4, 4].
	small := tensorsByName(stages[0].Tensors())["dense/Ql"]
	assert.Equal(t, []int{1, 3, 3}, small.Shape)
	assert.Equal(t, []int{13, 4, 4}, state["dense/Ql"].Shape)
	assert.Equal(t, padMatrices(small, 4), state["dense/Ql"].Data[12*16:])
}

// TestPlacementTensors: where each tensor lies, worked out by hand.
func TestPlacementTensors(t *testing.T) {
	c := plain(Skew, 4)
	c.Rules.RelativeDamping = true
	p := placedPlan(t, c)
	at := map[string]int{"bias": 1, "blocks": 0, "embedding": 0, "empty": 1, "head": 1, "huge": 1, "small": 1}
	find := func(tensors []Placed, name string) (found []Placed) {
		for _, placed := range tensors {
			if placed.Name == name {
				found = append(found, placed)
			}
		}
		return found
	}

	divided, err := p.Place(at, 4)
	require.NoError(t, err)
	tensors := divided.Tensors("mu")
	assert.Equal(t, []Placed{{Name: "mu/blocks", Shape: []int{2, 6, 10}}}, find(tensors, "mu/blocks"), "beside the param")
	assert.Equal(t, []Placed{{Name: "mu/empty", Shape: []int{0, 7}, Place: 1}}, find(tensors, "mu/empty"))
	assert.Equal(t, []Placed{{Name: "leaf/embedding/Ql", Shape: []int{2, 12}}}, find(tensors, "leaf/embedding/Ql"))
	assert.Equal(t, []Placed{{Name: "leaf/embedding/Qr", Shape: []int{2, 4, 4}}}, find(tensors, "leaf/embedding/Qr"))
	assert.Equal(t, []Placed{{Name: "leaf/head/Ql", Shape: []int{2, 4, 4}, Place: 1}}, find(tensors, "leaf/head/Ql"))
	assert.Equal(t, []Placed{{Name: "leaf/head/Qr", Shape: []int{2, 11}, Place: 1}}, find(tensors, "leaf/head/Qr"))
	assert.Equal(t, []Placed{{Name: "leaf/huge/Qr", Shape: []int{1, 13}, Place: 1}}, find(tensors, "leaf/huge/Qr"))
	assert.Equal(t, []Placed{{Name: "leaf/bias/Ql", Shape: []int{1, 6}, Place: 1}}, find(tensors, "leaf/bias/Ql"))
	assert.Empty(t, find(tensors, "leaf/bias/Qr"))
	assert.Empty(t, find(tensors, "leaf/empty/Ql"))
	assert.Equal(t, []Placed{
		{Name: "dense/rms", Shape: []int{4}, Place: 0, First: 0, Of: 16},
		{Name: "dense/rms", Shape: []int{4}, Place: 1, First: 4, Of: 16},
		{Name: "dense/rms", Shape: []int{4}, Place: 2, First: 8, Of: 16},
		{Name: "dense/rms", Shape: []int{4}, Place: 3, First: 12, Of: 16},
	}, find(tensors, "dense/rms"))
	assert.Equal(t, []string{"blocks", "embedding"}, p.Paths(divided.Parts[0]))
	assert.Equal(t, []string{"bias", "blocks", "head", "huge"}, p.Paths(divided.Parts[1]), "blocks 4 to 7 are of a leaf that lies elsewhere")
	assert.Equal(t, []string{"small"}, p.Paths(divided.Parts[3]))
	assert.Equal(t, 3, divided.Parts[3].Padding)

	// Padding is the identity, with L of 1 and no valid element.
	last := tensorsByName(NewTwinOf(p, divided.Parts[3]).Tensors())
	assert.Equal(t, []float32{0, 1, 1, 1}, last["dense/Ll"].Data)
	assert.Equal(t, []float32{3, 0, 0, 0}, last["dense/valid_rows"].Data)
	assert.Equal(t, []float32{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, last["dense/Qr"].Data[48:])

	stages, err := p.Place(at, 0)
	require.NoError(t, err)
	assert.Zero(t, stages.Padding())
	assert.Equal(t, []Placed{{Name: "dense/Ql", Shape: []int{12, 4, 4}}, {Name: "dense/Ql", Shape: []int{1, 3, 3}, Place: 1}},
		find(stages.Tensors(), "dense/Ql"))

	// Every tensor of the twins is listed, in their order.
	for _, placement := range []*Placement{divided, stages} {
		var want []Placed
		for place, part := range placement.Parts {
			for _, h := range NewTwinOf(p, part).Tensors() {
				assert.Len(t, h.Data, product(h.Shape), h.Path)
				want = append(want, Placed{Name: h.Path, Shape: h.Shape, Place: place})
			}
		}
		var got []Placed
		for _, placed := range placement.Tensors() {
			got = append(got, Placed{Name: placed.Name, Shape: placed.Shape, Place: placed.Place})
		}
		assert.Equal(t, want, got)
	}
}

func TestPlacementErrors(t *testing.T) {
	p := placedPlan(t, plain(Quad, 4))
	_, err := p.Place(map[string]int{"bias": 0}, 0)
	assert.EqualError(t, err, `kron: place: leaf "blocks": found no place of 0 or more`)
	_, err = p.Place(map[string]int{"biases": 0}, 0)
	assert.EqualError(t, err, `kron: place: leaf "biases": not in the plan`)
	_, err = p.Place(nil, -1)
	assert.EqualError(t, err, "kron: place: axis: found -1, wanted 0 or more")
	_, err = p.Part([]string{"bias", "bias"})
	assert.EqualError(t, err, `kron: part: leaf "bias": given twice`)
	_, err = p.Run([]string{"wide"}, 0, 1)
	assert.EqualError(t, err, `kron: part: leaf "wide": not in the plan`)
	_, err = p.Run(nil, -1, 1)
	assert.EqualError(t, err, "kron: run: blocks from -1, 1 of them: wanted 0 or more")
	part, err := p.Run(nil, 20, 2)
	require.NoError(t, err)
	assert.Equal(t, Part{Dense: []int{}, Padding: 2, Rows: 4, Cols: 4}, part, "past the end there is padding only")
}
