package buffers

import "gputrain/buffers/array"

// What a tree is made of and from, as package array has it for those who know no device.
type (
	DType = array.DType
	Spec  = array.Spec
	Host  = array.Host
)

// The storage types.
const (
	F32  = array.F32
	BF16 = array.BF16
	I32  = array.I32
	U32  = array.U32

	NF4       = array.NF4
	NF4Nested = array.NF4Nested
)
