package pipeline

import (
	"fmt"
	"maps"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/optim"
	"gputrain/state"
)

// A stage is a device and what lives there of the model: the parameters of its parts, the gradients of those that are trained, the optimizer's state for them,
// copies of parameters that other stages own, and scratch that all of its programs share.
type stage struct {
	index   int
	where   string // its rank and host; "" in a pipeline of one process
	away    bool   // it is on another rank: it is built on a device without hardware, and does not run
	device  *gpu.Device
	params  *buffers.Tree // that are trained, if any
	frozen  *buffers.Tree // nil without any
	mirrors *buffers.Tree // nil without any
	lent    *buffers.Tree // copies of frozen ones; nil without any
	grads   *buffers.Tree // nil where nothing is trained
	sums    *state.Sums
	opt     *optim.State
	arena   *compile.Arena
	caches  map[string]*gpu.Buffer // keys and values of sampling, by input
	memory  state.MemoryPlan       // taken so far
}

// name tells a stage in errors and reports.
func (s *stage) name() string { return stageName(s.index, s.where, s.device.Adapter().String()) }

func stageName(index int, where, adapter string) string {
	if where != "" {
		where += ", "
	}
	return fmt.Sprintf("stage %d (%s%s)", index, where, adapter)
}

func (s *stage) release() {
	for _, t := range []*buffers.Tree{s.params, s.frozen, s.mirrors, s.lent, s.grads} {
		t.Release()
	}
	s.sums.Release()
	s.opt.Release()
	s.arena.Release()
	for _, b := range s.caches {
		b.Release()
	}
}

// cache is where a cache of a graph lies, the same for every program that asks for it.
func (s *stage) cache(name string, g *graph.Graph, c *graph.Value) (gpu.Range, error) {
	bytes := compile.Bytes(c.Type())
	if b, ok := s.caches[name]; ok {
		return b.Range(0, bytes), nil
	}
	b, err := compile.NewCache(s.device, "gputrain.pipeline."+name, g, c)
	if err != nil {
		return gpu.Range{}, err
	}
	if s.caches == nil {
		s.caches = map[string]*gpu.Buffer{}
	}
	s.caches[name] = b
	s.memory.Sampling += b.Bytes()
	return b.Range(0, bytes), nil
}

// residence is the leaves that live on one stage of a cut, sorted: its own, trained and frozen, and those that it has copies of.
type residence struct{ own, frozen, mirrored, lent []buffers.Spec }

// residences divides a model's leaves over the stages of a cut.
func residences(c *cut, specs []buffers.Spec, frozen []string, stages int) []residence {
	out, isFrozen := make([]residence, stages), map[string]bool{}
	for _, path := range frozen {
		isFrozen[path] = true
	}
	for i := range out {
		own, mirrored := map[string]bool{}, map[string]bool{}
		for p := i; p < len(c.Parts); p += stages {
			for _, path := range c.Parts[p].Params {
				own[path] = true
			}
			for _, path := range c.Parts[p].Mirrors {
				mirrored[path] = true
			}
		}
		maps.DeleteFunc(mirrored, func(path string, _ bool) bool { return own[path] })
		for _, s := range specs {
			switch {
			case own[s.Path] && isFrozen[s.Path]:
				out[i].frozen = append(out[i].frozen, s)
			case own[s.Path]:
				out[i].own = append(out[i].own, s)
			}
			switch {
			case mirrored[s.Path] && isFrozen[s.Path]:
				out[i].lent = append(out[i].lent, s)
			case mirrored[s.Path]:
				s.Table = false // it is trained
				out[i].mirrored = append(out[i].mirrored, s)
			}
		}
	}
	return out
}

// upload makes a tree of some leaves of a model; a dry device gets none of their numbers.
func (s *stage) upload(label string, dtype buffers.DType, layout *buffers.Layout, params []buffers.Host) (*buffers.Tree, error) {
	tree, err := buffers.NewTree(s.device, label, layout, dtype)
	if err != nil || s.device.Dry() {
		return tree, err
	}
	var chosen []buffers.Host
	for _, h := range params {
		if _, ok := layout.Leaf(h.Path); ok {
			chosen = append(chosen, h)
		}
	}
	if err := tree.WriteAll(chosen); err != nil {
		tree.Release()
		return nil, err
	}
	return tree, nil
}
