package window

import (
	"math"
	"sync"

	"gputrain/train"
)

// Point is a value at a step.
type Point struct {
	Step  int64
	Value float64
}

// Board is what is known of a run. Whoever learns of something tells it; the window draws what it has. Its methods may be called from
// several goroutines.
type Board struct {
	mu      sync.Mutex
	version uint64
	seen    Seen
}

// Seen is the state of a Board.
type Seen struct {
	Title      string
	Status     string // "training", "stopped at step 20"
	Steps      int64  // that the run is to make; 0: not known
	Loss       []Point
	Mean       []Point // of the losses of the last steps
	Validation []Point
	GradNorm   []Point
	Last       *train.Metrics
	Sample     *train.Sample
	Histograms []Histogram
	Source     string // of the histograms: "step 120", "checkpoint step-00000100"

	recent []float64
}

// NewBoard is the board of a run that has done nothing.
func NewBoard(title string, steps int64) *Board {
	return &Board{seen: Seen{Title: title, Steps: steps}, version: 1}
}

func (b *Board) change(f func(s *Seen)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.seen)
	b.version++
}

// Version grows with every change.
func (b *Board) Version() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// Seen is a snapshot. What it points to stays as it is.
func (b *Board) Seen() Seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// Status says what the run does.
func (b *Board) Status(text string) { b.change(func(s *Seen) { s.Status = text }) }

// Steps says how many steps the run is to make.
func (b *Board) Steps(n int64) { b.change(func(s *Seen) { s.Steps = n }) }

// Restart forgets all figures: they come again from the beginning.
func (b *Board) Restart() {
	b.change(func(s *Seen) {
		s.Loss, s.Mean, s.Validation, s.GradNorm, s.recent, s.Last, s.Sample = nil, nil, nil, nil, nil, nil, nil
	})
}

// Add adds the figures of a step.
func (b *Board) Add(m train.Metrics) {
	b.change(func(s *Seen) {
		s.Loss = append(s.Loss, Point{m.Step, float64(m.Loss)})
		s.addMean(s.Loss[len(s.Loss)-1])
		s.GradNorm = append(s.GradNorm, Point{m.Step, float64(m.GradNorm)})
		s.Last = &m
	})
}

// Evaluated adds an evaluation.
func (b *Board) Evaluated(m train.EvalMetrics) {
	b.change(func(s *Seen) { s.Validation = append(s.Validation, Point{m.Step, float64(m.Loss)}) })
}

// Sampled shows a sample.
func (b *Board) Sampled(sample train.Sample) { b.change(func(s *Seen) { s.Sample = &sample }) }

// Counted shows histograms, and says what of.
func (b *Board) Counted(histograms []Histogram, source string) {
	b.change(func(s *Seen) { s.Histograms, s.Source = histograms, source })
}

// meanWidth is how many steps the mean loss is of: as many as in the progress line.
const meanWidth = 32

// addMean adds a step's loss to the mean of the last ones, unless it is not finite.
func (s *Seen) addMean(p Point) {
	if !finite(p.Value) {
		return
	}
	if len(s.recent) == meanWidth {
		s.recent = s.recent[1:]
	}
	s.recent = append(s.recent, p.Value)
	sum := 0.0
	for _, v := range s.recent {
		sum += v
	}
	s.Mean = append(s.Mean, Point{p.Step, sum / float64(len(s.recent))})
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
