package main

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// counts are the instructions of a piece of assembly that the table is made of.
type counts struct {
	Multiplies int    // fused multiply-adds
	Units      int    // products of matrices by units
	Vector     int    // issue slots of the vector unit: an instruction at a quarter of the rate takes four
	Shared     int    // bytes a lane moves to and from workgroup memory
	Loads      [4]int // from buffers, by dwords less one; reloads of spilled registers are scratch_load and not among them
}

func (c *counts) add(o counts) {
	c.Multiplies += o.Multiplies
	c.Units += o.Units
	c.Vector += o.Vector
	c.Shared += o.Shared
	for i := range c.Loads {
		c.Loads[i] += o.Loads[i]
	}
}

var (
	blockPattern    = regexp.MustCompile(`^(BB\d+):`)
	branchPattern   = regexp.MustCompile(`^s_c?branch\w* (BB\d+)`)
	multiplyPattern = regexp.MustCompile(`^v_(fma|fmac|fmaak|fmamk|mac|mad|madak|madmk)_f32`)
	quarterPattern  = regexp.MustCompile(`^v_(mul_lo_u32|mul_hi_[ui]32|mad_[ui]64_[ui]32|(rcp|rsq|sqrt|exp|log|sin|cos)_f32)`)
	sharedPattern   = regexp.MustCompile(`^ds_(?:read|write|load|store)(2|_2addr)?(?:st64|_stride64)?_b(32|64|96|128)`)
	loadPattern     = regexp.MustCompile(`^(?:buffer|global)_load_(?:dword(x[234])?|b(32|64|96|128)|[us](?:byte|short)|[ui](?:8|16)) `) // before RDNA 3, and since
)

// block is a basic block of a program: what its instructions come to, and the blocks that it may branch to.
type block struct {
	name string
	counts
	branches []string
}

// amdBlocks reads what RADV prints: blocks, each with its name on a line of its own, and instructions after a tab.
func amdBlocks(text string) []block {
	blocks := []block{{}}
	for line := range strings.Lines(text) {
		if m := blockPattern.FindStringSubmatch(line); m != nil {
			blocks = append(blocks, block{name: m[1]})
			continue
		}
		if !strings.HasPrefix(line, "\t") {
			continue
		}
		instruction, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		b := &blocks[len(blocks)-1]
		if m := branchPattern.FindStringSubmatch(instruction); m != nil {
			b.branches = append(b.branches, m[1])
		}
		b.add(count(instruction))
	}
	return blocks
}

var (
	intelLabel       = regexp.MustCompile(`^(LABEL\d+):`)
	intelInstruction = regexp.MustCompile(`^(?:\(\S+\) ?)?([a-z_]\w*(?:\.\w+)*)\(\d+\)`)
	intelJump        = regexp.MustCompile(`JIP:\s*(LABEL\d+)`)
)

// intelBlocks reads what ANV prints: labels, and loops that end with a while, which jumps back to one.
func intelBlocks(text string) []block {
	blocks := []block{{}}
	for line := range strings.Lines(text) {
		if m := intelLabel.FindStringSubmatch(line); m != nil {
			blocks = append(blocks, block{name: m[1]})
			continue
		}
		m := intelInstruction.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || strings.HasPrefix(m[1], "sync") {
			continue
		}
		b := &blocks[len(blocks)-1]
		b.Vector++
		if strings.HasPrefix(m[1], "mad") {
			b.Multiplies++
		}
		if jump := intelJump.FindStringSubmatch(line); jump != nil && m[1] == "while" {
			b.branches = append(b.branches, jump[1])
			blocks = append(blocks, block{})
		}
	}
	return blocks
}

var (
	nvidiaBlock     = regexp.MustCompile(`^\s*block(?:\.\w+)? (\d+).*\[(.*)\] -> \{`)
	nvidiaPredicate = regexp.MustCompile(`^@!?\S+\s+`)
	nvidiaResult    = regexp.MustCompile(`^[^=]*= `)
	nvidiaNumber    = regexp.MustCompile(`\d+`)
)

// nvidiaHottest reads what NVK prints, numbered blocks, each with those it follows, and finds the innermost loop with most multiply-adds. Blocks of a
// loop need not stand together: they are those that reach its jump back without passing where it goes. ok is false where there is no loop.
func nvidiaHottest(text string) (c counts, ok bool) {
	blocks, follows := map[int]*block{}, map[int][]int{}
	now := &block{}
	for line := range strings.Lines(text) {
		if m := nvidiaBlock.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			now = &block{name: m[1]}
			blocks[n] = now
			for _, before := range nvidiaNumber.FindAllString(m[2], -1) {
				from, _ := strconv.Atoi(before)
				follows[n] = append(follows[n], from)
			}
			continue
		}
		instruction, _, _ := strings.Cut(strings.TrimSpace(line), "//")
		instruction = nvidiaResult.ReplaceAllString(nvidiaPredicate.ReplaceAllString(strings.TrimSpace(instruction), ""), "")
		if instruction == "" || instruction[0] < 'a' || instruction[0] > 'z' {
			continue
		}
		now.Vector++
		if strings.HasPrefix(instruction, "ffma") {
			now.Multiplies++
		}
	}
	var loops []map[int]bool
	for head, before := range follows {
		for _, end := range before {
			if end < head {
				continue
			}
			loop, todo := map[int]bool{head: true}, []int{end}
			for len(todo) > 0 {
				n := todo[0]
				if todo = todo[1:]; !loop[n] {
					loop[n] = true
					todo = append(todo, follows[n]...)
				}
			}
			loops = append(loops, loop)
		}
	}
	for _, loop := range loops {
		if slices.ContainsFunc(loops, func(o map[int]bool) bool { return len(o) < len(loop) && within(o, loop) }) {
			continue
		}
		var body counts
		for n := range loop {
			body.add(blocks[n].counts)
		}
		if !ok || body.Multiplies > c.Multiplies || body.Multiplies == c.Multiplies && body.Vector < c.Vector {
			c, ok = body, true
		}
	}
	return c, ok
}

func within(a, b map[int]bool) bool {
	for n := range a {
		if !b[n] {
			return false
		}
	}
	return true
}

// count counts one instruction of an AMD card.
func count(instruction string) (c counts) {
	if strings.HasPrefix(instruction, "v_wmma_") {
		c.Units = 1
	} else if strings.HasPrefix(instruction, "v_") {
		c.Vector = 1
		if quarterPattern.MatchString(instruction) {
			c.Vector = 4
		}
		if multiplyPattern.MatchString(instruction) {
			c.Multiplies = 1
		}
	}
	if m := sharedPattern.FindStringSubmatch(instruction); m != nil {
		c.Shared = map[string]int{"32": 4, "64": 8, "96": 12, "128": 16}[m[2]]
		if m[1] != "" {
			c.Shared *= 2
		}
	}
	if m := loadPattern.FindStringSubmatch(instruction); m != nil {
		c.Loads[map[string]int{"": 0, "x2": 1, "64": 1, "x3": 2, "96": 2, "x4": 3, "128": 3}[m[1]+m[2]]]++
	}
	return c
}

// all are the counts of the whole program.
func all(blocks []block) (c counts) {
	for _, b := range blocks {
		c.add(b.counts)
	}
	return c
}

// hottest is the innermost loop with most products by units, or else multiply-adds: a branch back to a block with no other such branch between the two,
// but those of loops without units in one with some. ok is false where there is no loop.
func hottest(blocks []block) (c counts, ok bool) {
	at := map[string]int{}
	last := map[int]int{} // of the loop that begins with a block
	for i, b := range blocks {
		at[b.name] = i
		for _, to := range b.branches {
			if first, seen := at[to]; seen {
				last[first] = i
			}
		}
	}
	for _, first := range slices.Sorted(maps.Keys(last)) {
		end, inner := last[first], true
		body := all(blocks[first : end+1])
		for f, e := range last {
			if f >= first && e <= end && (f != first || e != end) && (body.Units == 0 || all(blocks[f:e+1]).Units > 0) {
				inner = false
			}
		}
		if inner && (!ok || body.Units > c.Units || body.Units == c.Units && body.Multiplies > c.Multiplies) {
			c, ok = body, true
		}
	}
	return c, ok
}
