// Package plan decides what a run is. Resolve makes a Plan of a run file and of what was found before; it opens no file, device or clock, so the same
// arguments give the same plan. A run is resolved twice: once to know how its text is read, and again with what the text is.
//
//	p, err := plan.Resolve(spec, plan.World{Model: found})
//	text := ... // read in windows of p.State.Sequence
//	world.Text = &plan.Text{Steps: steps}
//	p, err = plan.Resolve(spec, world)
package plan

import (
	"fmt"

	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/state"
)

// World is what was found before anything is decided.
type World struct {
	Model    *Model    // of model.from; nil: a new one is made
	Adapters *Adapters // of lora.from; nil: new ones, or none
	Teacher  *Teacher  // of distil.teacher; nil: none
	Tokens   Tokens
	Labels   *Labels  // nil: nobody looked, or there are none
	Text     *Text    // nil: it is not read yet
	Earlier  *Earlier // nil: the run begins
}

// Model is a model that was read.
type Model struct {
	Dir        string
	Definition model.Definition
	Lacks      []string // parameters that are not there: they are drawn
}

// Adapters are adapters that were read, around the Network of the same run file and World.
type Adapters struct {
	Dir        string
	Definition model.Definition
}

// Labels are the labels in the rows of a run file.
type Labels struct {
	Names []string // in the order of their numbers; nil: rows have numbers
	Count int
}

// Teacher is the teacher of a run.
type Teacher struct {
	Definition  model.Definition // nil: it is a file of lists
	Fingerprint string           // "": nobody has asked
	TopK        int              // of a file: tokens a list
	Temperature float64          // of a file; 0: it does not say
}

// Text is what is known of a text once it is read.
type Text struct {
	Steps int64   // that data.epochs come to; 0: train.steps says how many there are
	Ends  []int32 // the tokens by which the model is to end its answers; nil: its own
}

// Plan is a run, decided.
type Plan struct {
	Spec  *runfile.Config // every value in force, with its origin
	State state.Config    // what is trained
	// Told are the defaults that were made for the values of others, a line each.
	Told []string
}

// Resolve decides. An error is a mistake in the run file, or in what it names.
func Resolve(spec *runfile.Config, w World) (*Plan, error) {
	p := &Plan{Spec: spec.Clone()}
	p.layEarlier(w.Earlier)
	if t := p.Spec.Train; t.Patience > 0 && (t.EvalEvery == 0 || !p.Spec.HoldsOut()) {
		return nil, p.Spec.Invalid("train.patience", t.Patience, "0 without evaluations (train.eval_every, data.validation)")
	}
	if len(p.Spec.Data.Held) > 0 {
		p.Spec.Put("data.validation", 0.0, "data.held")
	}
	p.layTokens(w.Tokens)
	if err := p.layTeacher(w.Teacher); err != nil {
		return nil, err
	}
	if w.Text != nil {
		if err := p.laySteps(w.Text.Steps); err != nil {
			return nil, err
		}
	}
	def, err := Network(p.Spec, w)
	if err != nil {
		return nil, err
	}
	p.layHead(def, w)
	if def, err = p.referred(def); err != nil {
		return nil, err
	}
	if err := p.train(def, w); err != nil {
		return nil, err
	}
	p.tell(rateKey, p.Spec.Optimizer.LearningRate)
	p.tell(contextKey, p.State.Sequence)
	if p.Spec.Data.Epochs == 0 || w.Text != nil { // else the text says how many steps there are
		p.layEvaluations()
	}
	return p, nil
}

// tell tells of a default that is made for other values.
func (p *Plan) tell(key string, found any) {
	if !p.Spec.Given(key) && !p.Spec.IsDefault(key) {
		p.Told = append(p.Told, fmt.Sprintf("%s %v (%s)", key, found, p.Spec.Origin(key)))
	}
}
