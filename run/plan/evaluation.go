package plan

import "gputrain/state"

// evaluationTokens is how many tokens an evaluation reads at most where nobody says it: no more than most, and in all evaluations of a run half of what
// its training reads, so that they take about a sixth of its time, as a forward pass is a third of a step. 0: there is no evaluation.
func evaluationTokens(c state.Config, steps, every, most int64) int64 {
	if every == 0 {
		return 0
	}
	read, evaluations := steps*int64(c.Batch*c.Microbatches*c.Sequence), (steps+every-1)/every // one is at the end
	tokens := read / 2 / max(1, evaluations)
	piece := int64(c.Objective.Row().Group * c.Sequence) // whole groups
	return min(most, max(piece, tokens/piece*piece))
}
