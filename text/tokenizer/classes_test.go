package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The sizes of Unicode 16.0's categories above ASCII, as Oniguruma counts them.
func TestClassesAreThoseOfUnicode16(t *testing.T) {
	counts := map[uint8]int{}
	for r := rune(0x80); r <= 0x10FFFF; r++ {
		is := classOf(r)
		for _, c := range []uint8{letter, number, space} {
			if is&c != 0 {
				counts[c]++
			}
		}
		switch {
		case is&letter != 0 && is&upper != 0 && is&lower == 0:
			counts[upper]++ // Lu, Lt
		case is&letter != 0 && is&lower != 0 && is&upper == 0:
			counts[lower]++ // Ll
		}
	}
	assert.Equal(t, map[uint8]int{letter: 140976, number: 1901, space: 19, upper: 1832 + 31, lower: 2232}, counts)
}
