package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// figures are what the compiler says of a kernel on one family of cards.
type figures struct {
	Family string
	named
	VGPRs, SGPRs int
	Spills       int // registers that do not fit, vector and scalar
	Scratch      int // bytes of memory a wave takes for them, and for arrays that are no registers
	LDS          int // bytes of workgroup memory
	Waves        int // of 64 invocations, that a SIMD holds at once
	Instructions int
	Loads        [4]int // from buffers, by dwords less one
	Share        int    // per cent of the issue in the hottest loop that is multiply-adds; 0 where it has few
	alike        int    // other kernels of that label with the same figures
}

// readFigures reads what a child has left in a directory.
func readFigures(family, dir string) (out []figures, driver string, err error) {
	var r results
	if err := readJSON(filepath.Join(dir, resultsFile), &r); err != nil {
		return nil, "", fmt.Errorf("isa: %s: %w", family, err)
	}
	for i, name := range r.Kernels {
		statistics, err := os.ReadFile(base(dir, i) + ".stat")
		if err != nil {
			return nil, "", fmt.Errorf("isa: %s: %s: %w", family, name.Label, err)
		}
		text, err := os.ReadFile(base(dir, i) + ".asm")
		if err != nil {
			return nil, "", fmt.Errorf("isa: %s: %s: %w", family, name.Label, err)
		}
		f, err := figuresOf(family, name, string(statistics), string(text))
		if err != nil {
			return nil, "", err
		}
		out = append(out, f)
	}
	return out, r.Driver, nil
}

// figuresOf reads the statistics, a name and a number a line, and the assembly.
func figuresOf(family string, name named, statistics, text string) (figures, error) {
	values := map[string]int{}
	for line := range strings.Lines(statistics) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return figures{}, fmt.Errorf("isa: %s: %s: statistics: found %q, wanted a name and a number", family, name.Label, line)
		}
		values[key] = int(n)
	}
	f := figures{Family: family, named: name}
	for key, to := range map[string]*int{
		"VGPRs": &f.VGPRs, "SGPRs": &f.SGPRs, "Spilled VGPRs": &f.Spills, "Scratch size": &f.Scratch, "LDS size": &f.LDS,
		"Subgroups per SIMD": &f.Waves, "Instructions": &f.Instructions,
	} {
		n, ok := values[key]
		if !ok {
			return f, fmt.Errorf("isa: %s: %s: statistics: found no %q", family, name.Label, key)
		}
		*to = n
	}
	f.Spills += values["Spilled SGPRs"]
	if rdna(family) {
		f.Waves /= 2 // the driver counts waves of 32 there, but compiles for 64
	}
	blocks := assembly(text)
	f.Loads = all(blocks).Loads
	if loop, ok := hottest(blocks); ok {
		f.Share = share(family, loop)
	}
	return f, nil
}

func rdna(family string) bool { return strings.HasPrefix(family, "navi") }

// share is how much of a loop's issue is multiply-adds, in per cent, where it has at least four. It is a model to compare variants by, for waves of 64:
// an instruction takes a SIMD two clocks (Vega: four), and workgroup memory moves 128 bytes a clock for two SIMDs (Vega: four).
// It knows no waits.
func share(family string, loop counts) int {
	if loop.Multiplies < 4 {
		return 0
	}
	clocks, simds := 4, 4
	if rdna(family) {
		clocks, simds = 2, 2
	}
	return 100 * loop.Multiplies * clocks / max(loop.Vector*clocks, loop.Shared*64*simds/128)
}

// narrow is the number of loads of less than 16 bytes.
func (f figures) narrow() int { return f.Loads[0] + f.Loads[1] + f.Loads[2] }
