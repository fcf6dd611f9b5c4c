package template

import (
	"cmp"
	"fmt"
	"strings"
)

// limits bound what a template may do, as it may come from anybody. Each error that they cause names the limit and the
// line. Zero values are the defaults.
type limits struct {
	Steps  int // operations: 20 million
	Output int // bytes of the text: 64 MiB
	Made   int // bytes of all texts and lists that are made on the way: 512 MiB
}

// Depths are bounded alike for everyone: deeper ones exist in no template, and they bound the stack.
const (
	deepestNesting = 200  // of statements and parentheses in each other
	mostOperators  = 1000 // of a tag
	deepestCalls   = 200  // of values in each other, of macros and of recursive loops
	longestSource  = 4 << 20
	longestRange   = 100_000 // as Jinja's sandbox has it
)

func (l limits) withDefaults() limits {
	return limits{cmp.Or(l.Steps, 20_000_000), cmp.Or(l.Output, 64<<20), cmp.Or(l.Made, 512<<20)}
}

// step counts operations.
func (r *run) step(n int) {
	if r.steps += n; r.steps > r.limits.Steps {
		r.fail("more than %d steps, wanted at most so many (limit: steps)", r.limits.Steps)
	}
}

// made counts bytes, before they are taken.
func (r *run) made(bytes int) {
	if bytes < 0 || bytes > r.limits.Made-r.bytes {
		r.fail("more than %d bytes of texts and lists on the way, wanted at most so many (limit: bytes made)", r.limits.Made)
	}
	if r.bytes += bytes; r.bytes > light && !r.alone {
		r.waited, r.alone = r.account.alone(), true
	}
	r.step(bytes / 64)
}

// times is made for some bytes taken several times.
func (r *run) times(bytes int, by int64) int {
	if by <= 0 || bytes == 0 {
		return 0
	}
	if by > int64(r.limits.Made/bytes) {
		by = int64(r.limits.Made/bytes) + 1 // which fails
	}
	r.made(bytes * int(by))
	return int(by)
}

// deeper enters a macro, a loop or a value in another.
func (r *run) deeper() {
	if r.depth++; r.depth > deepestCalls {
		r.fail("calls or values are nested more than %d deep, wanted at most so many (limit: depth)", deepestCalls)
	}
}

func (r *run) shallower() { r.depth-- }

// A fault says what is wrong with a template, or with what it did, and in which of its lines.
type fault struct {
	Name string // of the template
	Line int
	Says string
}

// Error is one line.
func (e *fault) Error() string {
	return fmt.Sprintf("chat/template: %s: line %d: %s", e.Name, e.Line, e.Says)
}

// A RaisedError is what a template gave to raise_exception: it refuses the conversation.
type RaisedError struct {
	Name    string // of the template
	Line    int
	Message string
}

// Error is one line.
func (e *RaisedError) Error() string {
	return fmt.Sprintf("chat/template: %s: line %d: the template refuses the conversation: %s", e.Name, e.Line, strings.ReplaceAll(e.Message, "\n", " "))
}

// stop carries an error from inside an expression to Parse or Render, as a panic, which never leaves the package.
type stop struct{ err error }

// stopped is the error that something stopped with.
func stopped(err *error) {
	switch p := recover().(type) {
	case nil:
	case stop:
		*err = p.err
	default:
		panic(p)
	}
}

// fail stops at the line that runs.
func (r *run) fail(format string, args ...any) {
	panic(stop{&fault{r.template.name, r.line, fmt.Sprintf(format, args...)}})
}
