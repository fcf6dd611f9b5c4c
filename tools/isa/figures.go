package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// figures are what the compiler says of a kernel on one family of cards. What a driver does not tell is 0.
type figures struct {
	Family string
	named
	Registers    int // of 32 bits, of an invocation
	Spills       int // registers that do not fit
	Scratch      int // bytes of memory that an AMD wave takes for them, and for arrays that are no registers
	LDS          int // bytes of workgroup memory (AMD)
	Width        int // invocations of a subgroup, where the compiler chooses
	Waves        int // that the hardware holds at once: of 64 a SIMD (AMD; of 32 by matrix units), of 32 a multiprocessor (NVIDIA), a core (Adreno); invocations a core (Apple)
	Instructions int
	Loads        [4]int // from buffers, by dwords less one (AMD)
	Share        int    // per cent of the issue in the hottest loop that is multiply-adds or products by units; 0 where it has few (AMD, Intel, NVIDIA)
	alike        int    // other kernels of that label with the same figures
}

// readFigures reads what a child has left in a directory.
func readFigures(c card, dir string) (out []figures, driver string, err error) {
	var r results
	if err := readJSON(filepath.Join(dir, resultsFile), &r); err != nil {
		return nil, "", fmt.Errorf("isa: %s: %w", c.family, err)
	}
	for i, name := range r.Kernels {
		var files [2]string
		for j, ending := range []string{".stat", ".asm"} {
			raw, err := os.ReadFile(base(dir, i) + ending)
			if err != nil {
				return nil, "", fmt.Errorf("isa: %s: %s: %w", c.family, name.Label, err)
			}
			files[j] = string(raw)
		}
		f, err := figuresOf(c, name, files[0], files[1])
		if err != nil {
			return nil, "", fmt.Errorf("isa: %s: %s: statistics: %w", c.family, name.Label, err)
		}
		out = append(out, f)
	}
	return out, r.Driver, nil
}

// figuresOf reads the statistics, a name and a number a line, and the assembly.
func figuresOf(c card, name named, statistics, text string) (figures, error) {
	f := figures{Family: c.family, named: name}
	s, err := parseStatistics(statistics)
	if err != nil {
		return f, err
	}
	// The assembly is the last of the representations.
	_, assembly, _ := strings.Cut(text[strings.LastIndex(text, "\n==== ")+1:], "\n")
	return f, c.driver.read(&f, s, assembly)
}

// statistics are the driver's numbers of the executable that runs, by name.
type statistics map[string]int

func parseStatistics(text string) (statistics, error) {
	s := statistics{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.ParseInt(value, 10, 64)
		if errors.Is(err, strconv.ErrRange) { // a hash
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("found %q, wanted a name and a number", line)
		}
		if key == "executable" { // the last one is what runs
			clear(s)
		}
		s[key] = int(n)
	}
	return s, nil
}

// into sets each figure by the first of its names, parted by |, that there is.
func (s statistics) into(figures map[string]*int) error {
	for names, to := range figures {
		key := slices.IndexFunc(strings.Split(names, "|"), func(name string) bool { _, ok := s[name]; return ok })
		if key < 0 {
			return fmt.Errorf("found no %q", names)
		}
		*to = s[strings.Split(names, "|")[key]]
	}
	return nil
}

func readAMD(f *figures, s statistics, text string) error {
	err := s.into(map[string]*int{
		"VGPRs": &f.Registers, "Spilled VGPRs": &f.Spills, "Scratch size": &f.Scratch, "LDS size": &f.LDS, "Subgroups per SIMD": &f.Waves, "Instructions": &f.Instructions,
	})
	f.Spills += s["Spilled SGPRs"]
	blocks := amdBlocks(text)
	f.Loads = all(blocks).Loads
	loop, ok := hottest(blocks)
	if ok {
		f.Share = share(f.Family, loop)
	}
	if rdna(f.Family) && loop.Units == 0 {
		f.Waves /= 2 // the driver counts waves of 32 there, but compiles for 64
	}
	return err
}

func readIntel(f *figures, s statistics, text string) error {
	err := s.into(map[string]*int{
		"Spills|Spill Count": &f.Spills, "Instructions|Instruction Count": &f.Instructions, "subgroup size": &f.Width,
	})
	f.Registers = s["Max live registers"] // of 22.3 not known
	f.Share = plainShare(hottest(intelBlocks(text)))
	return err
}

func readNVIDIA(f *figures, s statistics, text string) error {
	err := s.into(map[string]*int{
		"Number of GPRs": &f.Registers, "Spills to memory": &f.Spills, "Max warps/SM": &f.Waves, "Instruction count|Instruction Count": &f.Instructions,
	})
	f.Share = plainShare(nvidiaHottest(text))
	return err
}

func readAdreno(f *figures, s statistics, _ string) error {
	err := s.into(map[string]*int{
		"Registers used": &f.Registers, "STP Count": &f.Spills, "Max Waves Per Core": &f.Waves, "Instruction Count": &f.Instructions,
	})
	f.Registers *= 4 // it counts vectors of four
	return err
}

func readApple(f *figures, s statistics, _ string) error {
	err := s.into(map[string]*int{"GPRs": &f.Registers, "Spills": &f.Spills, "Threads": &f.Waves, "Instrs|Instructions": &f.Instructions})
	f.Registers = (f.Registers + 1) / 2 // it counts halves
	return err
}

func rdna(family string) bool { return strings.HasPrefix(family, "navi") }

// share is how much of a loop's issue on an AMD card is multiply-adds, in per cent, where it has at least four. It is a model to compare variants by,
// for waves of 64: an instruction takes a SIMD two clocks (Vega: four), and workgroup memory moves 128 bytes a clock for two SIMDs (Vega: four).
// It knows no waits.
//
// Of products by matrix units it is their share, for waves of 32: a product of 16x16x16 takes a SIMD 32 clocks, another instruction one.
func share(family string, loop counts) int {
	if loop.Units > 0 {
		units := 32 * loop.Units
		return 100 * units / max(units+loop.Vector, loop.Shared*32*2/128)
	}
	if loop.Multiplies < 4 {
		return 0
	}
	clocks, simds := 4, 4
	if rdna(family) {
		clocks, simds = 2, 2
	}
	return 100 * loop.Multiplies * clocks / max(loop.Vector*clocks, loop.Shared*64*simds/128)
}

// plainShare is how many instructions of the hottest loop are multiply-adds, in per cent, where there are more than eight.
func plainShare(loop counts, ok bool) int {
	if !ok || loop.Multiplies <= 8 {
		return 0
	}
	return 100 * loop.Multiplies / loop.Vector
}

// narrow is the number of loads of less than four numbers: of 16 bytes, or where values lie in bf16 of 8.
func (f figures) narrow() int {
	if strings.HasSuffix(f.Label, "_bf16") {
		return f.Loads[0]
	}
	return f.Loads[0] + f.Loads[1] + f.Loads[2]
}
