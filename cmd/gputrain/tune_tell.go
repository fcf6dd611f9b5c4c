package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gputrain/buffers/array"
	"gputrain/cmd/gputrain/tuning"
	"gputrain/gpu"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/run/data/texts"
	"gputrain/run/grpo"
	"gputrain/run/rollout"
	"gputrain/run/runfile"
	"gputrain/run/train"
)

// advise adds to an error what else fits, and which card would do.
func (h *choosing) advise(ctx context.Context, large *tuning.TooLargeError) error {
	bases := array.Names(array.Bases)
	smallest := "model.base=" + bases[len(bases)-1]
	var ways []string
	for _, sets := range [][]string{{noSamples}, {smallest}, {noSamples, smallest}} {
		other := *h
		other.set = slices.Concat(h.set, sets)
		if fits, err := other.fits(ctx, large.Least); err == nil && fits {
			ways = append(ways, "it fits with --set "+strings.Join(sets, " --set "))
			break
		}
	}
	cfg, err := h.config(&large.Least)
	if err != nil {
		return err
	}
	card, err := holding(ctx, cfg)
	if err != nil {
		return err
	}
	large.Advice = strings.Join(append(ways, card), "; ")
	return nil
}

// expected is about how long a run of so many steps takes, and each of what it does.
func (h *choosing) expected(ctx context.Context, cfg *runfile.Config, text *texts.Corpus, steps int64) (whole, each string, err error) {
	peak, err := h.peak(ctx)
	if err != nil {
		return "", "", err
	}
	run := train.Config{Options: cfg.Train.Loop, State: h.planned, Validation: text.Validation}
	if r := cfg.Rollout; h.given.Method.Draws {
		run.Rollouts = &grpo.Config{Samples: r.Samples, Updates: r.Updates, EvalSamples: r.EvalSamples, Drawing: rollout.Config{Tokens: r.Tokens, Rows: r.Rows}}
	}
	if run.Steps = steps; run.Validation != nil && run.Sample.Tokens > 0 {
		if run.Asked = make([]train.Question, len(cfg.Train.Ask)); len(run.Asked) == 0 {
			run.Answers = asked
		}
	}
	return train.Expected(run, time.Since(h.begun), h.device.Adapter(), peak, h.takes.Submits)
}

// tell says what was chosen, and how long it takes.
func (h *choosing) tell(out io.Writer, name string, r tuning.Recipe, cfg *runfile.Config, choices []tuning.Choice) error {
	of := "unknown"
	if bytes, _, known := h.device.Available(); known {
		of = gpu.SizeText(bytes)
	}
	lines := []string{
		fmt.Sprintf("model      %s: %s, %d parameters, stored as %s", name, h.definition.Kind(), model.Parameters(h.definition), r.Stored()),
		"data       " + h.description,
	}
	for _, said := range h.sets {
		lines = append(lines, "data set   "+said)
	}
	lines = append(lines, fmt.Sprintf("adapter    %s", h.device.Adapter()))
	for _, c := range choices {
		if c.Text != "" {
			lines = append(lines, c.Text)
		}
	}
	device, host := h.memory(cfg)
	takes := fmt.Sprintf("takes      %s of %s memory", gpu.SizeText(device+host), of)
	if host > 0 {
		takes += fmt.Sprintf(": buffers %s, program and checkpoints %s", gpu.SizeText(device), gpu.SizeText(host))
	}
	lines = append(lines, takes, fmt.Sprintf("time       at least %s for all, at half of the adapter's peak; what its driver has yet to compile is not in it", h.lasts),
		"of which   "+h.each)
	for _, line := range lines {
		text := []rune(terminal.Text(line))
		if len(text) > widest {
			text = append(text[:widest-1], '…')
		}
		if _, err := fmt.Fprintln(out, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// peak is how many operations a second the adapter makes at best: by its published figure, or typical of its kind, where it is not here.
func (h *choosing) peak(ctx context.Context) (float64, error) {
	if h.card == "" {
		return pipeline.Peak(ctx, []*gpu.Device{h.device})
	}
	if c, ok := namedCard(h.card); ok && c.FLOPS > 0 {
		return c.FLOPS, nil
	}
	return h.device.Adapter().Typical().FLOPS, nil
}

// widest is how many characters a line of choices has at most.
const widest = 120
