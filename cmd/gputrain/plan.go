package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gputrain/cmd/gputrain/lab/scaling"
	"gputrain/gpu"
	"gputrain/internal/schedule"
	"gputrain/run/fit"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state"
)

type planCmd struct {
	runFlags
	Adapter string `help:"Adapter of every stage: index, part of a name, or backend:part." placeholder:"SEL" xor:"adapter"`
	Memory  string `help:"Plan for cards that are not here, one for every stage: of so much memory, or a card's name." placeholder:"24GiB|CARD" xor:"adapter"`
	Step    bool   `help:"Show the work of one training step instead, kernel by kernel, and its time at the limits of cards; with --adapter, of that adapter too; with --memory, with the kernels of that card."`
	Ranks   int    `help:"Show also how the run scales to up to this many such ranks, computed from this plan and from speeds."`
	Network string `help:"Speed of the network between ranks, such as 10Gbit." default:"10Gbit" placeholder:"SPEED"`
	JSON    bool   `help:"One JSON object on standard output."`
}

// planned is how a run is laid out, before it takes anything of a device. Sizes in bytes.
type planned struct {
	Model        string          `json:"model"`
	Parameters   int64           `json:"parameters"`
	Schedule     string          `json:"schedule"`
	Microbatches int             `json:"microbatches"` // of an update
	Rows         int             `json:"rows"`         // sequences a microbatch
	Sequence     int             `json:"sequence"`     // tokens
	Bubble       float64         `json:"bubble"`       // mean share of a step in which stages wait, as expected
	Stages       []plannedStage  `json:"stages"`
	Host         plannedHost     `json:"host"`
	Recompute    string          `json:"recompute"` // the choice that the stages are planned with
	Choices      []plannedChoice `json:"choices"`
	Advice       []advised       `json:"advice,omitempty"` // where nothing fits
	Card         string          `json:"card,omitempty"`   // where nothing fits: which card has the memory
	Picture      string          `json:"picture"`
	Note         string          `json:"note,omitempty"`
	Short        string          `json:"texts_at_once,omitempty"` // where memory has no room for all
	Ranks        *scaling.Table  `json:"ranks,omitempty"`

	again   float64 // of a forward pass, of the choice that the stages are planned with
	refused error   // why it does not fit; nil: it does
}

// plannedChoice is what all stages take together with a choice of what is computed again.
type plannedChoice struct {
	Recompute   string  `json:"recompute"`
	Activations uint64  `json:"activations_bytes"` // with workspace
	Planned     uint64  `json:"planned_bytes"`
	Again       float64 `json:"again"` // of a forward pass, by operations
	Fits        bool    `json:"fits"`
}

// plannedStage is one stage of it.
type plannedStage struct {
	Stage     int        `json:"stage"`
	Rank      int        `json:"rank,omitempty"` // of several that the stages are on
	Adapter   string     `json:"adapter"`
	Index     int        `json:"adapter_index"`
	Parts     [][]string `json:"parts"` // the units of each
	Params    int64      `json:"parameters"`
	Planned   uint64     `json:"planned_bytes"`
	Memory    string     `json:"memory"`          // what they are for
	Available *uint64    `json:"available_bytes"` // null where nothing tells
	Busy      float64    `json:"busy"`            // share of a step, as expected
	plannedSubmits
	gpu.Speed // that submits are planned with
}

func (c *planCmd) Run(ctx context.Context) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if c.Step {
		return c.runStep(ctx, cfg)
	}
	p, err := c.plan(ctx, cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(os.Stdout).Encode(p)
	} else {
		err = p.write(os.Stdout)
	}
	if err != nil {
		return err
	}
	return p.refused
}

func (c *planCmd) plan(ctx context.Context, cfg *runfile.Config) (*planned, error) {
	if c.Ranks < 0 || c.Ranks > mostRanks {
		return nil, usageError{fmt.Errorf("--ranks: found %d, wanted 1 to %d", c.Ranks, mostRanks)}
	}
	if n := cfg.Pipeline.PerReplica(); c.Ranks%n != 0 {
		return nil, usageError{fmt.Errorf("--ranks: found %d, wanted a multiple of the %d that the stages are on (pipeline.adapters)", c.Ranks, n)}
	}
	st, err := plannedState(ctx, cfg, told)
	if err != nil {
		return nil, err
	}
	units, err := setup.Units(cfg, st)
	if err != nil {
		return nil, err
	}
	devices, adapters, release, err := c.open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer release()
	cut, powers, err := setup.Cut(ctx, cfg, st, units, devices)
	if err != nil {
		return nil, err
	}
	order, err := schedule.New(schedule.Config{
		Name: cfg.Pipeline.Schedule, Stages: cut.Stages, Chunks: cut.Parts / cut.Stages, Microbatches: scaling.Played(st.Microbatches, cut.Stages), Ahead: cfg.Pipeline.Ahead,
	})
	if err != nil {
		return nil, usageError{err}
	}
	out := layOut(order, st, units, cut)
	on := fit.On{Config: setup.Pipeline(cfg, cut), Devices: devices}
	if err := out.addMemory(ctx, cfg, st, on); err != nil {
		return nil, err
	}
	if c.Memory == "" {
		out.onRanks(cfg.Pipeline.Ranks(), adapters)
	}
	var short *state.MemoryError
	if errors.As(out.refused, &short) {
		if out.Advice, err = c.advice(ctx, cfg, st, devices, short); err != nil {
			return nil, err
		}
		if out.Card, err = holding(ctx, cfg); err != nil {
			return nil, err
		}
	}
	out.expect(order, units, cut, powers)
	if c.Ranks == 0 {
		return out, nil
	}
	network, err := scaling.ParseNetwork(c.Network)
	if err != nil {
		return nil, usageError{err}
	}
	r := scaling.Run{
		Config: on.Config, Units: units, Cut: cut, Powers: powers, On: devices, Again: out.again,
		Ranks: cfg.Pipeline.Ranks(), Each: cfg.Pipeline.PerReplica(),
	}
	r.Config.State = st
	r.Config.State.Recompute = out.Recompute
	out.Ranks, err = r.Table(ctx, c.Ranks, network)
	return out, err
}

// open opens what the stages are planned on.
func (c *planCmd) open(ctx context.Context, cfg *runfile.Config) (devices []*gpu.Device, adapters []gpu.Adapter, release func(), err error) {
	if c.Memory == "" {
		return setup.OpenPlanned(ctx, cfg, c.Adapter)
	}
	devices, err = devicesOn(cfg, c.Memory)
	return devices, nil, func() {}, err
}

// plannedState is what a run trains, with what it needs beside steps.
func plannedState(ctx context.Context, cfg *runfile.Config, out io.Writer) (state.Config, error) {
	p, err := setup.Plan(cfg, out)
	if err != nil {
		return state.Config{}, err
	}
	st, t := p.State, p.Spec.Train
	st.Sampling = t.Sample.Tokens > 0
	if p.Spec.HoldsOut() && t.EvalEvery > 0 && !p.Spec.DrawsRollouts() { // rewards are measured as training draws
		st.Evaluation = fit.EvaluationRows(ctx, st, t.EvalTokens)
	}
	return st, nil
}

func (p *planned) write(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d parameters; microbatches an update: %d, of %d x %d tokens\nschedule %s, %.0f %% bubble expected\n\n",
		p.Model, p.Parameters, p.Microbatches, p.Rows, p.Sequence, p.Schedule, 100*p.Bubble)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STAGE\tLAYERS\tPARAMETERS\tPLANNED\tOF\tBUSY")
	for _, s := range p.Stages {
		available := "unknown"
		if s.Available != nil {
			available = gpu.SizeText(*s.Available)
		}
		var parts []string
		for _, names := range s.Parts {
			parts = append(parts, span(names))
		}
		row(w, 60, fmt.Sprint(s.Stage), strings.Join(parts, " | "), fmt.Sprint(s.Params), gpu.SizeText(s.Planned), available, fmt.Sprintf("%.0f %%", 100*s.Busy))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, note := range []string{p.Note, p.Short} {
		if note != "" {
			fmt.Fprintf(out, "\n%s\n", strings.Join(wrapped(note, pageWidth), "\n"))
		}
	}
	fmt.Fprintln(out)
	for _, s := range p.Stages {
		for _, text := range []string{s.place(p.Note != ""), s.Memory, s.submitsText()} {
			fmt.Fprintln(out, strings.Join(wrapped(fmt.Sprintf("stage %d: %s", s.Stage, text), pageWidth-2), "\n  "))
		}
	}
	fmt.Fprintln(out, strings.Join(wrapped("host: "+p.Host.text, pageWidth-2), "\n  "))
	fmt.Fprintln(out)
	fmt.Fprintln(w, "RECOMPUTE\tACTIVATIONS\tPLANNED\tFITS\tWORK")
	for _, c := range p.Choices {
		fits, chosen := "no", ""
		if c.Fits {
			fits = "yes"
		}
		if c.Recompute == p.Recompute {
			chosen = ", planned with above"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t+%.0f %%%s\n", c.Recompute, gpu.SizeText(c.Activations), gpu.SizeText(c.Planned), fits, 100*c.Again/3, chosen)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(p.Advice) > 0 {
		fmt.Fprintln(out)
		if err := writeAdvice(out, p.Advice); err != nil {
			return err
		}
	}
	if p.Card != "" {
		fmt.Fprintf(out, "\n%s\n", p.Card)
	}
	if _, err := fmt.Fprintf(out, "\n%s", p.Picture); err != nil || p.Ranks == nil {
		return err
	}
	return p.Ranks.Write(out)
}

// place is where a stage is, with its rank where there are several.
func (s plannedStage) place(ranked bool) string {
	if ranked {
		return fmt.Sprintf("rank %d, %s", s.Rank, s.Adapter)
	}
	return s.Adapter
}

// span writes the names of units that follow each other: "embedding, h.0 to h.3".
func span(names []string) string {
	from, to := 0, len(names)
	if names[0] == "embedding" {
		from++
	}
	if to > from && names[to-1] == "head" {
		to--
	}
	layers := names[from:to]
	if n := len(layers); n > 2 {
		layers = []string{layers[0] + " to " + layers[n-1]}
	}
	return strings.Join(slices.Concat(names[:from], layers, names[to:]), ", ")
}

// plannedHost is what a run takes of the host's memory beside the devices' buffers. Sizes in bytes.
type plannedHost struct {
	Program   uint64  `json:"program_bytes"`
	Staging   uint64  `json:"staging_bytes"`
	Copy      uint64  `json:"copy_bytes"`      // of a checkpoint, which is written while training goes on
	Copies    bool    `json:"copies"`          // it is taken: train.save_async, and there is room; else training waits
	Available *uint64 `json:"available_bytes"` // for a copy, beside all else and the reserve; null where nothing tells
	Reserve   uint64  `json:"reserve_bytes"`   // that is left to others

	text string
}

// hostOf is the host's part of a plan; async is train.save_async.
func hostOf(h state.HostPlan, async bool) plannedHost {
	out := plannedHost{Program: h.Program, Staging: h.Staging, Copy: h.Copy, Copies: h.Copies(async), Reserve: h.Reserve}
	left := "of what is not known"
	if h.Free != math.MaxUint64 {
		out.Available = &h.Free
		left = fmt.Sprintf("of %s left beside devices and a reserve of %s", size(h.Free), size(h.Reserve))
	}
	waits := ""
	if !out.Copies {
		waits = ": not taken, training waits while a checkpoint is written (train.save_async)"
	}
	out.text = fmt.Sprintf("%s, %s%s", h, left, waits)
	return out
}

// plannedSubmits is what a step is submitted in, to one device.
type plannedSubmits struct {
	Submits       int     `json:"submits"`
	LongestSubmit float64 `json:"longest_submit_s"`          // as expected
	TooLong       string  `json:"submit_too_long,omitempty"` // the command that is beyond device.submit_limit by itself, and what to do
}

// summed is what submits planned with a limit come to.
func summed(all []gpu.Planned, limit time.Duration) (out plannedSubmits) {
	for _, s := range all {
		out.Submits += s.Times
		out.LongestSubmit = max(out.LongestSubmit, s.Takes.Seconds())
	}
	out.TooLong = train.TooLong(all, limit)
	return out
}

// addSubmits says how each stage is given its work, at the speed that its device is taken for until training measures it.
func (p *planned) addSubmits(all [][]gpu.Planned, devices []*gpu.Device) {
	for i, submits := range all {
		limit := devices[i].SubmitLimit()
		if devices[i].Limits().Software {
			limit = -1 // nothing resets a processor
		}
		p.Stages[i].plannedSubmits = summed(submits, limit)
		p.Stages[i].Speed, _ = devices[i].Speed()
	}
}

func (s plannedStage) submitsText() string {
	text := fmt.Sprintf("%d submits a step, the longest of %.2g s at %.3g TFLOP/s and %.0f GB/s, which training measures", s.Submits, s.LongestSubmit, s.FLOPS/1e12, s.BytesPerSecond/1e9)
	if s.TooLong != "" {
		text += "; " + s.TooLong
	}
	return text
}
