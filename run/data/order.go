package data

import (
	"fmt"
	"math"
	"math/bits"
)

// order is a keyed permutation of [0, n): a Feistel network over the next even
// number of bits, walked until it lands inside. It needs no memory and any
// position is found directly.
type order struct {
	n    uint64
	half uint   // bits of each half
	key  uint64 // of seed and epoch
}

const feistelRounds = 6

// newOrder is the order of n windows in an epoch.
func newOrder(n, seed, epoch uint64) order {
	half := uint(bits.Len64(n-1)+1) / 2
	return order{n: n, half: max(1, half), key: mix(mix(seed+0x9e3779b97f4a7c15) ^ epoch)}
}

// at returns the index that stands at position i < n. A walk takes less than
// four steps on average, as the network's domain is less than 4n.
func (o order) at(i uint64) uint64 {
	mask := uint64(1)<<o.half - 1
	for {
		left, right := i>>o.half, i&mask
		for r := range uint64(feistelRounds) {
			left, right = right, left^mix(right^o.key+r*0xd1342543de82ef95)&mask
		}
		if i = left<<o.half | right; i < o.n {
			return i
		}
	}
}

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Steps is the number of batches of batch windows of context tokens that have all windows of the first epochs of a source; the last one
// goes on into the next epoch.
func Steps(source Source, context, batch int, seed uint64, epochs int) (int64, error) {
	if source == nil {
		return 0, fmt.Errorf("data: epochs: source: %w", errNone)
	}
	walk, err := source.Walk(context, seed)
	if err != nil {
		return 0, fmt.Errorf("data: epochs: %w", err)
	}
	windows := uint64(0)
	for epoch := range uint64(epochs) {
		n := walk.Length(epoch)
		if n > math.MaxInt64-windows {
			return 0, fmt.Errorf("data: epochs: %d: without an end where a mixture restarts its sources, want %q or %q", epochs, endFirstExhausted, endAllExhausted)
		}
		windows += n
	}
	return int64((windows + uint64(batch) - 1) / uint64(batch)), nil
}

// Shuffled is the window at a state of so many windows, of which every n stay together, in the order that a seed gives to an epoch.
func Shuffled(s State, windows, n int64, seed uint64) int64 {
	return int64(inGroups(s.Position, uint64(n), newOrder(uint64(windows/n), seed, s.Epoch).at))
}

// inGroups is where window i lies, of which every n stay together, with the order of the groups.
func inGroups(i, n uint64, at func(group uint64) uint64) uint64 { return n*at(i/n) + i%n }
