package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// limit is what a kernel may take.
type limit struct {
	kernel  string // regular expression, of the whole label without "gputrain."
	family  string // of an exception: regular expression of the families that it is for; empty: all
	use     string // of an exception: regular expression of the uses that it is for; empty: all
	spills  int    // at most
	scratch int    // at most
	narrow  int    // loads of less than four numbers, at most
	width   int    // invocations of a subgroup, at least
	waves   [2]int // at least, on RDNA and on Vega; of other makes the first
	share   int    // per cent of multiply-adds in the innermost loop, at least
}

// amdLimits are what we want of AMD's cards: no kernel spills. The first one that matches a kernel holds.
var amdLimits = []limit{
	// A workgroup's tile takes 27 to 32 KiB of workgroup memory. Of each position there are up to four numbers besides what is read 16 bytes at a time: lse,
	// delta, and on packed documents where they begin and end. Shares differ by how many sums of a width an invocation keeps.
	{kernel: `graph\.attention_dkv_tiled_512_.*`, waves: [2]int{4, 2}, narrow: 20, share: 59}, // four rows a workgroup
	{kernel: `graph\.attention_(d\w+_)?tiled_.*`, waves: [2]int{2, 1}, narrow: 20, share: 84},
	// The keys of 64 positions are read, not multiplied with much: what counts is waves.
	// With pages, the block of a key is one number.
	{kernel: `graph\.attention_cached_tiled_512.*`, waves: [2]int{7, 4}, narrow: 1}, // an invocation has two quads of a head
	{kernel: `graph\.attention_cached_tiled_\d+_paged.*`, waves: [2]int{10, 5}, narrow: 1},
	{kernel: `graph\.attention_cached_tiled_.*`, waves: [2]int{10, 5}},
	// A quad of B is 8 bytes of bf16, or half a word of nf4 and the maximum of its block; the levels of nf4 are read once. The first step's loads
	// and the next one's stand apart.
	{kernel: `graph\.matmul_tiled_.*_bf16(_.*)?`, waves: [2]int{4, 2}, narrow: 8, share: 97},
	{kernel: `graph\.matmul_tiled_.*_nf4(_.*)?`, waves: [2]int{4, 2}, narrow: 17, share: 97},
	{kernel: `graph\.matmul_tiled_.._32(_.*)?`, waves: [2]int{4, 2}, share: 94},
	// A tile of 64x64 an invocation takes 16 accumulators and the operands of a step on their way: 128 registers. A check or an address in the innermost loop
	// shows in its share.
	{kernel: `graph\.matmul_tiled_.*|kron\.product_.*`, waves: [2]int{4, 2}, share: 97},
	// A chunk of the gated delta rule, and the triangle of its inverse or rows of its states, take 13 KiB of workgroup memory for one wave of 64. Across rows
	// its matrices are read a number at a time; a column of a state is an invocation's that goes on with a row.
	{kernel: `graph\.delta_(chunks|keys)_.*`, waves: [2]int{3, 1}, narrow: 14},
	{kernel: `graph\.delta_cached_.*`, waves: [2]int{8, 4}, narrow: 20},
	{kernel: `graph\.delta_.*`, waves: [2]int{4, 2}, narrow: 28},
	// Where positions are read, each is a number.
	{kernel: `graph\.rope_(inverse_)?(partial_)?at`, waves: [2]int{16, 9}, narrow: 1},
	// The gradient of a gain is added up in up to 32 registers an invocation. Statistics are loaded a row, and with positions their angles.
	{kernel: `graph\.norm_grad_.*_gain.*`, waves: [2]int{12, 5}, narrow: 3},
	{kernel: `graph\.norm_rms_rope_bf16`, waves: [2]int{12, 7}}, // where numbers are unpacked, a wave in four is lost
	{kernel: `graph\.norm_rms_rope.*`, waves: [2]int{16, 8}},
	{kernel: `graph\.rope_inverse_bf16`, waves: [2]int{16, 8}},
	// Without gains, the length of a row is one number.
	{kernel: `graph\.norm_grad_rms`, waves: [2]int{16, 9}, narrow: 1},
	// What waits for memory wants as many waves as there are, and loads of 16 bytes.
	{kernel: `graph\.(elementwise|matmul_slices|norm|rope_inverse).*|graph\.rope`, waves: [2]int{16, 9}},
	{kernel: `optim\.muon_(gather|scatter)|kron\.(carry|diagonal)_gather|kron\.carry_scatter`, waves: [2]int{16, 9}},
	{kernel: `graph\.sample_sums`, waves: [2]int{16, 8}},
	{kernel: `graph\.reduce_group_.*`, waves: [2]int{12, 6}, narrow: 1}, // of four items that are under way at once
	{kernel: `graph\.reduce_.*`, waves: [2]int{14, 7}, narrow: 1},
	{kernel: `optim\.update`, waves: [2]int{16, 9}, narrow: 7}, // of which up to seven are numbers of a leaf
	// A workgroup has the elements of a block of codes at once, four an invocation, of up to three trees: word and maximum of each, and the level next to a code.
	{kernel: `optim\.update_8bit`, waves: [2]int{10, 5}, narrow: 20},
	{kernel: `.*`, waves: [2]int{4, 2}, narrow: 8},
}

// unitLimits: no product by matrix units spills, and its share of the issue is three quarters or more, but for operands that are unpacked: from nf4,
// and from bf16 on both sides where K is no multiple of a step. Sums of 32 x 64 and the operands on their way leave room for twelve waves of 32.
var unitLimits = []limit{
	// Tiles of experts have 64 rows, so that each of half as many invocations brings more of B; their A is in f32, and the rows of an expert end anywhere.
	{kernel: `graph\.matmul_matrix_.*_nf4_ragged`, waves: [2]int{8}, narrow: 17, share: 64},
	{kernel: `graph\.matmul_matrix_.*_(ragged|outer)`, waves: [2]int{9}, share: 78},
	{kernel: `graph\.matmul_matrix_nn_.*_nf4(_.*)?`, waves: [2]int{12}, narrow: 9, share: 74},
	{kernel: `graph\.matmul_matrix_nt_.*_nf4(_.*)?`, waves: [2]int{12}, narrow: 9, share: 75},
	{kernel: `graph\.matmul_matrix_tn_.*_bf16`, waves: [2]int{12}, share: 72},
	{kernel: `graph\.matmul_matrix_.*_bf16(_.*)?`, waves: [2]int{12}, narrow: 4, share: 75}, // a quad of it is 8 bytes
	{kernel: `graph\.matmul_matrix_.*`, waves: [2]int{12}, share: 80},
	// Of each position of a block there are one or two numbers; numbers in bf16 come by eight bytes. The forward pass makes weights of scores by plain code.
	{kernel: `graph\.attention_(d\w+_)?matrix_64_.*_bf16`, waves: [2]int{4}, narrow: 37, share: 53},
	{kernel: `graph\.attention_(d\w+_)?matrix_64_.*`, waves: [2]int{4}, narrow: 25, share: 53},
	{kernel: `graph\.attention_(d\w+_)?matrix_128_.*`, waves: [2]int{3}, narrow: 34, share: 62},
}

// intelLimits: no kernel spills, and what waits for memory runs 16 wide. Shares are of all instructions, addresses and spills included; they are those of
// the worst of Tiger Lake, Alchemist and Battlemage, with Mesa 22.3 or 26.1. The more parts a head has, the more instructions join them.
var intelLimits = []limit{
	{kernel: `graph\.attention_dkv_tiled_256_.*_bf16`, width: 8, share: 57},
	{kernel: `graph\.attention_dkv_tiled_256_.*`, width: 8, share: 60},
	{kernel: `graph\.attention_tiled_64_64x8_local`, width: 8, share: 65, spills: 14}, // with Mesa 22.3, of Alchemist
	{kernel: `graph\.attention_(d\w+_)?tiled_64_.*`, width: 8, share: 65},
	{kernel: `graph\.attention_(d\w+_)?tiled_512_.*`, width: 8, share: 59},
	{kernel: `graph\.attention_(d\w+_)?tiled_.*`, width: 8, share: 61},
	{kernel: `graph\.matmul_tiled_.._32.*`, width: 8, share: 60},
	{kernel: `graph\.matmul_tiled_.*|kron\.product_.*`, width: 8, share: 71},
	// The gradient of a gain is added up in up to 32 registers an invocation, which leaves room for eight of them.
	{kernel: `graph\.norm_grad_rms_gain.*`, width: 8},
	// Mesa 22.3 gives products of few rows eight of a kind, where 26.1 gives them 16 or 32.
	{kernel: `kron\.bound.*|optim\.adafactor_.*|graph\.matmul_n[nt]_1x1.*|graph\.matmul_nn_4x1|graph\.delta_(back|keys)_.*`, width: 8},
	{kernel: `.*`, width: 16},
}

// nvidiaLimits: no kernel spills. A multiprocessor holds 48 warps (Turing: 32); with more than 128 registers it holds 8 to 12.
var nvidiaLimits = []limit{
	{kernel: `graph\.attention_dkv_tiled_512_.*`, waves: [2]int{12}, share: 57},
	{kernel: `graph\.attention_(d\w+_)?tiled_.*`, waves: [2]int{12}, share: 66},
	// The innermost loop of the tile of 128 makes products and nothing else; elsewhere it is the whole step, with the loads of both operands, of which
	// an invocation makes one.
	{kernel: `graph\.matmul_tiled_.._128.*`, waves: [2]int{16}, share: 80},
	{kernel: `graph\.matmul_tiled_.*|kron\.product_.*`, waves: [2]int{16}, share: 50},
	{kernel: `.*`, waves: [2]int{12}},
}

// adrenoLimits: no kernel spills. A core holds 16 waves.
var adrenoLimits = []limit{
	{kernel: `graph\.attention_(d\w+_)?tiled_.*`, waves: [2]int{2}},
	{kernel: `.*`, waves: [2]int{4}},
}

// appleLimits: no kernel spills. A core holds 1,024 invocations.
var appleLimits = []limit{{kernel: `.*`, waves: [2]int{384}}}

// exceptions are what breaks limits today: sums of heads of 512, where an invocation has 128 registers (42 spilled with Mesa 26.1, the rest with 22.3), and
// what reads a few numbers a step.
// Their figures, the worst of all families, only go down; one that no kernel needs is an error. Where a figure is left
// out, the limit itself holds.
var exceptions = []limit{
	{kernel: `graph\.attention_dkv_tiled_512_.*`, family: `tgl|dg2|bmg`, spills: 106},
	{kernel: `graph\.attention_dkv_tiled_512_.*`, family: `m1`, spills: 7},
	// The loss that balances experts is one number, of a count and a share of each of them.
	{kernel: `graph\.(elementwise_(mul|scale)|reduce_group_sum)`, use: `qwen3-moe`, family: `navi21|navi10|vega10`, narrow: 3},
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
		say("loads of less than four numbers", f.narrow(), "at most", l.narrow)
	}
	if f.Waves < l.least(f.Family) {
		say("waves", f.Waves, "at least", l.least(f.Family))
	}
	if f.Width < l.width {
		say("invocations of a subgroup", f.Width, "at least", l.width)
	}
	if f.Share < l.share {
		say("per cent of multiply-adds", f.Share, "at least", l.share)
	}
	return errs
}

// with is the limit with the figures of an exception.
func (l limit) with(e limit) limit {
	l.spills, l.scratch, l.narrow = max(l.spills, e.spills), max(l.scratch, e.scratch), max(l.narrow, e.narrow)
	if e.share > 0 {
		l.share = min(l.share, e.share)
	}
	if e.waves[0] > 0 {
		l.waves[0], l.waves[1] = min(l.waves[0], e.waves[0]), min(l.waves[1], e.waves[1])
	}
	return l
}

// check holds the kernels of each card to its driver's limits, but for exceptions. A driver of another version than the limits were taken with is
// named, and not compared. An exception that none of its cards needs is an error, where all of these were compiled for, and every kernel.
func check(all []figures, cards []card, found map[string]string, whole bool) error {
	limits := map[string][]limit{}
	for _, c := range cards {
		if slices.ContainsFunc(c.driver.versions, func(v string) bool { return strings.Contains(found[c.driver.name], v) }) {
			limits[c.family] = c.driver.limits
			continue
		}
		fmt.Fprintf(os.Stderr, "isa: %s: limits not compared: found %s, they hold for %s\n", c.family, found[c.driver.name], strings.Join(c.driver.versions, ", "))
	}
	return compare(all, limits, exceptions, whole)
}

// compare holds figures to the limits of their families.
func compare(all []figures, limits map[string][]limit, exceptions []limit, whole bool) error {
	var errs []error
	needed := make([]bool, len(exceptions))
	for _, f := range all {
		own, ok := limits[f.Family]
		if !ok {
			continue
		}
		l, ok := first(own, f.Label)
		if !ok {
			errs = append(errs, fmt.Errorf("isa: %s: %s: found no limit", f.Label, f.Family))
			continue
		}
		for i, e := range exceptions {
			if e.matches(f.Label) && e.of(f.Family) && allOf(e.use, f.Use) {
				needed[i] = needed[i] || len(l.breaches(f)) > 0
				l = l.with(e)
			}
		}
		errs = append(errs, l.breaches(f)...)
	}
	for i, e := range exceptions {
		compiled := !slices.ContainsFunc(cards, func(c card) bool { _, ok := limits[c.family]; return e.of(c.family) && !ok })
		if whole && compiled && !needed[i] {
			errs = append(errs, fmt.Errorf("isa: exception %s: no kernel needs it any more: delete it", e.kernel))
		}
	}
	return errors.Join(errs...)
}

// of tells whether the exception is for a family.
func (l limit) of(family string) bool { return allOf(l.family, family) }

// allOf tells whether an expression is all of name; the empty one is of every name.
func allOf(expression, name string) bool {
	return regexp.MustCompile(`^(` + cmp.Or(expression, ".*") + `)$`).MatchString(name)
}

func first(limits []limit, label string) (limit, bool) {
	for _, l := range limits {
		if l.matches(label) {
			return l, true
		}
	}
	return limit{}, false
}
