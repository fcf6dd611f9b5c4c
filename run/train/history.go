package train

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"

	"gputrain/internal/svg"
)

// mostPoints is how many points of a curve a history keeps at most, some 45 for each place of a picture.
const mostPoints = 1 << 16

// history is what a report tells of the lines of metrics, whose number it does not depend on.
type history struct {
	sums
	first, last Metrics
	evals       []EvalMetrics
	rolledOut   rolledOut
	padding     bool // a step has computed tokens that do not count

	window                                      window
	recentMS, recentCounted, recentComputed     recent
	recentMFU                                   recent
	loss, meanLoss, rate, gradNorm, clippedNorm curve
	counted, meanCounted, meanComputed          curve
	stepMS, deviceMS, waitMS, mfu100, meanMFU   curve
	stagesBusy                                  []curve
	usualComputed, usualMS, usualMFU            sample
}

// add takes the next line of a step.
func (h *history) add(m Metrics) {
	if h.lines == 0 {
		h.first = m
	}
	h.sums.add(m)
	h.rolledOut.add(m)
	h.last = m
	h.padding = h.padding || m.PaddedTokensPerSecond > m.TokensPerSecond
	step, took, mfu := float64(m.Step), float64(m.StepMS), float64(100*m.MFU)
	h.window.add(float64(m.Loss))
	took32 := h.recentMS.sum(took)
	h.meanLoss.add(step, h.window.mean())
	h.meanCounted.add(step, h.recentCounted.sum(float64(m.TokensPerSecond)*took)/took32)
	h.meanComputed.add(step, h.recentComputed.sum(float64(m.PaddedTokensPerSecond)*took)/took32)
	h.meanMFU.add(step, h.recentMFU.sum(mfu*took)/took32)
	for _, c := range []struct {
		to    *curve
		value Number
	}{
		{&h.loss, m.Loss},
		{&h.rate, m.LearningRate},
		{&h.gradNorm, m.GradNorm},
		{&h.clippedNorm, m.GradNormClipped},
		{&h.counted, m.TokensPerSecond},
		{&h.stepMS, m.StepMS},
		{&h.deviceMS, m.DeviceMS},
		{&h.waitMS, m.DataWaitMS},
		{&h.mfu100, Number(mfu)},
	} {
		c.to.add(step, float64(c.value))
	}
	for i, share := range m.StageBusy {
		if i == len(h.stagesBusy) {
			h.stagesBusy = append(h.stagesBusy, curve{})
		}
		h.stagesBusy[i].add(step, float64(100*share))
	}
	h.usualComputed.add(float64(m.PaddedTokensPerSecond))
	h.usualMS.add(took)
	h.usualMFU.add(mfu)
}

// recent are the values of the last steps, oldest first.
type recent struct{ values []float64 }

// sum adds a value and sums up.
func (r *recent) sum(v float64) (all float64) {
	if len(r.values) == windowSize {
		r.values = append(r.values[:0], r.values[1:]...)
	}
	r.values = append(r.values, v)
	for _, v := range r.values {
		all += v
	}
	return all
}

// curve is the points of a curve. Of more than a history keeps it has those alone that a picture needs: the lowest and the highest of neighbours.
type curve struct{ points []svg.Point }

func (c *curve) add(x, y float64) {
	if !finite(y) {
		return
	}
	if len(c.points) == mostPoints {
		kept := c.points[:0]
		for part := range slices.Chunk(c.points, 4) {
			low, high := 0, 0
			for i, p := range part {
				if p.Y < part[low].Y {
					low = i
				}
				if p.Y > part[high].Y {
					high = i
				}
			}
			a, b := part[min(low, high)], part[max(low, high)]
			kept = append(kept, a, b)
		}
		c.points = kept
	}
	c.points = append(c.points, svg.Point{X: x, Y: y})
}

// sample is values at equal distances, of which there are not more than a history keeps.
type sample struct {
	values []float64
	every  int // 0: all
	seen   int
}

func (s *sample) add(v float64) {
	if !finite(v) {
		return
	}
	s.seen++
	if s.every > 1 && s.seen%s.every != 0 {
		return
	}
	if len(s.values) == mostPoints {
		kept := s.values[:0]
		for i := 1; i < len(s.values); i += 2 {
			kept = append(kept, s.values[i])
		}
		s.values, s.every = kept, max(1, s.every)*2
	}
	s.values = append(s.values, v)
}

// usual is what few of the values are above: steps that take many times as long as others, or seem to take no
// time, would make all the others look alike.
func (s *sample) usual() float64 {
	if len(s.values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.values))
	return 2 * sorted[len(sorted)*95/100]
}

var errStep = errors.New("found a step below the step before")

// readHistory reads metrics.jsonl of a run directory up to a step; damaged are the numbers of the lines that cannot be read. A directory without
// metrics has none.
func readHistory(dir string, most int64) (h *history, damaged []int, err error) {
	h = &history{}
	before := int64(0)
	damaged, err = readLines(filepath.Join(dir, metricsFile), func(line []byte) error {
		if !bytes.HasSuffix(line, []byte("\n")) { // it is being written, or a kill has cut it short
			return nil
		}
		var m Metrics
		var e EvalMetrics
		var err error
		eval := isEval(line)
		if eval {
			err = json.Unmarshal(line, &e)
			m.Step = e.Step
		} else {
			err = m.read(line)
		}
		if err != nil || m.Step < before {
			return cmp.Or(err, errStep)
		}
		switch before = m.Step; {
		case m.Step > most:
		case eval:
			h.evals = append(h.evals, e)
		default:
			h.add(m)
		}
		return nil
	})
	return h, damaged, err
}
