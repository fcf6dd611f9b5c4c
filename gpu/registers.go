package gpu

import (
	"cmp"
	"strings"

	"gputrain/shaders"
)

// Registers is what a compiler has for an invocation of a kernel, by the make of the card. Kernels that keep sums in registers choose their tiles by it:
// what does not fit is spilled to memory. Zero is taken as the least that any make has.
type Registers struct {
	// Budget is the number of registers of 32 bits at which a card still runs enough invocations at once.
	Budget int
	// Twice says that what an unrolled loop carries takes two registers a value: from the loop's first instruction to its last, and what lies in between.
	Twice bool
}

// leastRegisters is what a make has that is not known.
var leastRegisters = Registers{Budget: 128, Twice: true}

// registersOf are those of the make that an adapter's name tells. A run's record has the name, so a run that resumes has the same kernels.
// Source: the compilers of Mesa 26.1 (`make isa`): RADV, NVK, Turnip, Honeykrisp, and ANV, whose allocator holds two values apart by the first and the last
// place of each.
func registersOf(name string, software bool) Registers {
	if software { // its kernels keep to the processor's
		return Registers{Budget: 256}
	}
	name = strings.ToLower(name)
	for _, make := range []struct {
		names     string
		registers Registers
	}{
		{"nvidia nvk geforce quadro tesla", Registers{Budget: 255}},
		{"amd radeon radv", Registers{Budget: 256}},
		{"adreno", Registers{Budget: 192}},
		{"apple", Registers{Budget: 128}},
	} {
		for part := range strings.FieldsSeq(make.names) {
			if strings.Contains(name, part) {
				return make.registers
			}
		}
	}
	return leastRegisters
}

// within returns the stricter of both; zero fields of o are none.
func (r Registers) within(o Registers) Registers {
	return Registers{Budget: lower(r.Budget, o.Budget), Twice: r.Twice || o.Twice}
}

// OrLeast is r, or where it is zero what every make has.
func (r Registers) OrLeast() Registers { return cmp.Or(r, leastRegisters) }

// Holds tells whether a loop that carries some values and works on others can be unrolled without a spill.
func (r Registers) Holds(carried, others int) bool {
	if r.Twice {
		carried *= 2
	}
	return carried+others <= r.Budget
}

// productOthers are the registers that the innermost loop of a tiled product takes besides what it carries, of two quads a side: operands and their
// addresses (make isa: 173 alive in an unrolled loop of 64 sums that count twice; where C is stored one by one, a few more).
const productOthers = 49

// ProductTile is how a product's square tile of so many rows is made without a spill: unrolled, and with the next step's operands on their way, where
// registers hold that. The tile of 64 then takes eight of K at a time, whose operands take half the registers of 16.
func (r Registers) ProductTile(rows int) shaders.ProductTile {
	t := shaders.ProductTile{Rows: rows, Step: 16}
	t.Rolled = !r.OrLeast().Holds(t.Sums(), productOthers)
	switch {
	case rows == 32:
		t.Step = 32
	case rows == 64 && !t.Rolled:
		t.Step = 8
	}
	t.Prefetch = r.OrLeast().Holds(t.Sums()+t.Held(), productOthers)
	return t
}
