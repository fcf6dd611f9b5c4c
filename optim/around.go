package optim

import (
	"fmt"
	"slices"
	"strconv"

	"gputrain/buffers"
	"gputrain/gpu"
)

// What stands around an update: the move of the weights before their gradients are taken, and what is remembered of them once they are updated. These
// elements come last in a chain. They leave the update as it is, and have a kernel of their own each (Element.apart), which changes the parameters.

// Lookahead takes gradients ahead of the weights, along the mean of what updates have moved them by (EMA-Nesterov). With t updates done:
//
//	s =  scale rate(t)/peak where from <= t < until, else 0
//	w <- w + s d                                    before the first gradient of the update
//	d <- decay d + (1-decay) (u + s d)              u: the update, made at the moved w
//
// An update that is left out takes the move back, to the rounding of w + s d, and d keeps every bit. State: "ahead", which is d.
type Lookahead struct {
	Scale float64 `json:"scale"` // 0: no move
	Decay float64 `json:"decay"`
	From  int64   `json:"from"`
	Until *int64  `json:"until"` // nil: no end
}

// Averaging is a mean of the weights over the last updates, of which those that are evaluated and exported have a share:
//
//	a <- w                      after update from
//	a <- a + (w - a)/horizon    after each one behind it
//	evaluated = (1-blend) w + blend a
//
// Training never reads it. Leaves of Without, patterns of paths, have none, and neither has any before From. State: "average", which is a.
type Averaging struct {
	From    int64    `json:"from"`
	Horizon float64  `json:"horizon"` // 1 or more
	Blend   float64  `json:"blend"`
	Without []string `json:"without"`
}

func (l *Lookahead) validate() error {
	switch {
	case l == nil:
		return nil
	case l.From < 0:
		return fmt.Errorf("lookahead: from: found %d, wanted 0 or more", l.From)
	case l.Until != nil && *l.Until < l.From:
		return fmt.Errorf("lookahead: until: found %d, wanted %d or more, as from is, or null", *l.Until, l.From)
	}
	return firstError(inInterval("lookahead: scale", l.Scale, "[0,inf)"), inInterval("lookahead: decay", l.Decay, "[0,1)"))
}

func (a *Averaging) validate() error {
	switch {
	case a == nil:
		return nil
	case a.From < 1:
		return fmt.Errorf("average: from: found update %d, wanted 1 or more", a.From)
	}
	return firstError(inInterval("average: horizon", a.Horizon, "[1,inf)"), inInterval("average: blend", a.Blend, "[0,1]"))
}

// moves is the scale of the move before an update.
func (l *Lookahead) moves(peak float64) func(t int64, rate float64) float64 {
	return func(t int64, rate float64) float64 {
		if t < l.From || l.Until != nil && t >= *l.Until || peak == 0 {
			return 0
		}
		return l.Scale * rate / peak
	}
}

func (l *Lookahead) transform(lr Schedule, peak float64) Transform {
	of := l.moves(peak)
	at := func(t int64) float64 { return of(t, lr(t)) }
	return Elementwise(Element{
		Name: "lookahead", FLOPs: 5, behind: true, restores: true,
		Slots: []Slot{{Name: "ahead", DType: buffers.F32}},
		Scalars: []Scalar{
			{Name: "start", At: at, of: of, first: true},
			{Name: "moved", At: at, of: of},
			Fixed("keep", l.Decay), Fixed("rest", 1-l.Decay),
		},
		apart: "u = $start * $ahead;",
		WGSL: `let back = $moved * $ahead;
$ahead = $keep * $ahead + $rest * (u + back);
if ($left) { u = -back; }`,
		Twin: func(c *Cell) {
			back := c.Scalars[1] * c.Slots[0]
			c.Slots[0] = c.Scalars[2]*c.Slots[0] + c.Scalars[3]*(c.U+back)
			if c.Left {
				c.U = -back
			}
		},
	})
}

func (a *Averaging) transform() Transform {
	share := func(t int64) float64 { // of the weights in their mean
		switch n := t + 1; {
		case n < a.From:
			return 0
		case n == a.From:
			return 1
		}
		return 1 / a.Horizon
	}
	t := Elementwise(Element{
		Name: "average", FLOPs: 4, behind: true, keeps: true, from: a.From, blend: a.Blend,
		Slots:   []Slot{{Name: "average", DType: buffers.F32, kept: true}},
		Scalars: []Scalar{{Name: "share", At: share}},
		apart:   "u = " + strconv.FormatFloat(a.Blend, 'g', -1, 32) + "f * ($average - $p);",
		WGSL: `let w = select($p + u, $p, u == vec4<f32>(0.0));
if (!$left || $share == 1.0) { $average = $average + $share * (w - $average); }`,
		Twin: func(c *Cell) {
			if !c.Left || c.Scalars[0] == 1 {
				c.Slots[0] += c.Scalars[0] * (c.P + c.U - c.Slots[0])
			}
		},
	})
	if len(a.Without) == 0 {
		return t
	}
	return Route(&Mask{Patterns: a.Without, key: "average: without"}, Chain(), t)
}

// around are the elements behind the update.
func (o Options) around(lr Schedule) (parts []Transform) {
	if o.Lookahead != nil {
		parts = append(parts, o.Lookahead.transform(lr, o.Schedule.LearningRate))
	}
	if o.Average != nil {
		parts = append(parts, o.Average.transform())
	}
	return parts
}

// apart finds the step that has a kernel of its own by the name of its element; -1: there is none.
func (p *plan) apart(name string) int {
	return slices.IndexFunc(p.steps, func(s step) bool { return s.apart != "" && s.Name == name })
}

// restores tells whether an update that is left out changes the parameters all the same: back to what they were before a move.
func (p *plan) restores() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.restores })
}

// averagesFrom is the update from which on there is a mean of the weights; false: there is never one.
func (p *plan) averagesFrom() (update int64, ok bool) {
	i := p.apart("average")
	if i < 0 {
		return 0, false
	}
	return p.steps[i].from, true
}

// LooksAhead tells whether the transformation has a Lookahead.
func (t Transform) LooksAhead() bool {
	return slices.ContainsFunc(t.elements, func(e Element) bool { return e.restores })
}

// Averages tells whether the transformation has an Averaging.
func (t Transform) Averages() bool {
	return slices.ContainsFunc(t.elements, func(e Element) bool { return e.from > 0 })
}

// Averaged tells whether there is a mean of the weights by now, which those that are evaluated have a share of.
func (s *State) Averaged() bool {
	from, ok := s.plan.averagesFrom()
	return ok && s.counts[updatesCount] >= from
}

// Moving tells whether the call that Prepare began is the first of an update before which the weights move: RecordMove comes before its gradients.
func (s *State) Moving() bool { return s.moving }

// RecordMove records the move of params before the gradients of the first call of an update, which Prepare has begun. In other calls it moves nothing.
func (t Transform) RecordMove(rec *gpu.Recording, s *State, params *buffers.Tree) error {
	return t.recordApart(rec, "lookahead", s, params)
}

// RecordAverage records what makes params those that are evaluated, where State.Averaged.
func (t Transform) RecordAverage(rec *gpu.Recording, s *State, params *buffers.Tree) error {
	return t.recordApart(rec, "average", s, params)
}

func (t Transform) recordApart(rec *gpu.Recording, name string, s *State, params *buffers.Tree) error {
	if err := t.check(Emit, params, s, params); err != nil {
		return fmt.Errorf("optim: %s: %s: %w", t.name, name, err)
	}
	i := s.plan.apart(name)
	if i < 0 {
		return fmt.Errorf("optim: %s: found no %s, wanted one", t.name, name)
	}
	rec.Group("optim." + name)
	r := &recorder{State: s, rec: rec, wanted: func(int) bool { return true }, grads: params, params: params}
	r.dispatch(apartJob, i)
	return rec.Err()
}
