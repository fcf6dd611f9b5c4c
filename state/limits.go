package state

import (
	"encoding/binary"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
)

// Limits bound what a step may measure for its update to be made; 0 and infinity bound nothing. The device decides, before anything
// changes.
type Limits struct {
	Loss       float64 // nats a token
	GradNorm   float64 // as Metrics has it
	UpdateNorm float64 // likewise; it asks for Config.MeasureUpdates
}

// Of is the limits of a step whose loss has count tokens.
func (l Limits) Of(count int64) optim.Limits {
	return optim.Limits{Loss: l.Loss * float64(count), GradNorm: l.GradNorm, UpdateNorm: l.UpdateNorm}
}

// SetLimits sets what the steps from the next one on may have.
func (s *TrainState) SetLimits(l Limits) { s.limits = l }

// FirstScale is the binary logarithm of the scale that a training with products of f16 begins with.
const FirstScale = 14

// SetScale sets the power of two that the steps from the next one on scale the loss by whose gradient they compute, so that what products round to f16 is
// not too small for it. The gradients that an update sees are divided by it, which rounds nothing. It has no effect without Config.RoundProducts.
func (s *TrainState) SetScale(scale float64) { s.scale = scale }

// A step leaves the losses of its microbatches, and behind them the sums of their objective, each padded so that what follows keeps its alignment, and what its
// update has measured.

// resultBytes is the size of what a step leaves.
func (j Job) resultBytes() uint64 {
	if j.MeasureUpdates {
		return j.lossRoom() + j.sumRoom() + 2*optim.StatisticsBytes
	}
	return j.lossRoom() + j.sumRoom() + optim.StatisticsBytes
}

func (j Job) lossRoom() uint64 { return (4*uint64(j.losses()) + 15) / 16 * 16 }

func (j Job) sumRoom() uint64 { return (j.sumBytes()*uint64(j.losses()) + 15) / 16 * 16 }

// sumBytes is the size of model.Built.Sums and Built.Routed; 0: there are none.
func (j Job) sumBytes() uint64 {
	return 4 * uint64(len(j.Objective.Row().Sums)+model.RoutingOf(j.Definition).Sums())
}

// recordResults records that what a step leaves is copied to dst, of resultBytes.
func (j Job) recordResults(rec *gpu.Recording, dst *gpu.Buffer, opt *optim.State) {
	losses, offset := opt.Losses(), j.lossRoom()+j.sumRoom()
	rec.Copy(dst.Range(0, losses.Bytes), losses)
	all, update := opt.Statistics(), opt.UpdateStatistics()
	rec.Copy(dst.Range(offset, optim.StatisticsBytes), all.Buffer.Range(all.Offset, optim.StatisticsBytes))
	if update.Bytes > 0 {
		rec.Copy(dst.Range(offset+optim.StatisticsBytes, optim.StatisticsBytes), update)
	}
}

// parse reads what a step has left. Tokens must be set.
func (m *Metrics) parse(j Job, results []byte) error {
	losses, statistics := results[:4*j.losses()], results[j.lossRoom()+j.sumRoom():]
	gradient, err := optim.ParseStatistics(statistics)
	if err != nil {
		return err
	}
	if own := statistics[optim.StatisticsBytes:]; len(own) > 0 {
		update, err := optim.ParseStatistics(own)
		if err != nil {
			return err
		}
		m.UpdateNorm = float64(update.Norm)
	}
	sum := 0.0
	for ; len(losses) > 0; losses = losses[4:] {
		sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(losses)))
	}
	if n := int(j.sumBytes() / 4); n > 0 {
		row, routing := j.Objective.Row(), model.RoutingOf(j.Definition)
		for all := range slices.Chunk(array.Decoded(buffers.F32, results[j.lossRoom():])[:n*j.losses()], n) {
			if len(row.Sums) > 0 {
				m.Means = addTo(m.Means, all[:len(row.Sums)], m.Tokens, row.Maxima)
			}
			if routed := all[len(row.Sums):]; len(routed) > 0 {
				m.Balance += routing.Balance(routed) / float64(j.losses())
				m.Experts = append(m.Experts, make([]int64, len(routed)/2-len(m.Experts))...)
				for i := range m.Experts {
					m.Experts[i] += int64(routed[i])
				}
			}
		}
	}
	m.Loss, m.GradNorm = sum/float64(m.Tokens), float64(gradient.Norm)
	m.Finite, m.Spikes = !gradient.NonFinite, gradient.Spikes
	return nil
}

// addTo adds sums, divided by what counts, to means. Of the last, the maxima, it keeps the greatest.
func addTo(means []float64, sums []float32, count int64, maxima int) []float64 {
	first := means == nil
	if first {
		means = make([]float64, len(sums))
	}
	for i, sum := range sums {
		switch v := float64(sum); {
		case i < len(sums)-maxima:
			means[i] += v / float64(count)
		case first:
			means[i] = v
		default:
			means[i] = max(means[i], v)
		}
	}
	return means
}
