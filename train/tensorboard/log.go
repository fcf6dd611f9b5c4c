package tensorboard

import (
	"errors"
	"io"
)

// Log is what TensorBoard shows of event files.
type Log struct {
	Series map[string][]Point // by tag, in the order of the files
	Starts []int64            // the first step of each process
	Cut    []string           // files that end within a record: their process was killed, or is writing
}

// Point is a value at a step.
type Point struct {
	Step     int64
	WallTime float64 // seconds since 1970
	Value    Value
}

// ReadLog reads files in the order in which they were begun, as Files has them. Of points that a later process has made again only those are
// left.
func ReadLog(files ...string) (*Log, error) {
	l := &Log{Series: map[string][]Point{}}
	for _, name := range files {
		for e, err := range EventsOf(name) {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				l.Cut = append(l.Cut, name)
				continue
			}
			if err != nil {
				return nil, err
			}
			l.add(e)
		}
	}
	return l, nil
}

func (l *Log) add(e Event) {
	if e.Start {
		if len(l.Starts) > 0 { // the first one resumes nothing
			l.forget(e.Step)
		}
		l.Starts = append(l.Starts, e.Step)
	}
	for _, v := range e.Values {
		l.Series[v.Tag] = append(l.Series[v.Tag], Point{Step: e.Step, WallTime: e.WallTime, Value: v})
	}
}

// forget drops the points of a step and later ones.
func (l *Log) forget(step int64) {
	for tag, points := range l.Series {
		kept := points[:0]
		for _, p := range points {
			if p.Step < step {
				kept = append(kept, p)
			}
		}
		l.Series[tag] = kept
		if len(kept) == 0 {
			delete(l.Series, tag)
		}
	}
}
