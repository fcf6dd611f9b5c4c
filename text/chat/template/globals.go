package template

import (
	"maps"
	"slices"
	"strings"
)

// globals are functions that every template has.
var globals = map[string]function{
	"range":     method("range", takes("first last? step?", rangeOf)),
	"namespace": func(r *run, a arguments) any { return &namespace{r.dict("namespace", a)} },
	"dict":      func(r *run, a arguments) any { o := r.dict("dict", a); return &o },
	"raise_exception": method("raise_exception", takes("message", func(r *run, a values) any {
		panic(stop{&RaisedError{r.template.name, r.line, r.str(a[0])}})
	})),
	"strftime_now": method("strftime_now", takes("format", func(r *run, a values) any { return r.strftime(a.text(r, 0)) })),
}

func method(name string, b builtin) function {
	return func(r *run, a arguments) any { return b(r, name, a) }
}

func rangeOf(r *run, a values) any {
	begin, end, step := int64(0), a.int(r, 0), int64(1)
	if !a.none(1) {
		begin, end = end, a.int(r, 1)
	}
	if !a.none(2) {
		step = a.int(r, 2)
	}
	for _, bound := range []int64{begin, end, step} {
		if bound != int64(int32(bound)) { // so that no sum overflows
			r.fail("range: found %d, wanted 32 bits (limit: range)", bound)
		}
	}
	n := int64(0)
	switch {
	case step == 0:
		r.fail("range() arg 3 must not be zero")
	case step > 0 && end > begin:
		n = (end - begin + step - 1) / step
	case step < 0 && end < begin:
		n = (begin - end - step - 1) / -step
	}
	if n > longestRange {
		r.fail("range: found %d numbers, wanted at most %d (limit: range)", n, longestRange)
	}
	r.made(16 * int(n))
	all := make([]any, n)
	for i := range all {
		all[i] = begin + int64(i)*step
	}
	return all
}

// dict makes an object of names.
func (r *run) dict(name string, a arguments) Object {
	if len(a.list) > 0 {
		r.fail("%s: found a value without a name, wanted name=value", name)
	}
	r.made(64 * a.named.Len())
	return *a.named
}

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
