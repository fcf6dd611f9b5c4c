package runfile

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// durations are numbers with units, each unit once and from the longest to the shortest.
var durations = regexp.MustCompile(`^(?:([0-9]+(?:\.[0-9]+)?)d)?(?:([0-9]+(?:\.[0-9]+)?)h)?(?:([0-9]+(?:\.[0-9]+)?)m)?(?:([0-9]+(?:\.[0-9]+)?)s)?$`)

// Duration is a time as a run file spells it: "90s", "15m" or "1d2h30m"; "" is none.
type Duration string

// Time is how long it is; 0 where it is none, and where Validate refuses it.
func (d Duration) Time() time.Duration {
	t, _ := parseDuration(string(d))
	return t
}

const durationForm = "a time such as 90s, 15m or 1d2h30m, or nothing"

// parseDuration reads a time such as "1d2h30m", "90s" or "1.5h"; "" is 0. All of the text must be one.
func parseDuration(s string) (time.Duration, error) {
	wrong := fmt.Errorf("found %q, wanted %s", s, durationForm)
	parts := durations.FindStringSubmatch(s)
	if parts == nil {
		return 0, wrong
	}
	total := 0.0
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseFloat(parts[i+1], 64)
		if err != nil {
			return 0, wrong
		}
		total += n * float64(unit)
	}
	if total >= math.MaxInt64 {
		return 0, wrong
	}
	return time.Duration(math.Round(total)), nil
}

func isDuration(s string) bool {
	_, err := parseDuration(s)
	return err == nil
}
