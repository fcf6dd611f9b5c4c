package train

import (
	"fmt"
	"time"

	"gputrain/gpu"
)

// TooLong says which command of some submits takes longer than a submit may although it cannot be cut, and what to do; "" where none does.
func TooLong(all []gpu.Planned, limit time.Duration) string {
	var longest gpu.Planned
	for _, p := range all {
		if p.LongestTakes > longest.LongestTakes {
			longest = p
		}
	}
	if limit <= 0 || longest.LongestTakes <= limit {
		return ""
	}
	return fmt.Sprintf("%s is expected to take %s, wanted at most %s (device.submit_limit), and is not to be cut: "+
		"lower train.batch and raise train.accumulate, or raise pipeline.microbatches", longest.Longest, durationText(longest.LongestTakes), durationText(limit))
}

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
		if wrong := TooLong(all, d.SubmitLimit()); wrong != "" {
			r.display.say("warning: %s", wrong)
		}
	}
	if cut {
		r.display.say("a step is cut into %d submits, the longest expected to take %s", submits, durationText(most))
	}
}
