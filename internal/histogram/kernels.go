package histogram

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

const (
	lanes       = 64            // invocations a workgroup
	groupVecs   = lanes * 16    // vec4s of a group at most
	groupWords  = 4             // of the table: first vec4 in the slab, elements, leaf, spare
	partialSize = 16            // bytes a group leaves
	leafSize    = 4 * leafWords // and a leaf
)

// kernel specialises shaders/histogram_<name>.wgsl.
func kernelOf(name string) *gpu.Kernel {
	return gpu.NewKernel("gputrain.histogram."+name, "histogram_"+name, shaders.Variant{Constants: map[string]string{
		"LANES": fmt.Sprint(lanes), "BINS": fmt.Sprint(Bins), "WORDS": fmt.Sprint(leafWords),
	}})
}

// A job is the groups of one slab: words first to first+count of the table.
type job struct {
	slab         gpu.Range
	first, count uint32
}

// layOut chooses leaves and cuts them into groups of consecutive elements: the table of all groups, the first group of
// each leaf and after the last, and what is to be dispatched: groups that follow on each other in the table and lie in
// one slab.
func (c *Counter) layOut(sources []Source, match func(string) bool) (table, firsts []uint32, jobs []job) {
	groups := uint32(0)
	for _, s := range sources {
		for _, leaf := range s.Tree.Layout().Leaves() {
			name := s.Name + "/" + leaf.Path
			if len(leaf.Parts) == 0 || match != nil && !match(name) {
				continue
			}
			firsts = append(firsts, groups)
			for _, part := range leaf.Parts {
				begin := groups
				for at := 0; at < part.Count; at += 4 * groupVecs {
					table = append(table, uint32((part.Offset+at)/4), uint32(min(part.Count-at, 4*groupVecs)), uint32(len(c.leaves)), 0)
					groups++
				}
				slab := s.Tree.Slab(part.Slab)
				if n := len(jobs); n > 0 && jobs[n-1].slab == slab {
					jobs[n-1].count += groups - begin
				} else {
					jobs = append(jobs, job{slab, begin, groups - begin})
				}
			}
			c.leaves = append(c.leaves, counted{name, uint64(leaf.Elements())})
		}
	}
	return table, append(firsts, groups), jobs
}

// record records a count of everything, and its way back.
func (c *Counter) record(jobs []job) *gpu.Recording {
	rec, limits := c.device.Record("gputrain.histogram"), c.device.Limits()
	rec.Group("histogram")
	rec.Zero(c.words.All())
	each := func(name string, bind ...gpu.Range) {
		k := kernelOf(name)
		for _, j := range jobs {
			params := struct{ First, Count uint32 }{j.first, j.count}
			rec.Dispatch(k, gpu.Linear(uint64(j.count), 1, limits), params, append([]gpu.Range{c.table.All(), j.slab}, bind...)...)
		}
	}
	each("range", c.words.All())
	each("bins", c.words.All(), c.partials.All())
	n := uint32(len(c.leaves))
	rec.Dispatch(kernelOf("fold"), gpu.Linear(uint64(n), 1, limits), n, c.firsts.All(), c.partials.All(), c.words.All())
	rec.ReadBack(c.ring, c.words.All())
	return rec
}

// check refuses trees that the kernels cannot read.
func check(sources []Source) error {
	for _, s := range sources {
		if d := s.Tree.DType(); d != buffers.F32 {
			return fmt.Errorf("histogram: %s: found dtype %v, wanted %v", s.Name, d, buffers.F32)
		}
		if s.Tree.Device() != sources[0].Tree.Device() {
			return fmt.Errorf("histogram: %s: found a tree of another device than that of %s, wanted one device", s.Name, sources[0].Name)
		}
		for _, leaf := range s.Tree.Layout().Leaves() {
			if leaf.Elements() > 1<<32-1 {
				return fmt.Errorf("histogram: %s/%s: found %d elements, wanted at most 2^32 - 1", s.Name, leaf.Path, leaf.Elements())
			}
		}
	}
	return nil
}
