package main

import (
	"errors"
	"fmt"
	"regexp"
)

// limitsHoldFor is the compiler that the limits were taken with: another one spills elsewhere.
const limitsHoldFor = "Mesa 22.3"

// limit is what a kernel may take.
type limit struct {
	kernel  string // regular expression, of the whole label without "gputrain."
	spills  int    // at most
	scratch int    // at most
	narrow  int    // loads of less than 16 bytes, at most
	waves   [2]int // at least, on RDNA and on Vega
	share   int    // per cent of multiply-adds in the innermost loop, at least
}

// limits are what we want: no kernel spills. The first one that matches a kernel holds.
var limits = []limit{
	// A workgroup's tile fills the workgroup memory that two waves a SIMD leave each other. Of each position there are one or two numbers besides
	// what is read 16 bytes at a time. Shares differ by how evenly a width divides.
	// On packed documents there is the first position of its document too.
	{kernel: `graph\.attention_(d\w+_)?tiled_(64|128)_.*_documents`, waves: [2]int{2, 1}, narrow: 3, share: 72},
	{kernel: `graph\.attention_(d\w+_)?tiled_.*_documents`, waves: [2]int{2, 1}, narrow: 3, share: 64},
	{kernel: `graph\.attention_(d\w+_)?tiled_(64|128)_.*`, waves: [2]int{2, 1}, narrow: 2, share: 73},
	{kernel: `graph\.attention_(d\w+_)?tiled_.*`, waves: [2]int{2, 1}, narrow: 2, share: 64},
	// The keys of 64 positions are read, not multiplied with much: what counts is waves.
	{kernel: `graph\.attention_cached_tiled_.*`, waves: [2]int{10, 5}},
	// A quad of B is 8 bytes of bf16, or half a word of nf4 and the maximum of its block; the levels of nf4 are read once.
	{kernel: `graph\.matmul_tiled_.*_bf16(_.*)?`, waves: [2]int{4, 2}, narrow: 4, share: 94},
	{kernel: `graph\.matmul_tiled_.*_nf4(_.*)?`, waves: [2]int{4, 2}, narrow: 9, share: 94},
	// A tile of 64x64 takes 16 accumulators and the operands of a step on their way: 128 registers. A check or an address in the innermost loop
	// shows in its share.
	{kernel: `graph\.matmul_tiled_.*|kron\.product_.*`, waves: [2]int{4, 2}, share: 94},
	// Where positions are read, each is a number.
	{kernel: `graph\.rope_(inverse_)?(partial_)?at`, waves: [2]int{16, 9}, narrow: 1},
	// What waits for memory wants as many waves as there are, and loads of 16 bytes.
	{kernel: `graph\.(elementwise|matmul_slices|norm|rope_inverse).*|graph\.rope`, waves: [2]int{16, 9}},
	{kernel: `optim\.muon_(gather|scatter)|kron\.(carry|diagonal)_gather|kron\.carry_scatter`, waves: [2]int{16, 9}},
	{kernel: `graph\.reduce_.*`, waves: [2]int{14, 7}, narrow: 1},
	{kernel: `optim\.update`, waves: [2]int{16, 9}, narrow: 7}, // of which up to seven are numbers of a leaf
	{kernel: `.*`, waves: [2]int{4, 2}, narrow: 8},
}

// exceptions are what breaks limits today. Their figures, the worst of all families, only go down; one that no kernel needs is an error. Where a
// figure is left out, the limit itself holds.
var exceptions = []limit{
	// Target: 1. Few rows are added up without a loop, and what they are multiplied with is loaded for each.
	{kernel: `graph\.reduce_sum`, narrow: 32},
}

// matches tells whether the limit is one of that kernel.
func (l limit) matches(label string) bool {
	return regexp.MustCompile(`^gputrain\.(` + l.kernel + `)$`).MatchString(label)
}

// least is the number of waves that a family is to hold.
func (l limit) least(family string) int {
	if rdna(family) {
		return l.waves[0]
	}
	return l.waves[1]
}

// breaches says where a kernel breaks the limit, one line each.
func (l limit) breaches(f figures) (errs []error) {
	say := func(what string, found int, wanted string, bound int) {
		errs = append(errs, fmt.Errorf("isa: %s (%s): %s: %s: found %d, wanted %s %d", f.Label, f.Use, f.Family, what, found, wanted, bound))
	}
	if f.Spills > l.spills {
		say("spilled registers", f.Spills, "at most", l.spills)
	}
	if f.Scratch > l.scratch {
		say("bytes of scratch", f.Scratch, "at most", l.scratch)
	}
	if f.narrow() > l.narrow {
		say("loads of less than 16 bytes", f.narrow(), "at most", l.narrow)
	}
	if f.Waves < l.least(f.Family) {
		say("waves", f.Waves, "at least", l.least(f.Family))
	}
	if f.Share < l.share {
		say("per cent of multiply-adds", f.Share, "at least", l.share)
	}
	return errs
}

// with is the limit with the figures of an exception.
func (l limit) with(e limit) limit {
	l.spills, l.scratch, l.narrow = max(l.spills, e.spills), max(l.scratch, e.scratch), max(l.narrow, e.narrow)
	return l
}

// check holds all kernels to limits, but for exceptions. Where these are all the kernels that there are, an exception that none needs is an error too.
func check(all []figures, limits, exceptions []limit, whole bool) error {
	var errs []error
	needed := make([]bool, len(exceptions))
	for _, f := range all {
		l, ok := first(limits, f.Label)
		if !ok {
			errs = append(errs, fmt.Errorf("isa: %s: found no limit", f.Label))
			continue
		}
		for i, e := range exceptions {
			if e.matches(f.Label) {
				needed[i] = needed[i] || len(l.breaches(f)) > 0
				l = l.with(e)
			}
		}
		errs = append(errs, l.breaches(f)...)
	}
	for i, e := range exceptions {
		if whole && !needed[i] {
			errs = append(errs, fmt.Errorf("isa: exception %s: no kernel needs it any more: delete it", e.kernel))
		}
	}
	return errors.Join(errs...)
}

func first(limits []limit, label string) (limit, bool) {
	for _, l := range limits {
		if l.matches(label) {
			return l, true
		}
	}
	return limit{}, false
}
