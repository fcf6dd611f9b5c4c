package state

import "fmt"

// MemoryPlan is what a training state takes of its adapter's memory, in bytes.
type MemoryPlan struct{ A uint64 }

func (p MemoryPlan) Total() uint64  { return 0 }
func (p MemoryPlan) String() string { return fmt.Sprint(p.A) }
