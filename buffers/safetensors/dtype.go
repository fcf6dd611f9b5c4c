package safetensors

import (
	"fmt"
	"math"
	"math/bits"
)

// elementBytes lists the element types of the format whose size is whole bytes.
var elementBytes = map[string]uint64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4,
	"U64": 8, "I64": 8, "F64": 8, "C64": 8,
}

// byteLength is the size of a tensor; every dimension and product stays within an int.
func byteLength(dtype string, shape []int) (uint64, error) {
	size, ok := elementBytes[dtype]
	if !ok {
		return 0, fmt.Errorf("unknown dtype %q", dtype)
	}
	// Zero dimensions do not excuse the others: [2^40, 2^40, 0] is refused as well.
	n := size
	zero := false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v: dimension %d is negative", shape, d)
		}
		if d == 0 {
			zero = true
			continue
		}
		high, low := bits.Mul64(n, uint64(d))
		if n = low; high != 0 || n > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v: size overflows", shape)
		}
	}
	if zero {
		return 0, nil
	}
	return n, nil
}
