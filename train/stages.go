package train

import (
	"fmt"
	"strings"

	"gputrain/state"
)

// useOf is how a state that is cut into stages has spent the time of the steps whose metrics came last; nil for one that is not.
func useOf(s State) *state.StageUse {
	if staged, ok := s.(interface {
		StageUse() (state.StageUse, bool)
	}); ok {
		if use, known := staged.StageUse(); known {
			return &use
		}
	}
	return nil
}

// put writes a use into a line of metrics.
func (c *Cost) put(use state.StageUse) {
	for _, share := range use.Busy {
		c.StageBusy = append(c.StageBusy, Number(share))
	}
	c.Bubble, c.Transfer = Number(use.Bubble), Number(use.Transfer)
}

// meanUse is the mean over the lines that have as many stages as the last one that has any: a run may go on with other stages. Busy is nil
// where no line has.
func meanUse(steps []Metrics) (mean state.StageUse) {
	n := 0.0
	for i := len(steps) - 1; i >= 0; i-- {
		m := steps[i]
		if len(m.StageBusy) == 0 {
			continue
		}
		if mean.Busy == nil {
			mean.Busy = make([]float64, len(m.StageBusy))
		}
		if len(m.StageBusy) != len(mean.Busy) {
			break
		}
		n++
		for stage, share := range m.StageBusy {
			mean.Busy[stage] += float64(share)
		}
		mean.Bubble += float64(m.Bubble)
		mean.Transfer += float64(m.Transfer)
	}
	if n == 0 {
		return mean
	}
	for stage := range mean.Busy {
		mean.Busy[stage] /= n
	}
	mean.Bubble /= n
	mean.Transfer /= n
	return mean
}

// busyText is "93% 88%".
func busyText[T ~float64](shares []T) string {
	var parts []string
	for _, share := range shares {
		parts = append(parts, percent(float64(share)))
	}
	return strings.Join(parts, " ")
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
