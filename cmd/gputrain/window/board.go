package window

import (
	"math"
	"sync"

	"gputrain/run/train"
)

// point is a value at a step.
type point struct {
	Step  int64
	Value float64
}

// Board is what is known of a run. Whoever learns of something tells it; the window draws what it has. Its methods may be called from
// several goroutines.
type Board struct {
	mu      sync.Mutex
	version uint64
	seen    seen
}

// seen is the state of a Board.
type seen struct {
	Title      string
	Status     string // "training", "stopped at step 20"
	Steps      int64  // that the run is to make; 0: not known
	Loss       []point
	Mean       []point // of the losses of the last steps
	Validation []point
	GradNorm   []point
	Last       *train.Metrics
	Sample     *train.Sample
	Histograms []histogram
	Source     string // of the histograms: "step 120", "checkpoint step-00000100"

	recent []float64
}

// NewBoard is the board of a run that has done nothing.
func NewBoard(title string, steps int64) *Board {
	return &Board{seen: seen{Title: title, Steps: steps}, version: 1}
}

func (b *Board) change(f func(s *seen)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.seen)
	b.version++
}

// snapshot is what is known now. What it points to stays as it is.
func (b *Board) snapshot() seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// status says what the run does.
func (b *Board) status(text string) { b.change(func(s *seen) { s.Status = text }) }

// restart forgets all figures: they come again from the beginning.
func (b *Board) restart() {
	b.change(func(s *seen) {
		s.Loss, s.Mean, s.Validation, s.GradNorm, s.recent, s.Last, s.Sample = nil, nil, nil, nil, nil, nil, nil
	})
}

// add adds the figures of a step.
func (b *Board) add(m train.Metrics) {
	b.change(func(s *seen) {
		s.Loss = append(s.Loss, point{m.Step, float64(m.Loss)})
		s.addMean(s.Loss[len(s.Loss)-1])
		s.GradNorm = append(s.GradNorm, point{m.Step, float64(m.GradNorm)})
		s.Last = &m
	})
}

// evaluated adds an evaluation.
func (b *Board) evaluated(m train.EvalMetrics) {
	b.change(func(s *seen) { s.Validation = append(s.Validation, point{m.Step, float64(m.Loss)}) })
}

// sampled shows a sample.
func (b *Board) sampled(sample train.Sample) { b.change(func(s *seen) { s.Sample = &sample }) }

// counted shows histograms, and says what of.
func (b *Board) counted(histograms []histogram, source string) {
	b.change(func(s *seen) { s.Histograms, s.Source = histograms, source })
}

// meanWidth is how many steps the mean loss is of: as many as in the progress line.
const meanWidth = 32

// addMean adds a step's loss to the mean of the last ones, unless it is not finite.
func (s *seen) addMean(p point) {
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
	s.Mean = append(s.Mean, point{p.Step, sum / float64(len(s.recent))})
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
