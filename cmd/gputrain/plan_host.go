package main

import (
	"fmt"
	"math"

	"gputrain/state"
)

// plannedHost is what a run takes of the host's memory beside the devices' buffers. Sizes in bytes.
type plannedHost struct {
	Program   uint64  `json:"program_bytes"`
	Staging   uint64  `json:"staging_bytes"`
	Copy      uint64  `json:"copy_bytes"`      // of a checkpoint, which is written while training goes on
	Copies    bool    `json:"copies"`          // it is taken: train.save_async, and there is room; else training waits
	Available *uint64 `json:"available_bytes"` // for a copy, beside all else and the reserve; null where nothing tells
	Reserve   uint64  `json:"reserve_bytes"`   // that is left to others

	text string
}

// hostOf is the host's part of a plan; async is train.save_async.
func hostOf(h state.HostPlan, async bool) plannedHost {
	out := plannedHost{Program: h.Program, Staging: h.Staging, Copy: h.Copy, Copies: h.Copies(async), Reserve: h.Reserve}
	left := "of what is not known"
	if h.Free != math.MaxUint64 {
		out.Available = &h.Free
		left = fmt.Sprintf("of %s left beside devices and a reserve of %s", size(h.Free), size(h.Reserve))
	}
	waits := ""
	if !out.Copies {
		waits = ": not taken, training waits while a checkpoint is written (train.save_async)"
	}
	out.text = fmt.Sprintf("%s, %s%s", h, left, waits)
	return out
}
