package window

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
)

// binCount is the number of bins of a histogram.
const binCount = 64

// A group has these words in the counts of a tally.
const (
	binsAt  = 256 // behind the counts of the exponents
	rangeAt = binsAt + binCount
	stride  = rangeAt + 16
)

//go:embed exponents.wgsl
var exponentsSource string

//go:embed range.wgsl
var rangeSource string

//go:embed bins.wgsl
var binsSource string

var (
	exponentsKernel = gpu.KernelOf("gputrain.window.exponents", places(exponentsSource))
	binsKernel      = gpu.KernelOf("gputrain.window.bins", places(binsSource))
	rangeKernel     = gpu.KernelOf("gputrain.window.range", places(rangeSource))
)

// perWorkgroup is ITEMS of the shaders.
const perWorkgroup = 4096

func places(source string) string {
	return strings.NewReplacer("{{STRIDE}}", strconv.Itoa(stride), "{{RANGE}}", strconv.Itoa(rangeAt), "{{BINS}}", strconv.Itoa(binsAt)).Replace(source)
}

// group is leaves that are counted together: those of one name in all layers.
type group struct {
	label    string
	leaves   []buffers.Leaf
	elements int
}

// groups puts the leaves of a tree together by their names without the numbers of layers, and keeps the largest. Matrices alone, where
// there are any: vectors are few numbers, most of them near where they began.
func groups(leaves []buffers.Leaf, most int) []group {
	if slices.ContainsFunc(leaves, isMatrix) {
		leaves = slices.DeleteFunc(slices.Clone(leaves), func(l buffers.Leaf) bool { return !isMatrix(l) })
	}
	var all []group
	for _, l := range leaves {
		label := pattern(l.Path)
		i := slices.IndexFunc(all, func(g group) bool { return g.label == label })
		if i < 0 {
			i = len(all)
			all = append(all, group{label: label})
		}
		all[i].leaves, all[i].elements = append(all[i].leaves, l), all[i].elements+l.Elements()
	}
	if len(all) > most {
		sizes := slices.Clone(all)
		slices.SortStableFunc(sizes, func(a, b group) int { return cmp.Compare(b.elements, a.elements) })
		kept := sizes[:most]
		all = slices.DeleteFunc(all, func(g group) bool {
			return !slices.ContainsFunc(kept, func(k group) bool { return k.label == g.label })
		})
	}
	return all
}

func isMatrix(l buffers.Leaf) bool { return len(l.Shape) > 1 }

// pattern is a path with * for the number of a layer: "h.*.attn.c_attn.weight".
func pattern(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

// tally counts the elements of a tree's leaves in histograms, on the tree's device.
type tally struct {
	device  *gpu.Device
	groups  []group
	counts  *gpu.Buffer
	shown   *gpu.Buffer // the counts taken last, for drawing: counts itself may be half a count further
	ring    *gpu.Readback
	program *gpu.Program
	show    *gpu.Program
}

// newTally prepares histograms of at most so many groups of an F32 tree.
func newTally(ctx context.Context, tree *buffers.Tree, most int) (*tally, error) {
	if tree.DType() != buffers.F32 {
		return nil, fmt.Errorf("window: tally: tree %q: found dtype %v, wanted %v", tree.Label(), tree.DType(), buffers.F32)
	}
	t := &tally{device: tree.Device(), groups: groups(tree.Layout().Leaves(), most)}
	bytes := max(uint64(4*stride*len(t.groups)), 4)
	var err error
	if t.counts, err = t.device.NewBuffer("gputrain.window.counts", bytes); err != nil {
		return nil, fmt.Errorf("window: tally: %w", err)
	}
	if err = t.make(ctx, tree, bytes); err != nil {
		t.Release()
		return nil, fmt.Errorf("window: tally: %w", err)
	}
	return t, nil
}

func (t *tally) make(ctx context.Context, tree *buffers.Tree, bytes uint64) (err error) {
	if t.shown, err = t.device.NewBuffer("gputrain.window.shown", bytes); err != nil {
		return err
	}
	if t.ring, err = t.device.NewReadback("gputrain.window.counts", bytes, 1); err != nil {
		return err
	}
	if t.program, err = t.record(tree).Program(ctx); err != nil {
		return err
	}
	r := t.device.Record("show")
	r.Copy(t.shown.All(), t.counts.All())
	t.show, err = r.Program(ctx)
	return err
}

func (t *tally) record(tree *buffers.Tree) *gpu.Recording {
	r := t.device.Record("tally")
	r.Zero(t.counts.All())
	leaves := func(k *gpu.Kernel) {
		for i, g := range t.groups {
			for _, l := range g.leaves {
				for _, p := range l.Parts {
					grid := gpu.Linear(uint64(p.Count), perWorkgroup, t.device.Limits())
					r.Dispatch(k, grid, struct{ First, Count uint32 }{uint32(i * stride), uint32(p.Count)}, tree.Part(p), t.counts.All())
				}
			}
		}
	}
	leaves(exponentsKernel)
	r.Dispatch(rangeKernel, gpu.Grid{X: uint32(len(t.groups)), Y: 1, Z: 1}, uint32(len(t.groups)), t.counts.All())
	leaves(binsKernel)
	r.ReadBack(t.ring, t.counts.All())
	return r
}

// count submits a count of the tree as it is after what has been submitted before. take must have taken the one before.
func (t *tally) count(ctx context.Context) error { return t.program.Submit(ctx) }

// take waits for the counts, and shows them where they are drawn.
func (t *tally) take(ctx context.Context) ([]histogram, error) {
	raw, err := t.ring.Next(ctx)
	if err != nil {
		return nil, fmt.Errorf("window: tally: %w", err)
	}
	out := make([]histogram, len(t.groups))
	for i, g := range t.groups {
		h := histogram{Label: g.label, Elements: g.elements}
		for w := range stride {
			h.words[w] = binary.LittleEndian.Uint32(raw[4*(i*stride+w):])
		}
		out[i] = h
	}
	if err := t.show.Submit(ctx); err != nil {
		return nil, fmt.Errorf("window: tally: %w", err)
	}
	return out, nil
}

// Release gives everything back.
func (t *tally) Release() {
	t.program.Release()
	t.show.Release()
	t.ring.Release()
	t.shown.Release()
	t.counts.Release()
}

// histogram is the counts of one group.
type histogram struct {
	Label    string
	Elements int
	words    [stride]uint32
}

// rangeOf is r where the bins go from -r to r.
func (h histogram) rangeOf() float64 { return math.Ldexp(1, int(h.words[rangeAt])-126) }

// nonFinite is how many elements are NaN or infinite.
func (h histogram) nonFinite() uint32 { return h.words[255] }
