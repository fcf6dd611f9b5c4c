package plan

import (
	"fmt"

	"gputrain/model"
	"gputrain/state"
)

// layTeacher lays temperature and fingerprint of the teacher, which the run records and keeps.
func (p *Plan) layTeacher(t *Teacher) error {
	if t == nil {
		return nil
	}
	d := p.Spec.Distil
	if t.Temperature != 0 {
		if d.Temperature != nil && *d.Temperature != t.Temperature {
			return p.Spec.Invalid("distil.temperature", *d.Temperature, fmt.Sprintf("%g or null, as %s was made", t.Temperature, d.Teacher))
		}
		p.Spec.Put("distil.temperature", &t.Temperature, "distil.teacher")
	}
	if t.Fingerprint != "" {
		p.Spec.Put("distil.fingerprint", t.Fingerprint, "distil.teacher")
	}
	return nil
}

// teach puts the teacher beside the network.
func (p *Plan) teach(c *state.Config, t *Teacher) (err error) {
	switch {
	case t == nil:
		return nil
	case t.Definition == nil:
		c.Objective.Numbers["top_k"] = float64(t.TopK)
		return nil
	case c.Sequence > t.Definition.Context():
		return p.Spec.Invalid(contextKey, c.Sequence, fmt.Sprintf("at most %d, the context of the teacher %s", t.Definition.Context(), p.Spec.Distil.Teacher))
	}
	if c.Definition, err = model.WithTeacher(c.Definition, t.Definition); err != nil {
		return p.Spec.Wrong("distil.teacher", err)
	}
	return nil
}
