package compile

import (
	"fmt"

	"gputrain/graph"
)

// seen is the table of what an attention of documents sees, none where it has no documents: of each position the first key that it sees, and where
// the positions that see it as a key end.
func (c *Compiler) seen(op graph.Attention, n *graph.Node) []rowOperand {
	if !op.Documents {
		return nil
	}
	positions := n.Inputs[op.Operands()]
	b, t := positions.Shape()[0], positions.Shape()[1]
	table := c.derived(positions, fmt.Sprintf("seen.%d", op.Window), []int{b, t, 2}, func(dst []byte, src []int32) error {
		for first := 0; first < len(src); first += t {
			if err := checkDocuments(src[first:first+t], first); err != nil {
				return err
			}
			putUints(dst[8*first:], seenOf(src[first:first+t], op.Window))
		}
		return nil
	})
	return []rowOperand{{tensor: table, name: "seen"}}
}

// checkDocuments refuses positions of a row, the first of them at first of all, that are not those of documents one behind the other.
func checkDocuments(positions []int32, first int) error {
	for i, p := range positions {
		if p != 0 && (i == 0 || p != positions[i-1]+1) {
			return fmt.Errorf("position %d: %d, want 0, or one more than that before it", first+i, p)
		}
	}
	return nil
}

// seenOf is the table for a row.
func seenOf(positions []int32, window int) []uint32 {
	table := make([]uint32, 2*len(positions))
	document := len(positions) // where that of a position ends
	for i := len(positions) - 1; i >= 0; i-- {
		before, end := int(positions[i]), document
		if window > 0 {
			before, end = min(before, window-1), min(end, i+window)
		}
		table[2*i], table[2*i+1] = uint32(i-before), uint32(end)
		if positions[i] == 0 {
			document = i
		}
	}
	return table
}
