package state

import (
	"encoding/binary"
	"math"

	"gputrain/gpu"
	"gputrain/optim"
)

// Limits are what a step may have so that its update is made; 0 and infinity are none. The device decides, before anything changes.
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

// StatisticsBytes is the room that CopyStatistics takes.
func (c Config) StatisticsBytes() uint64 {
	if c.MeasureUpdates {
		return 2 * optim.StatisticsBytes
	}
	return optim.StatisticsBytes
}

// CopyStatistics records that what an update has measured is copied to dst, from a multiple of 16 bytes on, for Metrics.Parse to read.
func CopyStatistics(rec *gpu.Recording, dst *gpu.Buffer, offset uint64, opt *optim.State) {
	all, update := opt.Statistics(), opt.UpdateStatistics()
	rec.Copy(dst.Range(offset, optim.StatisticsBytes), all.Buffer.Range(all.Offset, optim.StatisticsBytes))
	if update.Bytes > 0 {
		rec.Copy(dst.Range(offset+optim.StatisticsBytes, optim.StatisticsBytes), update)
	}
}

// Parse reads what a step has left: the losses of its micro-batches, f32, and what CopyStatistics has copied. Tokens must be set.
func (m *Metrics) Parse(losses, statistics []byte) error {
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
	m.Loss, m.GradNorm = sum/float64(m.Tokens), float64(gradient.Norm)
	m.Finite, m.Spikes = !gradient.NonFinite, gradient.Spikes
	return nil
}
