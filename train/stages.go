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

// busyText is "93% 88%".
func busyText[T ~float64](shares []T) string {
	var parts []string
	for _, share := range shares {
		parts = append(parts, percent(float64(share)))
	}
	return strings.Join(parts, " ")
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
