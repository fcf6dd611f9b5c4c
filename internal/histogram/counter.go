package histogram

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
)

// Source is an F32 tree and what its leaves are called by: "params" makes "params/PATH".
type Source struct {
	Name string
	Tree *buffers.Tree
}

// Counter makes histograms of leaves of trees on one device. Everything it needs is made by New. It is used from one goroutine.
type Counter struct {
	device                         *gpu.Device
	set                            *gpu.Set
	leaves                         []counted
	table, firsts, partials, words *gpu.Buffer
	ring                           *gpu.Readback
	program                        *gpu.Program
}

// counted is a leaf that is counted.
type counted struct {
	name     string
	elements uint64
}

// New prepares histograms of the leaves whose names match, in the order of the sources and their leaves; nil matches
// all. A leaf without elements has none. The sources must outlive the counter, except for Release. Errors: sources on
// several devices, one that is not F32, no leaf that matches, no memory.
func New(ctx context.Context, match func(name string) bool, sources ...Source) (*Counter, error) {
	if err := check(sources); err != nil {
		return nil, err
	}
	c := &Counter{}
	table, firsts, jobs := c.layOut(sources, match)
	if len(c.leaves) == 0 {
		return nil, errors.New("histogram: leaves: found none that matches, wanted at least one")
	}
	c.device = sources[0].Tree.Device()
	if err := c.build(ctx, table, firsts, jobs); err != nil {
		c.Release()
		return nil, fmt.Errorf("histogram: new: %w", err)
	}
	return c, nil
}

func (c *Counter) build(ctx context.Context, table, firsts []uint32, jobs []job) (err error) {
	c.set = c.device.NewSet("gputrain.histogram")
	c.table, c.firsts = c.set.Filled("table", table), c.set.Filled("firsts", firsts)
	c.partials = c.set.Zeros("partials", uint64(partialSize*len(table)/groupWords))
	c.words = c.set.Zeros("leaves", uint64(leafSize*len(c.leaves)))
	if err := c.set.Err(); err != nil {
		return err
	}
	if c.ring, err = c.device.NewReadback("gputrain.histogram.leaves", c.words.Bytes(), 1); err != nil {
		return err
	}
	c.program, err = c.record(jobs).Program(ctx)
	return err
}

// Len is the number of histograms that a count gives.
func (c *Counter) Len() int { return len(c.leaves) }

// Bytes is the device memory of the counter.
func (c *Counter) Bytes() uint64 {
	return c.set.Bytes() + c.words.Bytes() + c.program.UniformBytes()
}

// Submit submits a count of the trees as they are after all earlier submits. Take must have taken the one before.
func (c *Counter) Submit(ctx context.Context) error { return c.program.Submit(ctx) }

// Take waits for the count that was submitted.
func (c *Counter) Take(ctx context.Context) ([]Histogram, error) {
	raw, err := c.ring.Next(ctx)
	if err != nil {
		return nil, fmt.Errorf("histogram: take: %w", err)
	}
	out := make([]Histogram, len(c.leaves))
	list := make([]uint32, leafWords)
	for i, leaf := range c.leaves {
		for k := range list {
			list[k] = binary.LittleEndian.Uint32(raw[leafSize*i+4*k:])
		}
		out[i] = parse(leaf.name, leaf.elements, list)
	}
	return out, nil
}

// Release gives everything back. A count that has not been taken is dropped.
func (c *Counter) Release() {
	c.program.Release()
	c.ring.Release()
	c.set.Release()
}
