package data

import (
	"fmt"
	"math"
)

// Steps is the number of batches of batch windows of context tokens that have all windows of the first epochs of a source; the last one
// goes on into the next epoch.
func Steps(source Source, context, batch int, seed uint64, epochs int) (int64, error) {
	if source == nil {
		return 0, fmt.Errorf("data: epochs: source: %w", errNone)
	}
	walk, err := source.walk(context, seed)
	if err != nil {
		return 0, fmt.Errorf("data: epochs: %w", err)
	}
	windows := uint64(0)
	for epoch := range uint64(epochs) {
		n := walk.length(epoch)
		if n > math.MaxInt64-windows {
			return 0, fmt.Errorf("data: epochs: %d: without an end where a mixture restarts its sources, want %q or %q", epochs, EndFirstExhausted, EndAllExhausted)
		}
		windows += n
	}
	return int64((windows + uint64(batch) - 1) / uint64(batch)), nil
}
