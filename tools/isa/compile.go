package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gputrain/gpu"
)

// childArgument makes the program a child of itself, which compiles for the family of its environment into the directory that follows.
const childArgument = "compile"

// Files of that directory.
const (
	workFile    = "work.json"    // what to compile
	resultsFile = "results.json" // what was compiled: entry n is the kernel of which base(dir, n) tells
)

// work is what a child compiles: the kernels of all uses whose labels match, or those that are given.
type work struct {
	Adapter  string // as gpu.Select takes it
	Matching string
	Units    bool // products by matrix units, and no other kernels
	Given    []found
}

// results are what it has compiled.
type results struct {
	Driver  string
	Kernels []named
}

// named is how the table calls a kernel.
type named struct {
	Label string
	Use   string
}

// outVariable tells the layer where to write what the driver says of the next pipeline: a path without its ending.
const outVariable = "ISA_OUT"

// base is the path of kernel n's files, without their endings.
func base(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("%04d", n)) }

func child(ctx context.Context, dir string) error {
	var w work
	if err := readJSON(filepath.Join(dir, workFile), &w); err != nil {
		return err
	}
	a, err := gpu.Select(w.Adapter)
	if err != nil {
		return err
	}
	if a.Limits.Software {
		return fmt.Errorf("isa: compile: %s: found a software adapter, wanted %s", a, w.Adapter)
	}
	kernels := w.Given
	for i, k := range kernels {
		kernels[i].Kernel = gpu.KernelOf(k.Label, k.Source)
	}
	if len(kernels) == 0 {
		if kernels, err = kernelsOf(ctx, a, uses(w.Units)); err != nil {
			return err
		}
		matching, err := regexp.Compile(w.Matching)
		if err != nil {
			return err
		}
		kernels = slices.DeleteFunc(kernels, func(k found) bool {
			return !matching.MatchString(k.Label) || w.Units && !strings.Contains(k.Source, "matrix_unit")
		})
	}
	dev, err := gpu.Open(ctx, a, gpu.Options{Matrix: w.Units, Unproven: true})
	if err != nil {
		return err
	}
	defer dev.Release()
	r := results{Driver: a.Driver}
	for i, k := range kernels {
		// The layer reads the variable when the pipeline is made, so there is one at a time.
		if err := os.Setenv(outVariable, base(dir, i)); err != nil {
			return err
		}
		if err := dev.Compile(ctx, []*gpu.Kernel{k.Kernel}, nil); err != nil {
			return err
		}
		r.Kernels = append(r.Kernels, named{k.Label, k.Use})
	}
	return writeJSON(filepath.Join(dir, resultsFile), r)
}

func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	return errors.Join(err, os.WriteFile(path, raw, 0o644))
}

func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}
