package gguf

// The K types store 256 elements in groups, whose scales are quantized too.

// groupScale gives the scale and the minimum of group j of eight, six bits each in twelve bytes.
func groupScale(j int, packed []byte) (scale, least byte) {
	if j < 4 {
		return packed[j] & 63, packed[j+4] & 63
	}
	return packed[j+4]&15 | packed[j-4]>>6<<4, packed[j+4]>>4 | packed[j]>>6<<4
}

// Q4_K: f16 d and dmin, 12 bytes of scales s and minima m, 128 bytes of nibbles; eight groups of 32 elements, of which two share their bytes. The
// element is (d s) q - dmin m.
func decodeQ4K(dst []float32, src []byte) {
	blocks(256, 144, dst, src, func(x []float32, b []byte) {
		decodeGroups(x, b, func(pair int) (codes []byte, fifth []byte) { return b[16+32*pair:], nil })
	})
}

// Q5_K: as Q4_K, with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to element i of group j.
func decodeQ5K(dst []float32, src []byte) {
	blocks(256, 176, dst, src, func(x []float32, b []byte) {
		decodeGroups(x, b, func(pair int) (codes []byte, fifth []byte) { return b[48+32*pair:], b[16:48] })
	})
}

// decodeGroups decodes a block of Q4_K or Q5_K; pair gives the bytes that two groups share, and the fifth bits of all.
func decodeGroups(x []float32, b []byte, pair func(int) (codes, fifth []byte)) {
	d, dmin := half(b), half(b[2:])
	for j := range 8 {
		scale, least := groupScale(j, b[4:16])
		step, offset := d*float32(scale), dmin*float32(least)
		codes, fifth := pair(j / 2)
		for i := range 32 {
			q := codes[i] >> (j % 2 * 4) & 15
			if fifth != nil {
				q |= fifth[i] >> j & 1 << 4
			}
			x[32*j+i] = float32(step*float32(q)) - offset
		}
	}
}

// Q6_K: 128 bytes of the low four bits, 64 of the high two, 16 int8 scales s of groups of 16 elements, f16 d. Each half of the block
// has four quarters of 32 elements, which share their bytes. The element is d s (q - 32).
func decodeQ6K(dst []float32, src []byte) {
	blocks(256, 210, dst, src, func(x []float32, b []byte) {
		d := half(b[208:])
		for h := range 2 {
			low, high, scales := b[64*h:], b[128+32*h:], b[192+8*h:]
			for i := range 32 {
				for quarter := range 4 {
					q := low[i+quarter%2*32]>>(quarter/2*4)&15 | high[i]>>(2*quarter)&3<<4
					step := d * float32(int8(scales[i/16+2*quarter]))
					x[128*h+32*quarter+i] = step * float32(int(q)-32)
				}
			}
		}
	})
}
