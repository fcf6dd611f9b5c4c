package tokenizer

import (
	"sync"
	"unicode"
)

// What a character is, in the terms of the patterns that cut words.
const (
	letter  = 1 << iota     // \p{L}
	number                  // \p{N}
	space                   // \s
	newline                 // \r or \n
	upper                   // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower                   // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	marked  = upper | lower // [\p{L}\p{M}]
)

// category is a general category of Unicode: what Go's tables have of it, and what Unicode 15.1 and 16.0 added, which Oniguruma,
// the library of the reference, knows. TestClassesAreThoseOfUnicode16 counts them.
type category struct {
	table *unicode.RangeTable
	added [][2]rune
	is    uint8
}

var categories = map[string]category{
	"Lu": {unicode.Lu, [][2]rune{{0x1C89, 0x1C89}, {0xA7CB, 0xA7CC}, {0xA7DA, 0xA7DA}, {0xA7DC, 0xA7DC}, {0x10D50, 0x10D65}}, letter | upper},
	"Lt": {unicode.Lt, nil, letter | upper},
	"Ll": {unicode.Ll, [][2]rune{{0x1C8A, 0x1C8A}, {0xA7CD, 0xA7CD}, {0xA7DB, 0xA7DB}, {0x10D70, 0x10D85}}, letter | lower},
	"Lm": {unicode.Lm, [][2]rune{{0x10D4E, 0x10D4E}, {0x10D6F, 0x10D6F}, {0x16D40, 0x16D42}, {0x16D6B, 0x16D6C}}, letter | upper | lower},
	"Lo": {unicode.Lo, [][2]rune{
		{0x105C0, 0x105F3},
		{0x10D4A, 0x10D4D},
		{0x10D4F, 0x10D4F},
		{0x10EC2, 0x10EC4},
		{0x11380, 0x11389},
		{0x1138B, 0x1138B},
		{0x1138E, 0x1138E},
		{0x11390, 0x113B5},
		{0x113B7, 0x113B7},
		{0x113D1, 0x113D1},
		{0x113D3, 0x113D3},
		{0x11BC0, 0x11BE0},
		{0x13460, 0x143FA},
		{0x16100, 0x1611D},
		{0x16D43, 0x16D6A},
		{0x18CFF, 0x18CFF},
		{0x1E5D0, 0x1E5ED},
		{0x1E5F0, 0x1E5F0},
		{0x2EBF0, 0x2EE5D},
	}, letter | upper | lower},
	"M": {unicode.M, [][2]rune{
		{0x897, 0x897},
		{0x10D69, 0x10D6D},
		{0x10EFC, 0x10EFC},
		{0x113B8, 0x113C0},
		{0x113C2, 0x113C2},
		{0x113C5, 0x113C5},
		{0x113C7, 0x113CA},
		{0x113CC, 0x113D0},
		{0x113D2, 0x113D2},
		{0x113E1, 0x113E2},
		{0x11F5A, 0x11F5A},
		{0x1611E, 0x1612F},
		{0x1E5EE, 0x1E5EF},
	}, upper | lower},
	"N": {unicode.N, [][2]rune{
		{0x10D40, 0x10D49},
		{0x116D0, 0x116E3},
		{0x11BF0, 0x11BF9},
		{0x16130, 0x16139},
		{0x16D70, 0x16D79},
		{0x1CCF0, 0x1CCF9},
		{0x1E5F1, 0x1E5FA},
	}, number},
}

// classTable has the class of every character.
var classTable = sync.OnceValue(func() *[unicode.MaxRune + 1]uint8 {
	table := new([unicode.MaxRune + 1]uint8)
	set := func(low, high, stride rune, is uint8) {
		for r := low; r <= high; r += stride {
			table[r] |= is
		}
	}
	ranges := func(t *unicode.RangeTable, is uint8) {
		for _, r := range t.R16 {
			set(rune(r.Lo), rune(r.Hi), rune(r.Stride), is)
		}
		for _, r := range t.R32 {
			set(rune(r.Lo), rune(r.Hi), rune(r.Stride), is)
		}
	}
	for _, c := range categories {
		ranges(c.table, c.is)
		for _, r := range c.added {
			set(r[0], r[1], 1, c.is)
		}
	}
	ranges(unicode.White_Space, space)
	table['\r'] |= newline
	table['\n'] |= newline
	return table
})

func classOf(r rune) uint8 { return classTable()[r] }
