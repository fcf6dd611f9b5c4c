package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state"
)

// plannedStep is the work of a training step and the time that it takes at the limits of cards: computed, not measured.
type plannedStep struct {
	Model      string        `json:"model"`
	Parameters int64         `json:"parameters"`
	Tokens     int           `json:"tokens"` // of a step
	Kernels    string        `json:"kernels_of"`
	Recompute  string        `json:"recompute"` // auto keeps everything here, where there is no memory to fit
	Again      float64       `json:"again"`     // of a forward pass, by operations, which is in the work too
	Barriers   int           `json:"barriers"`
	Work       []plannedWork `json:"work"`
	Cards      []plannedCard `json:"cards"`
}

// plannedWork is the work of some of a step's dispatches.
type plannedWork struct {
	compile.Work
	MultiplyAdds int64 `json:"multiply_adds"` // half of the operations
}

// plannedCard is the time of a step on a card.
type plannedCard struct {
	card
	Seconds         float64    `json:"seconds"`
	Expected        float64    `json:"expected_seconds,omitempty"` // by the shares of its limits that kernels reach elsewhere; 0: the limits are measured
	TokensPerSecond float64    `json:"tokens_per_second"`          // as expected, else at the limits
	Groups          []timePart `json:"groups"`                     // the longest first
	plannedSubmits
}

// ofLimits is the share of a card's limits that submits are planned with: portable kernels are published with 10 to 25 % of the f32 peak of discrete
// cards.
const ofLimits = 0.25

type timePart struct {
	Group string  `json:"group"`
	Share float64 `json:"share"`
}

// runStep prints the work of a step.
func (c *planCmd) runStep(ctx context.Context, cfg *runfile.Config) error {
	p, err := c.planStep(ctx, cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(p)
	}
	return p.write(os.Stdout)
}

// planStep takes the kernels of the adapter that --adapter names, and measures what that can do, those of the card that --memory names, or those of a discrete
// card.
func (c *planCmd) planStep(ctx context.Context, cfg *runfile.Config) (*plannedStep, error) {
	p, err := setup.Plan(cfg, told)
	if err != nil {
		return nil, err
	}
	options, err := setup.DeviceOptions(cfg)
	if err != nil {
		return nil, err
	}
	on, all := card{}.adapter(options.Matrix), rated()
	if c.Memory != "" {
		if on, _, err = wantedCard(c.Memory, options.Matrix); err != nil {
			return nil, err
		}
	}
	if c.Adapter != "" {
		var measured card
		if on, measured, err = measuredCard(ctx, cfg, c.Adapter); err != nil {
			return nil, err
		}
		all = append(all, measured)
	}
	return stepOf(ctx, p.State, on, options.SubmitLimit, all)
}

// measuredCard is an adapter and what it does in a copy and in products.
func measuredCard(ctx context.Context, cfg *runfile.Config, sel string) (a gpu.Adapter, c card, err error) {
	if a, err = selectAdapter(sel); err != nil {
		return a, c, err
	}
	options, err := setup.DeviceOptions(cfg, a)
	if err != nil {
		return a, c, err
	}
	dev, err := gpu.Open(ctx, a, options)
	if err != nil {
		return a, c, err
	}
	defer dev.Release()
	a = dev.Adapter()
	a.Limits = dev.Limits()
	c, err = measuredOn(ctx, dev)
	return a, c, err
}

func measuredOn(ctx context.Context, dev *gpu.Device) (c card, err error) {
	c.Name = dev.Adapter().Name + ", measured"
	if c.FLOPS, err = pipeline.Peak(ctx, []*gpu.Device{dev}); err != nil {
		return c, err
	}
	if c.UnitFLOPS, err = bench.UnitPeak(ctx, dev); err != nil {
		return c, err
	}
	gigabytes, err := bench.Copy(ctx, dev)
	c.BytesPerSecond = gigabytes * 1e9
	return c, err
}

// stepOf computes the work of a step on an adapter, its times on cards and the submits that it is cut into there.
func stepOf(ctx context.Context, st state.Config, a gpu.Adapter, limit time.Duration, rated []card) (*plannedStep, error) {
	st.Evaluation, st.Sampling = 0, false
	dev := gpu.DryOf(a, a.Limits)
	j, err := state.NewJob(st)
	if err != nil {
		return nil, err
	}
	s, err := state.Dry(ctx, j, dev)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	p := &plannedStep{
		Model: st.Definition.Kind(), Parameters: model.Parameters(model.Student(st.Definition)), Tokens: st.Batch * st.Microbatches * st.Sequence, Kernels: a.Name,
		Recompute: st.Recompute,
	}
	if p.Again, err = j.Again(); err != nil {
		return nil, err
	}
	for _, w := range s.Work() {
		p.Work = append(p.Work, plannedWork{w, int64(w.FLOPs) / 2})
	}
	dev.Assume(rated[0].Speed, -1)
	for _, submit := range s.Submits()[0] {
		p.Barriers += submit.Times * submit.Barriers
	}
	slices.SortStableFunc(p.Work, func(a, b plannedWork) int {
		return cmp.Compare(rated[0].Seconds(b.Work.Work), rated[0].Seconds(a.Work.Work))
	})
	for _, c := range rated {
		dev.Assume(c.Times(ofLimits), limit)
		on := p.on(c)
		on.plannedSubmits = summed(s.Submits()[0], limit)
		p.Cards = append(p.Cards, on)
	}
	return p, nil
}

// on is the step on a card: kernels run one after the other, each at the limit that holds it most.
func (p *plannedStep) on(c card) plannedCard {
	out := plannedCard{card: c}
	for _, w := range p.Work {
		s := c.Speed.Seconds(w.Work.Work)
		out.Seconds += s
		if c.memory > 0 { // published
			out.Expected += s / reached(w.Work, c.UnitFLOPS > 0)
		}
		at := slices.IndexFunc(out.Groups, func(g timePart) bool { return g.Group == w.Group })
		if at < 0 {
			at = len(out.Groups)
			out.Groups = append(out.Groups, timePart{Group: w.Group})
		}
		out.Groups[at].Share += s
	}
	for i := range out.Groups {
		out.Groups[i].Share /= out.Seconds
	}
	slices.SortStableFunc(out.Groups, func(a, b timePart) int { return cmp.Compare(b.Share, a.Share) })
	out.TokensPerSecond = float64(p.Tokens) / cmp.Or(out.Expected, out.Seconds)
	return out
}

// operations is the card's TFLOP/s, and its matrix units' where they are used.
func (c card) operations(units bool) string {
	if units && c.UnitFLOPS > 0 {
		return fmt.Sprintf("%.3g, units %.3g", c.FLOPS/1e12, c.UnitFLOPS/1e12)
	}
	return fmt.Sprintf("%.3g", c.FLOPS/1e12)
}

func (p *plannedStep) write(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d parameters, %d tokens a step, with the kernels of %s; computed, not measured\n", p.Model, p.Parameters, p.Tokens, p.Kernels)
	if p.Again > 0 {
		fmt.Fprintf(out, "train.recompute %s: %.2f of a forward pass is computed again\n", p.Recompute, p.Again)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tOPERATION\tDISPATCHES\tMIB\tM MULTIPLY-ADDS\tKERNELS")
	all, rest := compile.Work{Group: "all"}, compile.Work{}
	line := func(r compile.Work) {
		row(w, 49, r.Group, r.Kind, fmt.Sprint(r.Dispatches), fmt.Sprintf("%.1f", r.Bytes/(1<<20)), fmt.Sprintf("%.1f", r.FLOPs/2/1e6), r.Kernels)
	}
	for _, r := range p.Work {
		line(r.Work)
		all.Dispatches, all.Work = all.Dispatches+r.Dispatches, all.Plus(r.Work.Work)
		if r.Group == compile.Rest {
			rest.Bytes, rest.Least = rest.Bytes+r.Bytes, rest.Least+r.Least
		}
	}
	line(all)
	fmt.Fprintf(w, "\nbarriers: %d, each before a dispatch or copy that uses a buffer after what wrote or read it\n", p.Barriers)
	fmt.Fprintf(w, "%s moves %.2f times the %.1f MiB of one kernel between every two products\n", compile.Rest, rest.Bytes/rest.Least, rest.Least/(1<<20))
	for _, g := range []string{compile.Attention, compile.Head} {
		needed, executed := 0.0, 0.0
		for _, r := range p.Work {
			if r.Group == g {
				needed, executed = needed+r.Needed, executed+r.FLOPs
			}
		}
		if executed > needed {
			fmt.Fprintf(w, "%s executes %.2f times the operations that it needs\n", g, executed/needed)
		}
	}
	fmt.Fprintln(w, "\nCARD\tGB/S\tTFLOP/S\tLIMIT MS\tEXPECTED\tTOKENS/S\tSUBMITS\tLONGEST MS\tLARGEST PARTS")
	for _, c := range p.Cards {
		var parts []string
		for _, g := range c.Groups[:min(3, len(c.Groups))] {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", g.Group, 100*g.Share))
		}
		expected := "-"
		if c.Expected > 0 {
			expected = fmt.Sprintf("%.1f", 1e3*c.Expected)
		}
		row(w, 34, c.Name, fmt.Sprintf("%.0f", c.BytesPerSecond/1e9), c.operations(all.Units > 0), fmt.Sprintf("%.1f", 1e3*c.Seconds), expected,
			fmt.Sprintf("%.0f", c.TokensPerSecond), fmt.Sprint(c.Submits), fmt.Sprintf("%.1f", 1e3*c.LongestSubmit), strings.Join(parts, ", "))
	}
	fmt.Fprintf(w, "\nsubmits, and the longest, as planned with %.0f %% of these limits; expected by what kernels reach of an H100's\n", 100*ofLimits)
	for _, c := range p.Cards {
		if c.TooLong != "" {
			fmt.Fprintln(w, strings.Join(wrapped(fmt.Sprintf("on %s %s", c.Name, c.TooLong), pageWidth), "\n"))
		}
	}
	return w.Flush()
}
