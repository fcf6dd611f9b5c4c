package template

import (
	"fmt"
	"strings"
)

// An Error says what is wrong with a template, or with what it did, and in which of its lines.
type Error struct {
	Name string // of the template
	Line int
	Says string
}

// Error is one line.
func (e *Error) Error() string {
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
	panic(stop{&Error{r.template.name, r.line, fmt.Sprintf(format, args...)}})
}
