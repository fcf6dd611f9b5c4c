package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/graph/compile"
)

// gap is something that is not as it should be, and what to try.
type gap struct {
	What  string  `json:"what"`
	Share float64 `json:"share"` // of the time that could be spared; 1 where it is no matter of time
	Try   string  `json:"try"`
}

// What is called a gap: of a step's time, of the best product's speed, and of planned memory.
const (
	gapShare  = 0.05
	gapRatio  = 1.5
	slowShape = 0.5
	gapMemory = 1.1
	mostGaps  = 10
)

// gaps are the largest first.
func gaps(c Card) []gap {
	out := []gap{}
	for _, r := range c.Checks {
		if !r.Pass {
			out = append(out, gap{"check " + r.Case + " fails", 1, "a newer driver; gputrain doctor --shaders DIR writes the kernels, to report with this page"})
		}
	}
	for _, p := range c.Parts {
		if p.Failed != "" {
			out = append(out, gap{p.Name + " failed: " + p.Failed, 1, "the same command again, then a newer driver; report it with this page"})
		}
		if p.Name == "products" {
			out = append(out, slowProducts(p.Figures)...)
		}
	}
	memory := fastest(c)
	for _, m := range c.Models {
		if wrong := m.impossible(memory); wrong != "" {
			out = append(out, gap{m.Name + ": " + wrong, 1, "report it: all times of this model's operations are doubtful"})
			m.Operations = nil
		}
		out = append(out, m.gaps(c.Adapter.Type == "cpu")...)
	}
	slices.SortStableFunc(out, func(a, b gap) int { return cmp.Compare(b.Share, a.Share) })
	seen := map[string]bool{}
	out = slices.DeleteFunc(out, func(g gap) bool { // of several that the same may help, the largest
		again := seen[g.Try] && g.Share < 1
		seen[g.Try] = true
		return again
	})
	return out[:min(mostGaps, len(out))]
}

// fastest is the most that a figure of the card has moved, in GB/s; 0 without one.
func fastest(c Card) (rate float64) {
	for _, p := range c.Parts {
		for _, f := range p.Figures {
			if f.Unit == "GB/s" {
				rate = max(rate, f.Value)
			}
		}
	}
	return rate
}

// beyondCaches is how much a dispatch moves that no cache of a card holds.
const beyondCaches = 128 << 20

// impossible names an operation that moves more than memory can, in GB/s, by a tenth; "" where there is none. What fits a cache may.
func (m CardModel) impossible(memory float64) string {
	for _, o := range m.Operations {
		rate := o.Bytes / max(o.Seconds, 1e-9) / 1e9
		if memory > 0 && rate > 1.1*memory && o.Bytes >= beyondCaches*float64(max(1, o.Dispatches)) {
			return fmt.Sprintf("%s moves %.0f GB/s by its profile, of %.0f that this memory can: the time is wrong", o.Name, rate, memory)
		}
	}
	return ""
}

func (m CardModel) gaps(software bool) (out []gap) {
	passes := 0.0
	for _, o := range m.Operations {
		passes += o.Seconds
		if lost := (o.Seconds - o.Predicted) / m.Profiled; o.Ratio > gapRatio && lost > gapShare {
			out = append(out, gap{fmt.Sprintf("%s: %s: %.1f times what the limits of the adapter allow, %.0f %% of a step", m.Name, o.Name, o.Ratio, 100*o.Seconds/m.Profiled), lost, toTry(o.Name, software)})
		}
	}
	if idle := (m.Seconds - passes) / max(m.Seconds, 1e-9); passes > 0 && idle > 2*gapShare {
		try := "a larger train.batch, so that each kernel has more to do; a longer device.submit_limit, if a step has many submits"
		if software {
			try = "a larger train.batch; device.texels: off, to see what copies of operands to textures take, which are between passes"
		}
		out = append(out, gap{fmt.Sprintf("%s: %.0f %% of a step is between passes", m.Name, 100*idle), idle, try})
	}
	if m.SubmitLimit > 0 && m.LongestSubmit > m.SubmitLimit && !software {
		out = append(out, gap{fmt.Sprintf("%s: a submit takes %.2f s, more than device.submit_limit", m.Name, m.LongestSubmit), 1, "a smaller train.batch with a larger train.accumulate"})
	}
	if float64(m.Taken) > gapMemory*float64(m.Planned) {
		out = append(out, gap{fmt.Sprintf("%s: took %s of memory, planned %s", m.Name, gpu.SizeText(m.Taken), gpu.SizeText(m.Planned)), 1, "report it; train.recompute: layers until then"})
	}
	return out
}

// slowProducts names those far below the best.
func slowProducts(all []Figure) []gap {
	best := 0.0
	for _, f := range all {
		best = max(best, f.Value)
	}
	var slow []string
	for _, f := range all {
		if f.Value < slowShape*best {
			slow = append(slow, fmt.Sprintf("%s (%.2f of the best)", strings.TrimPrefix(f.Bench, "matmul "), f.Value/best))
		}
	}
	if len(slow) == 0 {
		return nil
	}
	return []gap{{"products " + strings.Join(slow, ", ") + " are slow", gapShare, "model.width, model.intermediate and model.vocab as multiples of 128, a larger train.batch"}}
}

// toTry is what may help with operations of a kind.
func toTry(operation string, software bool) string {
	switch {
	case operation == updating:
		return "a larger train.accumulate, so that there are fewer updates; an optimizer with less state, such as lion"
	case operation == compile.Products && software, operation == compile.Attention && software:
		return "device.texels: all; a newer Mesa"
	case operation == compile.Products:
		return "shapes of the table of products that are fast: model.width and model.intermediate as multiples of 128, a larger train.batch"
	case operation == compile.Attention:
		return "heads of 64 or 128 (model.heads, model.head_dim); a shorter model.context"
	case operation == compile.Head:
		return "model.vocab as a multiple of 64; a larger train.batch"
	}
	return "a larger train.batch, so that kernels have more to do; train.recompute: none, if memory allows"
}
