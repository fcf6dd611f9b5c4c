package optim

import (
	"fmt"

	"gputrain/buffers"
)

// A kernel with slots in eight bits goes through a slab by blocks of codes, a workgroup each, whose elements it has at once: it reads codes and maximum,
// computes in f32, finds the new maximum and writes the new codes, with one barrier. Leaves in f32 lie in the same trees, behind all codes
// (buffers.Coded), and take the same way without a maximum.

// atCodes finds the word of a tree in eight bits that has the element in hand, or of four words the first.
const atCodes = `let home = table[entry + %du];
let plain = home >= params.plain;
let at = home + (i & 31u) * select(1u, 4u, plain);
`

const loadCodes = `var %[1]s = vec4<f32>(0.0);
if (plain) {
%[1]s = bitcast<vec4<f32>>(vec4<u32>(%[1]s_data[at], %[1]s_data[at + 1u], %[1]s_data[at + 2u], %[1]s_data[at + 3u]));
} else {
%[1]s = dynamic8_of_%[2]s(%[1]s_data[at]) * bitcast<f32>(%[1]s_data[params.maxima + (at >> 6u)]);
}
`

const storeCodes = `if (plain) {
let words = bitcast<vec4<u32>>(%[1]s_live);
%[1]s_data[at] = words.x;
%[1]s_data[at + 1u] = words.y;
%[1]s_data[at + 2u] = words.z;
%[1]s_data[at + 3u] = words.w;
} else {
let largest = dynamic8_largest(atomicLoad(&%[1]s_top));
%[1]s_data[at] = dynamic8_%[2]s(%[1]s_live, largest);
if (lane == 0u) { %[1]s_data[params.maxima + (at >> 6u)] = bitcast<u32>(largest); }
}
`

// top puts the largest magnitude of a block together.
func top(o operand) string {
	return fmt.Sprintf("let %[1]s_live = select(vec4<f32>(0.0), %[1]s, live);\natomicMax(&%[1]s_top, dynamic8_top(%[1]s_live));\n", o.name)
}

func workgroupTops(operands []operand) (text string) {
	for _, o := range operands {
		if o.dtype == buffers.U8 {
			text += fmt.Sprintf("var<workgroup> %s_top: atomic<u32>;\n", o.name)
		}
	}
	return text
}

// signs is the end of the names of the functions of its codes.
func (o operand) signs() string {
	if o.slot.Unsigned {
		return "unsigned"
	}
	return "signed"
}
