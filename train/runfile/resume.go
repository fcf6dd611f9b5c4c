package runfile

import (
	"fmt"
	"reflect"
)

// Resume says what becomes of a key's value when a run goes on.
type Resume string

// Fixed values stay: a run with another value is another run. Free ones may change, as they change neither what is trained nor what metrics
// record of it: they are no part of the name of a run's directory. Scheduled ones decide how long a run is and what its rates are, and may
// change with --reschedule. A value ByContent is not held to what it says but to what lies there, whose fingerprint is compared. A value of
// ByPlace is a directory: however it is spelt, it is the same.
const (
	Fixed     Resume = ""
	Free      Resume = "free"
	Scheduled Resume = "reschedule"
	ByContent Resume = "content"
	ByPlace   Resume = "directory"
)

// ResumeOf tells it of a key; what is no key of the run file, such as a parameter of an optimizer, is Fixed.
func ResumeOf(key string) Resume {
	f, _ := find(key)
	return f.resume
}

// resumeOf reads the tag resume.
func resumeOf(key string, f reflect.StructField) Resume {
	switch r := Resume(f.Tag.Get("resume")); r {
	case Fixed, Free, Scheduled, ByContent, ByPlace:
		return r
	default:
		panic(fmt.Sprintf("runfile: key %s: resume: found %q, wanted %s, %s, %s, %s or none", key, r, Free, Scheduled, ByContent, ByPlace))
	}
}
