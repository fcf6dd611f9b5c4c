package array

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// nearestBF16 is the definition in float64: the nearer of the two bfloat16 around f, on a tie the one with an even mantissa.
func nearestBF16(f float32) float32 {
	below := math.Float32frombits(math.Float32bits(f) &^ 0xffff) // towards zero
	if below == f || math.IsInf(float64(f), 0) {
		return f
	}
	aboveBits := math.Float32bits(below) + 0x10000
	above := float64(math.Float32frombits(aboveBits))
	if aboveBits&0x7fffffff == 0x7f800000 { // the next one up would be 2^128
		above = math.Copysign(0x1p128, float64(f))
	}
	down, up := math.Abs(float64(f)-float64(below)), math.Abs(above-float64(f))
	if down < up || down == up && aboveBits&0x10000 != 0 {
		return below
	}
	return math.Float32frombits(aboveBits)
}

// edgeFloats are the bit patterns around every boundary that rounding has.
func edgeFloats() []uint32 {
	var out []uint32
	for _, high := range []uint32{
		0, 1, 0x7f, 0x80, 0x3f7f, 0x3f80, 0x3f81, 0x4049, 0x7f7e, 0x7f7f, 0x7f80, 0x7f81, 0x7fbf, 0x7fc0, 0x7fff,
	} {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			out = append(out, high<<16|low, high<<16|low|1<<31)
		}
	}
	return out
}

func TestEncodeBF16(t *testing.T) {
	check := func(bits uint32) {
		f := math.Float32frombits(bits)
		got := uint32(EncodeBF16(f))
		ok := got == math.Float32bits(nearestBF16(f))>>16
		if f != f { // any NaN of the same sign
			ok = got&0x7fff > 0x7f80 && got>>15 == bits>>31
		}
		if !ok {
			t.Fatalf("%08x becomes %04x", bits, got)
		}
	}
	for _, bits := range edgeFloats() {
		check(bits)
	}
	for high := range uint32(1 << 16) { // every bfloat16, with what lies around its ties
		for _, low := range []uint32{0, 0x7fff, 0x8000, 0x8001} {
			check(high<<16 | low)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1 << 20 {
		check(rng.Uint32())
	}
}

func TestDecodeBF16(t *testing.T) {
	for b := range 1 << 16 {
		f := DecodeBF16(uint16(b))
		if f == f {
			require.Equal(t, uint16(b), EncodeBF16(f))
		}
	}
	require.Equal(t, float32(3.140625), DecodeBF16(0x4049))
}
