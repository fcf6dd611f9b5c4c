package template

import (
	"maps"
	"slices"
	"strings"
)

// directives are those of strftime that dates need, in Go's words.
var directives = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "B": "January", "b": "Jan", "d": "02", "e": "_2", "H": "15", "I": "03", "M": "04", "S": "05", "p": "PM",
	"A": "Monday", "a": "Mon", "j": "002", "F": "2006-01-02", "T": "15:04:05", "-d": "2", "-m": "1", "-I": "3", "%": "%",
}

// strftime writes the time as C's function of that name does in its own language, English.
func (r *run) strftime(format string) string {
	var b strings.Builder
	for format != "" {
		before, after, found := strings.Cut(format, "%")
		r.put(&b, before)
		if !found {
			break
		}
		n := min(1, len(after))
		if strings.HasPrefix(after, "-") {
			n = min(2, len(after))
		}
		layout, ok := directives[after[:n]]
		if !ok {
			r.fail("strftime_now: found %q, wanted one of %%%s", "%"+after[:n], strings.Join(slices.Sorted(maps.Keys(directives)), ", %"))
		}
		r.put(&b, r.now.Format(layout))
		format = after[n:]
	}
	return b.String()
}
