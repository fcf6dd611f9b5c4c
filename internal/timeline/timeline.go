package timeline

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// SpanKind is what a span of a timeline was spent on.
type SpanKind uint8

const (
	// Compute is a stage's device at work.
	Compute SpanKind = iota
	// Wait is a stage waiting for a message, or for room to send one; its device may still be at work on what was submitted before.
	Wait
	// Transfer is bytes on their way over a link: out of one device, or into the other.
	Transfer
)

func (k SpanKind) String() string { return [...]string{"compute", "wait", "transfer"}[k] }

// Span is a stretch of time in the life of a stage or a link.
type Span struct {
	Kind       SpanKind
	Stage      int    // of Compute and Wait
	Link       int    // of Transfer and Wait, an index of Lanes.Links; -1 where a stage waits for something else
	Name       string // what is computed, waited for or carried: "forward"
	Part       int    // -1 for none
	Microbatch int    // -1 for none
	Start, End time.Duration
}

// Lanes are the stages and links of a timeline.
type Lanes struct {
	Stages []string // their names
	Links  []LinkLane
}

// LinkLane is a link between two stages.
type LinkLane struct {
	Name     string
	From, To int // stages
}

// recordLimit bounds the spans of a recorder that keeps every step: 80 MB.
const recordLimit = 1 << 20

// Recorder notes what the stages and links of a pipeline do, from as many goroutines as there are. It keeps the spans of the last steps, or
// of every step.
type Recorder struct {
	lanes  Lanes
	keep   int // steps; 0 for all
	origin time.Time

	mu      sync.Mutex
	steps   []recordedStep // the last is under way
	kept    int            // spans
	dropped int
}

type recordedStep struct {
	start, end time.Duration
	spans      []Span
}

// NewRecorder makes a recorder that keeps the last steps steps, 0 for all; after that many it allocates nothing more.
func NewRecorder(lanes Lanes, steps int) *Recorder {
	return &Recorder{lanes: lanes, keep: steps, origin: time.Now()}
}

// Begin begins a step. Spans that are added before the first one are dropped.
func (r *Recorder) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var spans []Span
	if r.keep > 0 && len(r.steps) == r.keep {
		spans = r.steps[0].spans[:0]
		r.kept -= len(r.steps[0].spans)
		r.steps = append(r.steps[:0], r.steps[1:]...)
	}
	now := time.Since(r.origin)
	r.steps = append(r.steps, recordedStep{now, now, spans})
}

// End ends the step and gives its figures.
func (r *Recorder) End() Use {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.steps) == 0 {
		return Use{}
	}
	s := &r.steps[len(r.steps)-1]
	s.end = time.Since(r.origin)
	return MeasureUse(r.lanes, s.spans, s.start, s.end)
}

// Add adds a span of the step under way; begin and end take the place of Start and End.
func (r *Recorder) Add(s Span, begin, end time.Time) {
	s.Start, s.End = begin.Sub(r.origin), end.Sub(r.origin)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.steps) == 0 || r.kept == recordLimit {
		r.dropped++
		return
	}
	step := &r.steps[len(r.steps)-1]
	step.spans = append(step.spans, s)
	r.kept++
}

// Spans are the spans kept, by their start, and how many were dropped because there was no room. Their times count from when the recorder
// was made.
func (r *Recorder) Spans() (spans []Span, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.steps {
		spans = append(spans, s.spans...)
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	return spans, r.dropped
}
