package state

// Paging is how a model continues several texts at once, each in a row of its own. Keys and values are kept in Blocks of Size positions, of which a table
// lists up to Entries of a row in the order of its positions. A pass takes in Fill tokens of any rows, or one of each.
type Paging struct{ Rows, Blocks, Size, Entries, Fill int }

// Places are the tokens of a pass over several texts: the row of each, -1 where a place is empty, and its position there. No two are the same.
type Places struct {
	Tokens, Rows, Positions []int32
	Table                   []int32 // [Rows, Entries], blocks
}
