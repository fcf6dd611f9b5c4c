package optim

import (
	"gputrain/buffers"
	"gputrain/gpu"
)

// leafSums holds the sums of squares over leaves that elements ask for, and what they are made of: one number a block of
// elements, and runs of blocks for each leaf.
type leafSums struct {
	leaves uint32
	first  []uint32 // of each slab, among all blocks
	runs   *gpu.Buffer
	blocks *gpu.Buffer
	sums   *gpu.Buffer
}

func newLeafSums(dev *gpu.Device, layout *buffers.Layout, sums int) (*leafSums, error) {
	l := &leafSums{leaves: uint32(len(layout.Leaves()))}
	blocks := uint32(0)
	for _, n := range layout.Slabs() {
		l.first = append(l.first, blocks)
		blocks += uint32(n / buffers.BlockElements)
	}
	table := make([]uint32, 2*l.leaves)
	for i, leaf := range layout.Leaves() {
		table[2*i], table[2*i+1] = uint32(len(table)/2), uint32(len(leaf.Parts))
		for _, part := range leaf.Parts {
			count := (part.Count + buffers.BlockElements - 1) / buffers.BlockElements
			table = append(table, l.first[part.Slab]+uint32(part.Offset/buffers.BlockElements), uint32(count))
		}
	}
	var err error
	for _, b := range []struct {
		buffer **gpu.Buffer
		name   string
		words  uint32
	}{{&l.runs, "runs", uint32(len(table))}, {&l.blocks, "block_sums", blocks}, {&l.sums, "leaf_sums", uint32(sums) * l.leaves}} {
		if *b.buffer, err = dev.NewBuffer("gputrain.optim."+b.name, 4*uint64(max(b.words, 1))); err != nil {
			l.release()
			return nil, err
		}
	}
	if len(table) == 0 {
		return l, nil
	}
	if err := dev.Write(l.runs.All(), words(table...)); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func (l *leafSums) bytes() uint64 { return l.runs.Bytes() + l.blocks.Bytes() + l.sums.Bytes() }

func (l *leafSums) release() {
	for _, b := range []*gpu.Buffer{l.runs, l.blocks, l.sums} {
		if b != nil {
			b.Release()
		}
	}
}

// total records the kernel that puts the blocks of one sum together.
func (l *leafSums) total(rec *gpu.Recording, sum int, limits gpu.Limits) error {
	k, err := operatorKernel("leaf_total", "leaf_total", nil, nil,
		gpu.Binding{Name: "runs", Access: gpu.Read}, gpu.Binding{Name: "block_sums", Access: gpu.Read}, gpu.Binding{Name: "leaf_sums", Access: gpu.ReadWrite})
	if err != nil {
		return err
	}
	rec.Dispatch(k, gpu.Linear(uint64(l.leaves), 1, limits), words(l.leaves, uint32(sum)), l.runs.All(), l.blocks.All(), l.sums.All())
	return nil
}
