package train

import (
	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/state"
)

// Log-probabilities of the tokens that were drawn differ from those of training by what kernels round: about these at most, in f32 and with operands of 16
// bits and less.
const (
	samplerBound        = 1e-3
	roundedSamplerBound = 0.1
)

// samplerBound is by how much the sampler may differ from training; 0 for a network with dropout, whose training is another.
func (c Config) samplerBound() (float64, error) {
	job, err := state.NewJob(c.State)
	if err != nil {
		return 0, err
	}
	if c.Rollouts.Updates == 1 { // else the sampler is compared with a pass that drops nothing
		built, err := job.Build()
		if err != nil {
			return 0, err
		}
		for _, n := range built.Graph.Nodes() {
			if in, is := n.Op.(graph.Input); is && in.Name == model.InputDropoutKey {
				return 0, nil
			}
		}
	}
	if job.RoundProducts || job.Storage != buffers.F32 || job.FrozenDType != buffers.F32 {
		return roundedSamplerBound, nil
	}
	return samplerBound, nil
}

// compare warns once of a difference between the sampler and training that is not rounding.
func (r *rollouts) compare(step int64, off Number) {
	if r.bound == 0 || !(float64(off) > r.bound) {
		return
	}
	r.display.say("warning: step %d: log-probabilities of tokens as they were drawn and those of training differ by %.3g, wanted at most %g: "+
		"what is learned is not what was drawn, which is a mistake in the program", step, float64(off), r.bound)
	r.bound = 0
}
