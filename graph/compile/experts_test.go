package compile

import (
	"slices"
	"strings"
	"testing"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestExpertsAreTheirTwins(t *testing.T) {
	gputest.Checks(t, slices.DeleteFunc(Checks(), func(c gpu.Check) bool { return !strings.HasPrefix(c.Name, "graph experts") && !strings.HasSuffix(c.Name, " sinks") }))
}
