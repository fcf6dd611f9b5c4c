package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"time"

	"gputrain/cmd/gputrain/doctor"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/caught"
	"gputrain/internal/system"
	"gputrain/run/train"
)

// Meter measures a card part by part. A part that fails, or takes longer than its budget, leaves the others to be measured.
type Meter struct {
	Scale    Scale
	Adapter  gpu.Adapter
	Program  string // the file of this program, for the part that measures starts; "": none are
	Progress train.Progress
	Predict  Predict
	Save     func(Card) error // what is known after each part

	mu     sync.Mutex
	card   Card
	closed bool
	begun  time.Time // the part
}

// errBudget ends a part that has had its time.
var errBudget = errors.New("the part has had its time")

// leave is how long whatever is under way may take to end once the meter is stopped: nobody can break off a driver.
const leave = 500 * time.Millisecond

// Run measures until all is done, the scale's limit is reached, or ctx ends; it returns what is known then at once, whatever a driver still does.
func (m *Meter) Run(ctx context.Context) (Card, error) {
	memory, _ := gpu.MachineMemory()
	m.card = Card{
		Format: 1, Program: train.Program(), Begun: time.Now().UTC().Truncate(time.Second), Scale: m.Scale.Name, Adapter: cardAdapter(m.Adapter),
		Processor: system.Processor(), Cores: runtime.NumCPU(), Memory: memory, Checks: []doctor.Result{}, Models: []CardModel{}, Gaps: []gap{},
	}
	limited, cancel := context.WithTimeoutCause(ctx, m.Scale.limit, fmt.Errorf("limit of %s", m.Scale.limit))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- caught.Do(func() error { return m.parts(limited) }) }()
	var err error
	select {
	case err = <-done:
	case <-limited.Done():
		select {
		case err = <-done:
		case <-time.After(leave):
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if cause := context.Cause(limited); cause != nil {
		m.card.Ended = cause.Error()
		if n := len(m.card.Parts); n > 0 && m.card.Parts[n-1].Seconds == 0 {
			m.end(cause)
		}
		err = nil
	}
	m.sum()
	return m.card, errors.Join(err, m.Save(m.card))
}

// change changes the card, until Run has returned it.
func (m *Meter) change(f func(c *Card, p *cardPart)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		f(&m.card, &m.card.Parts[len(m.card.Parts)-1])
	}
}

// sum brings what follows from the rest up to date.
func (m *Meter) sum() {
	m.card.Seconds = time.Since(m.card.Begun).Seconds()
	m.card.Gaps = gaps(m.card)
}

// done counts something of the part as done, and ends a part that has had its time and has more to do.
func (m *Meter) done(ctx context.Context, add func(c *Card, p *cardPart)) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m.change(func(c *Card, p *cardPart) {
		add(c, p)
		p.Done++
		p.Of = max(p.Of, p.Done)
		m.Progress.Phase(p.Name, p.Done, p.Of)
		if p.Done < p.Of && time.Since(m.begun).Seconds() > p.Budget {
			err = errBudget
		}
	})
	return err
}

// end notes how the part went that is measured.
func (m *Meter) end(err error) {
	p := &m.card.Parts[len(m.card.Parts)-1]
	p.Seconds = max(time.Since(m.begun).Seconds(), 1e-3)
	switch {
	case errors.Is(err, errBudget):
		p.Short = fmt.Sprintf("%d of %d done in the %.0f s of this part", p.Done, p.Of, p.Budget)
	case m.card.Ended != "":
		p.Short = fmt.Sprintf("%d of %d done when the command ended: %s", p.Done, p.Of, m.card.Ended)
	case errors.Is(err, gpu.ErrOutOfMemory):
		p.Short = "no memory for it: " + err.Error()
	case err != nil:
		p.Failed = err.Error()
	}
}

// parts measures all parts in turn.
func (m *Meter) parts(ctx context.Context) error {
	for _, part := range m.list() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		budget := m.Scale.budget(part)
		m.mu.Lock()
		m.begun = time.Now()
		m.card.Parts = append(m.card.Parts, cardPart{Name: part.name, Budget: budget.Seconds(), Of: part.of})
		m.mu.Unlock()
		err := caught.Do(func() error { return part.measure(ctx) })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.change(func(c *Card, p *cardPart) {
			m.end(err)
			m.sum()
			if err = m.Save(*c); err != nil {
				return
			}
			line := fmt.Sprintf("%s: %d of %d in %.1f s", p.Name, p.Done, p.Of, p.Seconds)
			if p.Short+p.Failed != "" {
				line = fmt.Sprintf("%s: %s", p.Name, p.Short+p.Failed)
			}
			m.Progress.Line(line)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// meterPart is a part, and how many things it is of.
type meterPart struct {
	name    string
	of      int
	measure func(ctx context.Context) error
	model   bool
}

// budget is the time that a part has.
func (s Scale) budget(p meterPart) time.Duration {
	if p.model {
		return cmp.Or(s.step, s.rest)
	}
	return cmp.Or(s.budgets[p.name], s.rest)
}

func (m *Meter) list() []meterPart {
	with := func(o gpu.Options, measure func(measurement, context.Context, *gpu.Device) error) func(context.Context) error {
		return func(ctx context.Context) error {
			dev, err := gpu.Open(ctx, m.Adapter, o)
			if err != nil {
				return err
			}
			defer dev.Release()
			return measure(measurement{sizes: m.Scale.sizes, rounded: o.Matrix, report: func(f Figure) error {
				f.Adapter = m.Adapter.Name + " " + m.Adapter.Backend
				return m.done(ctx, func(_ *Card, p *cardPart) { p.Figures = append(p.Figures, f) })
			}}, ctx, dev)
		}
	}
	on := func(measure func(measurement, context.Context, *gpu.Device) error) func(context.Context) error {
		return with(gpu.Options{}, measure)
	}
	r := measurement{sizes: m.Scale.sizes}
	memory, _ := r.chosen(true)
	arithmetic, _ := r.chosen(false)
	parts := []meterPart{
		{"start", 2, m.starts, false},
		{"doctor", 0, on(m.doctor), false},
		{"copy and optimizers", 1 + len(memory), on(measurement.memory), false},
		{"products", len(r.products), on(measurement.productFigures), false},
		{"attention", 2 * len(r.attention), on(measurement.attentionFigures), false},
		{"Kronecker factors", 4, on(measurement.kronFigures), false},
		{"optimizers of matrices", len(arithmetic), on(measurement.arithmetic), false},
	}
	models := m.Scale.models
	if compile.UnitsOf(m.Adapter.Limits) != "" {
		parts = append(parts, meterPart{"products of f16 by matrix units", len(r.products), with(gpu.Options{Matrix: true}, measurement.productFigures), false})
		for i, c := range m.Scale.models {
			if i == 0 || c.rank > 0 {
				models = append(slices.Clip(models), c.inF16())
			}
		}
	}
	for _, c := range models {
		parts = append(parts, meterPart{c.name, 1, func(ctx context.Context) error { return m.model(ctx, c) }, true})
	}
	return parts
}

// doctor runs the doctor's checks, kernels first, on a device as training opens it.
func (m *Meter) doctor(_ measurement, ctx context.Context, dev *gpu.Device) error {
	devices, checks, cases := [][]*gpu.Device{{dev}}, doctor.Checks(), map[string]fs.FS{}
	if m.Scale.Checks != nil {
		checks = m.Scale.Checks(checks)
	}
	if m.Scale.Cases {
		var err error
		if cases, err = doctor.Cases(); err != nil {
			return err
		}
	}
	m.change(func(_ *Card, p *cardPart) { p.Of = len(checks) + len(cases) })
	next := func(r doctor.Result) error {
		return m.done(ctx, func(c *Card, _ *cardPart) { c.Checks = append(c.Checks, r) })
	}
	if err := doctor.RunChecks(ctx, devices, checks, next); err != nil {
		return err
	}
	if err := doctor.RunUnitChecks(ctx, m.Adapter, doctor.UnitChecks(), next); err != nil {
		return err
	}
	return doctor.RunCases(ctx, devices, cases, next)
}
