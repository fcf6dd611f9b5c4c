// Package histogram tells how the elements of a tree's leaves are distributed, computed on the device where they lie: 64 bins, least,
// greatest, mean and standard deviation. What is read back is 288 bytes a leaf, and it may be read late.
//
//	c, err := histogram.New(ctx, nil, histogram.Source{Name: "params", Tree: params})
//	err = c.Submit(ctx) // of the trees as they are after all earlier submits
//	...                 // more steps
//	list, err := c.Take(ctx)
//
// The same elements give the same bits on one adapter: counts are integers, and sums have a fixed shape, which goes by leaf and not by what
// lies beside it.
package histogram

import "math"

// Bins is the number of bins of a histogram.
const Bins = 64

// Histogram is how the elements of one array are distributed. All figures but Elements and NonFinite are of the finite ones; without any,
// they are NaN. On a device numbers below the least normal one, 2^-126, may count as 0 in all of them but Min and Max.
type Histogram struct {
	Name      string // of the source and the leaf: "params/h.0.ln_1.weight"
	Elements  uint64
	NonFinite uint64  // that are NaN or infinite
	Min, Max  float64 // exact
	Mean      float64
	Deviation float64      // the root of the mean squared distance from the mean
	Counts    [Bins]uint32 // of equal parts of [Min, Max], Max in the last; all in the first where Min is Max
}

// Of computes a histogram in float64, which the kernels are compared with.
//
//	counts[k] = |{x: floor((x - min) / (max - min) 64) = k}|        deviation = sqrt(sum((x - mean)^2) / n)
func Of(name string, data []float32) Histogram {
	h := Histogram{Name: name, Elements: uint64(len(data)), Min: math.Inf(1), Max: math.Inf(-1)}
	sum := 0.0
	each := func(do func(x float64)) {
		for _, v := range data {
			if x := float64(v); !math.IsNaN(x) && !math.IsInf(x, 0) {
				do(x)
			}
		}
	}
	finite := 0.0
	each(func(x float64) {
		h.Min, h.Max = min(h.Min, x), max(h.Max, x)
		sum += x
		finite++
	})
	h.NonFinite = h.Elements - uint64(finite)
	if finite == 0 {
		h.Min, h.Max, h.Mean, h.Deviation = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		return h
	}
	h.Mean = sum / finite
	squares := 0.0
	each(func(x float64) {
		squares += (x - h.Mean) * (x - h.Mean)
		bin := 0
		if h.Max > h.Min {
			bin = min(int((x-h.Min)/(h.Max-h.Min)*Bins), Bins-1)
		}
		h.Counts[bin]++
	})
	h.Deviation = math.Sqrt(squares / finite)
	return h
}

// A leaf has these words on a device; see shaders/shared/histogram.wgsl.
const (
	lowWord     = 0
	highWord    = 1
	finiteWord  = 2
	meanWord    = 3
	squaresWord = 4
	binsWord    = 8
	leafWords   = binsWord + Bins
)

// parse reads the results of the kernels for a leaf.
func parse(name string, elements uint64, words []uint32) Histogram {
	h := Histogram{Name: name, Elements: elements, NonFinite: elements - uint64(words[finiteWord])}
	if words[finiteWord] == 0 {
		h.Min, h.Max, h.Mean, h.Deviation = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		return h
	}
	low, high := bitsOf(^words[lowWord]), bitsOf(words[highWord])
	scale := scaleOf(low, high)
	h.Min, h.Max = float64(math.Float32frombits(low)), float64(math.Float32frombits(high))
	h.Mean = float64(math.Float32frombits(words[meanWord])) / scale
	h.Deviation = math.Sqrt(float64(math.Float32frombits(words[squaresWord]))/float64(words[finiteWord])) / scale
	copy(h.Counts[:], words[binsWord:])
	return h
}

// bitsOf is the float that a key stands for.
func bitsOf(key uint32) uint32 {
	if key >= 1<<31 {
		return key & (1<<31 - 1)
	}
	return ^key
}

// scaleOf is the power of two that the kernels multiply elements with, of the least and the greatest of them.
func scaleOf(low, high uint32) float64 {
	exponent := max(low>>23&0xff, high>>23&0xff)
	return math.Ldexp(1, max(1, 254-int(exponent))-127)
}
