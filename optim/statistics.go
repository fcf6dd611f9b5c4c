package optim

import (
	"encoding/binary"
	"fmt"
	"math"
)

// StatisticsBytes is the size of one entry of State.Statistics.
const StatisticsBytes = 16

// Statistics is what an update measured of its gradient: the mean gradient where it accumulates, before any clip. On the
// device it is four little-endian words: norm (f32), why the update is left out (u32, bit 0: not finite, the others: a Spike), sum of
// squares (f32), skipped (u32).
type Statistics struct {
	Norm         float32 // global norm
	NonFinite    bool    // some element, or the loss of a guarded update, is infinite or not a number
	Spikes       Spike   // limits of GuardUpdates that were exceeded
	SumOfSquares float32
	Skipped      uint32 // updates that SkipNonFinite and GuardUpdates have dropped since Init
}

// ParseStatistics parses the bytes read back from State.Statistics.
func ParseStatistics(data []byte) (Statistics, error) {
	if len(data) < StatisticsBytes {
		return Statistics{}, fmt.Errorf("optim: statistics: found %d bytes, wanted %d", len(data), StatisticsBytes)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(data[4*i:]) }
	return Statistics{
		Norm: math.Float32frombits(word(0)), NonFinite: word(1)&1 != 0, Spikes: Spike(word(1) &^ 1),
		SumOfSquares: math.Float32frombits(word(2)), Skipped: word(3),
	}, nil
}
