package gputest

import "testing"

// Fails tells whether a comparison fails, without failing t: one that never does proves nothing.
func Fails(t testing.TB, compare func(testing.TB)) bool {
	t.Helper()
	inner := &quiet{TB: t}
	func() {
		defer func() {
			if thrown := recover(); thrown != nil && thrown != any(inner) {
				panic(thrown)
			}
		}()
		compare(inner)
	}()
	return inner.failed
}

// quiet is a test that may fail.
type quiet struct {
	testing.TB
	failed bool
}

func (q *quiet) Errorf(string, ...any) { q.failed = true }
func (q *quiet) FailNow()              { q.failed = true; panic(q) }
func (q *quiet) Helper()               {}
