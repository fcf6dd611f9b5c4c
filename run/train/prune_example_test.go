package train_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/run/train"
)

// pruner is a hook that takes the smallest weights away: from step at on, share of the elements of each parameter that match fits are zero, and
// stay zero. It holds a mask beside the parameters on every device of the run and lays it over them behind each update, so that what
// is evaluated and saved is sparse too. A run that goes on behind step at finds its mask in the zeros of the checkpoint.
type pruner struct {
	match *regexp.Regexp
	share float64
	at    int64

	masks []*buffers.Tree
	lay   []*gpu.Program
}

func (p *pruner) Event(ctx context.Context, e train.Event) error {
	switch {
	case e.Kind == train.StepBegin && e.Step >= p.at && p.lay == nil: // before the forward pass
		if err := p.prepare(ctx, e); err != nil {
			return err
		}
		return p.prune(ctx)
	case e.Kind == train.StepEnd: // behind the update
		return p.prune(ctx)
	case e.Kind == train.Ended:
		p.release()
	}
	return nil
}

// prepare makes a mask for each tree of parameters, and the program that lays it over them.
func (p *pruner) prepare(ctx context.Context, e train.Event) error {
	s, ok := e.State.(interface {
		Trees() (params, grads []*buffers.Tree)
	})
	if !ok {
		return fmt.Errorf("prune: found a %T, wanted a state with trees", e.State)
	}
	params, _ := s.Trees()
	for _, tree := range params {
		hosts, err := tree.Download(ctx)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			p.mask(h, e.Step == p.at)
		}
		mask, err := buffers.NewTree(tree.Device(), "mask", tree.Layout(), buffers.F32)
		if err != nil {
			return err
		}
		p.masks = append(p.masks, mask)
		if err := mask.WriteAll(hosts); err != nil {
			return err
		}
		rec := tree.Device().Record("prune")
		if err := buffers.Map(rec, tree, "select(vec4<f32>(0.0), a, b != vec4<f32>(0.0))", tree, mask); err != nil {
			return err
		}
		lay, err := rec.Program(ctx)
		if err != nil {
			return err
		}
		p.lay = append(p.lay, lay)
	}
	return nil
}

// mask turns weights into 0 and 1: 0 for the smallest if they are to be pruned now, else for those that are zero.
func (p *pruner) mask(h buffers.Host, now bool) {
	order := make([]int, len(h.Data))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(math.Abs(float64(h.Data[i])), math.Abs(float64(h.Data[j])))
	})
	pruned := int(p.share * float64(len(order)))
	for rank, i := range order {
		out := p.match.MatchString(h.Path) && (now && rank < pruned || !now && h.Data[i] == 0)
		h.Data[i] = 1
		if out {
			h.Data[i] = 0
		}
	}
}

func (p *pruner) prune(ctx context.Context) error {
	for _, lay := range p.lay {
		if err := lay.Submit(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *pruner) release() {
	for _, lay := range p.lay {
		lay.Release()
	}
	for _, mask := range p.masks {
		mask.Release()
	}
	p.lay, p.masks = nil, nil
}

// Half of the weights of all blocks go at step 500 of a run, and the others learn to do without them.
func ExampleHook_pruning() {
	var dev *gpu.Device // an open one
	c := train.Config{} // a run, as in the example of Run
	c.Hooks = append(c.Hooks, &pruner{match: regexp.MustCompile(`^h\.\d+\.(attn|mlp)\..*weight$`), share: 0.5, at: 500})
	result, err := train.Run(context.Background(), dev, c)
	fmt.Println(result.Step, err)
}
