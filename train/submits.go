package train

import (
	"time"

	"gputrain/gpu"
)

// FewerRows is what makes the commands of a step shorter.
const FewerRows = "lower train.batch and raise train.accumulate, or raise pipeline.microbatches"

// tellSubmits says into how many submits a step is cut, if it is, and what cannot be cut although it takes longer than a submit may.
func (r *rehearsal) tellSubmits() {
	submits, cut, most := 0, false, time.Duration(0)
	for stage, all := range r.state.Submits() {
		d := r.team.target.Devices()[stage]
		if d.Dry() && r.team.spread() { // the stage is on another rank
			continue
		}
		for _, s := range all {
			submits, cut, most = submits+s.Times, cut || s.Cut, max(most, s.Takes)
		}
		if d.Limits().Software { // nothing resets a processor
			continue
		}
		limit := d.SubmitLimit()
		if command, takes := gpu.Longest(all); limit > 0 && takes > limit {
			r.display.say("warning: %s is expected to take %s, wanted at most %s (device.submit_limit), and is not to be cut: %s",
				command, durationText(takes), durationText(limit), FewerRows)
		}
	}
	if cut {
		r.display.say("a step is cut into %d submits, the longest expected to take %s", submits, durationText(most))
	}
}
