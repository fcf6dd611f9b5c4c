package plan

import (
	"fmt"

	"gputrain/model"
	"gputrain/run/runfile"
)

// Earlier is a run that goes on.
type Earlier struct {
	Spec       *runfile.Config // its record, which may be of an earlier program
	Reschedule bool            // it is to have another schedule
}

// Keys whose defaults are others for a model that was read, or for a short run.
const (
	rateKey       = "optimizer.learning_rate"
	endKey        = "optimizer.schedule.learning_rate_end"
	contextKey    = "model.context"
	evalTokensKey = "train.eval_tokens"
)

// layEarlier lays the defaults of a run that goes on over those of this program: what nobody has named stays as it was.
func (p *Plan) layEarlier(e *Earlier) {
	if e == nil {
		return
	}
	for _, key := range []string{rateKey, endKey, contextKey, evalTokensKey} {
		if !p.Spec.Given(key) && !e.Spec.Given(key) {
			p.Spec.Put(key, e.Spec.Value(key), e.Spec.Origin(key))
		}
	}
	if p.Spec.IsDefault(evalTokensKey) { // however long the run is to be now
		p.Spec.Put(evalTokensKey, p.Spec.Train.EvalTokens, "default: as the run began")
	}
}

// checkRates refuses a rate that ends above its peak, unless the run began with it.
func (p *Plan) checkRates(e *Earlier) error {
	o := p.Spec.Optimizer
	if o.Schedule.Type == "constant" || e != nil && !e.Reschedule || o.RateEnd() <= o.LearningRate {
		return nil
	}
	return fmt.Errorf("run file: %s: found %g, above the peak of %g, %s: wanted at most that, or null for a share of it, %s",
		p.Spec.At(endKey), o.RateEnd(), o.LearningRate, p.Spec.At(rateKey), endKey+"_ratio")
}

// Context is how many tokens a window has. A run file that was not read by runfile.ReadAll, and a run of a program that
// did not tell new models from read ones, name no context where they have the default: it is then the model's own.
func Context(spec *runfile.Config, def model.Definition) int {
	if spec.IsDefault(contextKey) {
		return def.Context()
	}
	return min(def.Context(), spec.Model.Context)
}

// FitContext lays the most that model.from has in place of a default above it, and refuses more where somebody has named it. A run that goes on keeps what
// it has recorded, which an earlier program took for the most.
func FitContext(spec *runfile.Config, def model.Definition, e *Earlier) error {
	most := def.Context()
	switch {
	case spec.Model.From == "" || e != nil || spec.Model.Context <= most || spec.IsDefault(contextKey):
	case spec.Given(contextKey):
		return spec.Invalid(contextKey, spec.Model.Context, fmt.Sprintf("at most %d, the context of %s", most, spec.Model.From))
	default:
		spec.Put(contextKey, most, spec.Origin(contextKey))
	}
	return nil
}
