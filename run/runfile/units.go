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

// duration is a time as a run file spells it: "90s", "15m" or "1d2h30m"; "" is none.
type duration string

// Time is how long it is; 0 where it is none, and where Validate refuses it.
func (d duration) Time() time.Duration {
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

// sizes are numbers with a unit of bytes.
var sizes = regexp.MustCompile(`^(?:([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) *(B|kB|KB|MB|GB|KiB|MiB|GiB)?)?$`)

const sizeForm = "bytes such as 800MB or 6GiB"

var unitBytes = map[string]float64{
	"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}

// ParseBytes reads a size such as "800MB", "6GiB" or "123456"; "" is 0. All of the text must be one.
func ParseBytes(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	parts, wrong := sizes.FindStringSubmatch(s), fmt.Errorf("found %q, wanted %s", s, sizeForm)
	if parts == nil {
		return 0, wrong
	}
	v, err := strconv.ParseFloat(parts[1], 64)
	if bytes := v * unitBytes[parts[2]]; err == nil && bytes < 1<<63 {
		return uint64(bytes), nil
	}
	return 0, wrong
}

func isSize(s string) bool {
	_, err := ParseBytes(s)
	return err == nil
}

// FormatBytes writes bytes with a binary unit.
func FormatBytes(b uint64) string {
	const unit = 1024
	if b < unit {
		return fmt.Sprintf("%d B", b)
	}
	v, i := float64(b), -1
	for v >= unit && i < 4 {
		v /= unit
		i++
	}
	return fmt.Sprintf("%.4g %ciB", v, "KMGTP"[i])
}
