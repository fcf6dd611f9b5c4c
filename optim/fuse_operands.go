package optim

import (
	"fmt"

	"gputrain/buffers"
)

// at is the index of an operand's vec4.
func (o operand) at() string {
	if o.route >= 0 {
		return fmt.Sprintf("i_%d", o.route)
	}
	return "i"
}

func load(o operand) string {
	if o.dtype == buffers.U8 {
		return fmt.Sprintf(loadCodes, o.name, o.signs())
	}
	value := fmt.Sprintf("%s_data[%s]", o.name, o.at())
	if o.dtype == buffers.BF16 {
		value = "bf16_unpack4(" + value + ")"
	}
	keyword := "var"
	if o.place < 0 {
		keyword = "let"
	}
	return fmt.Sprintf("%s %s = %s;\n", keyword, o.name, value)
}

// store writes a tree back. Padding stays zero, and a parameter that gets no update keeps every bit.
func (f *fusion) store(o operand) string {
	value := o.name
	switch o.place {
	case paramsPlace:
		value = "select(p + u, p, u == vec4<f32>(0.0))"
	case updatesPlace:
		value = "u"
	}
	value = "select(vec4<f32>(0.0), " + value + ", live)"
	switch {
	case o.slot.Dither:
		value = fmt.Sprintf("optim_dither(%s, table[entry + 1u], %s, %du, table[entry + 2u] + (i & 31u))",
			value, scalarWord(f.plan.scalars), o.place)
	case o.dtype == buffers.BF16 && o.place == paramsPlace && f.plan.rows >= 0: // to nearest, small steps on a sphere would be lost
		value = fmt.Sprintf("optim_dither(%s, table[entry + 1u], %s, %du, table[entry + 2u] + (i & 31u))", value, scalarWord(f.plan.scalars), f.plan.slots)
	case o.dtype == buffers.BF16:
		value = "bf16_pack4(" + value + ")"
	}
	text := fmt.Sprintf("%s_data[%s] = %s;\n", o.name, o.at(), value)
	if o.dtype == buffers.U8 {
		text = fmt.Sprintf(storeCodes, o.name, o.signs())
	}
	if o.route >= 0 {
		text = fmt.Sprintf("if (route_%d) { %s}\n", o.route, text)
	}
	accumulation := f.plan.transform.accumulate > 1 && o.place == 0    // is reset all the same
	told := o.slot.kept || o.place == paramsPlace && f.plan.restores() // the elements say what is left
	if f.plan.transform.skip && f.job.kind == updateJob && !accumulation && !told && o.place != updatesPlace {
		text = "if (statistics[0].y == 0u) { " + text + "}\n"
	}
	return text
}
