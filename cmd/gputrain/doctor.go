package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gputrain/cmd/gputrain/doctor"
	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/gpu"
)

type doctorCmd struct {
	Adapter string `help:"Index, part of a name, backend:part, or all." placeholder:"SEL"`
	Cases   string `help:"Folder of golden cases, or one case, instead of the built-in ones." type:"existingdir" placeholder:"DIR"`
	Only    string `help:"Only the cases and checks whose name matches this regular expression, such as 'matmul|adamw'; what measures speed is named speed/copy." placeholder:"NAME"`
	Stages  int    `help:"Cut the models of cases into so many stages, each on a device of its own on the adapter, as training on stages does." default:"1" placeholder:"N"`
	JSON    bool   `help:"One JSON object a case on standard output."`
	Shaders string `help:"Write the WGSL of every kernel that was compiled into this folder." type:"path" placeholder:"DIR"`
}

// doctorLine is a case, with a figure where it measures speed.
type doctorLine struct {
	doctor.Result
	Figure string `json:"figure,omitempty"` // "21.4 GB/s"; "" for cases that prove numbers
}

func (c *doctorCmd) Run(ctx context.Context) error {
	if c.Stages < 1 {
		return usageError{fmt.Errorf("doctor: --stages: found %d, wanted at least 1", c.Stages)}
	}
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return usageError{fmt.Errorf("doctor: --only: %w", err)}
	}
	cases, texts, err := c.cases()
	if err != nil {
		return err
	}
	var adapters []gpu.Adapter
	if len(cases) > 0 {
		if adapters, err = chosenAdapters(c.Adapter); err != nil {
			return err
		}
	}
	failed, passed := 0, 0
	report := func(l doctorLine) error {
		if l.Pass {
			passed++
		} else {
			failed++
		}
		return c.print(l)
	}
	maps.DeleteFunc(cases, func(name string, _ fs.FS) bool { return !only.MatchString(name) })
	for _, t := range texts {
		if !only.MatchString(t.Name) {
			continue
		}
		if err := report(doctorLine{Result: t.Run()}); err != nil {
			return err
		}
	}
	var broken error // adapters that could not be examined; the others are
	for _, a := range adapters {
		if err := c.examine(ctx, a, cases, only, report); err != nil {
			broken = errors.Join(broken, fmt.Errorf("doctor: %s: %w", a.Name, err))
		}
		if ctx.Err() != nil {
			return broken
		}
	}
	if failed+passed == 0 && broken == nil {
		return usageError{fmt.Errorf("doctor: --only: found no case and no check that matches %q", c.Only)}
	}
	if !c.JSON {
		fmt.Printf("%d passed, %d failed\n", passed, failed)
	}
	if failed > 0 {
		return errors.Join(broken, fmt.Errorf("doctor: %d cases failed", failed))
	}
	return broken
}

// cases are the built-in golden cases, what lies below --cases, or that folder itself where it is a case.
func (c *doctorCmd) cases() (map[string]fs.FS, []doctor.TextCase, error) {
	if c.Cases == "" {
		cases, err := doctor.Cases()
		return cases, nil, err
	}
	cases, texts, err := doctor.FindCases(c.Cases)
	if err == nil && len(cases)+len(texts) == 0 {
		err = usageError{fmt.Errorf("doctor: --cases %s: found no case.json and no file of cases, wanted a case or folders that hold some", c.Cases)}
	}
	return cases, texts, err
}

// chosenAdapters are all of them, or the one that is meant by sel.
func chosenAdapters(sel string) ([]gpu.Adapter, error) {
	if sel == "all" {
		return gpu.Adapters()
	}
	a, err := selectAdapter(sel)
	return []gpu.Adapter{a}, err
}

// selectAdapter finds one adapter; a selector that names none is a usage error.
func selectAdapter(sel string) (gpu.Adapter, error) {
	a, err := gpu.Select(sel)
	if err != nil && !errors.Is(err, gpu.ErrNoAdapter) {
		return a, usageError{err}
	}
	return a, err
}

// examine runs the golden cases, every kernel's check and the speed figures on
// one adapter; cases and checks also with texels where kernels can read them. What fails is reported, and the next is run.
func (c *doctorCmd) examine(ctx context.Context, a gpu.Adapter, cases map[string]fs.FS, only *regexp.Regexp, report func(doctorLine) error) error {
	if err := sayTaken(a, c.JSON); err != nil {
		return err
	}
	next := func(r doctor.Result, figure string) error {
		if err := context.Cause(ctx); err != nil {
			return err // stopped: what it says of the case means nothing
		}
		return report(doctorLine{Result: r, Figure: figure})
	}
	var devices [][]*gpu.Device // for each use of texels those of all stages
	for _, use := range []gpu.TexelUse{gpu.TexelsAuto, gpu.TexelsOff, gpu.TexelsForce} {
		if use == gpu.TexelsForce && a.Limits.TexelBindings == 0 {
			continue
		}
		var stages []*gpu.Device
		for range c.Stages {
			dev, err := gpu.Open(ctx, a, gpu.Options{Texels: use})
			if err != nil {
				return errors.Join(err, report(doctorLine{Result: doctor.Failed("open", a, err)}))
			}
			defer dev.Release()
			stages = append(stages, dev)
		}
		devices = append(devices, stages)
	}
	proved := func(r doctor.Result) error { return next(r, "") }
	if err := doctor.RunCases(ctx, devices[1:], cases, proved); err != nil {
		return err
	}
	if err := doctor.RunChecks(ctx, devices[1:], chosen(doctor.Checks(), only), proved); err != nil {
		return err
	}
	if err := doctor.RunUnitChecks(ctx, a, chosen(doctor.UnitChecks(), only), proved); err != nil {
		return err
	}
	if c.Shaders != "" {
		for _, dev := range slices.Concat(devices[1:]...) {
			if err := writeShaders(dev, c.Shaders); err != nil {
				return err
			}
		}
	}
	for _, s := range bench.Speeds() {
		if !only.MatchString("speed/" + s.Name) {
			continue
		}
		r := doctor.Result{Case: "speed/" + s.Name, Adapter: doctor.AdapterName(a), Pass: true}
		rate, err := s.Measure(ctx, devices[0][0])
		if err != nil {
			r = doctor.Failed(r.Case, a, err)
		}
		if err := next(r, fmt.Sprintf("%.1f %s", rate, s.Unit)); err != nil {
			return err
		}
	}
	return nil
}

// chosen are the checks whose name, as it is printed, matches.
func chosen(all []gpu.Check, only *regexp.Regexp) []gpu.Check {
	return slices.DeleteFunc(all, func(c gpu.Check) bool { return !only.MatchString("kernel/" + c.Name) })
}

// writeShaders writes each compiled kernel as LABEL-N.wgsl; those that read
// texels have labels of their own.
func writeShaders(dev *gpu.Device, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, k := range dev.Kernels() {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.wgsl", k.Label, i)), []byte(k.Source), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *doctorCmd) print(l doctorLine) error {
	if c.JSON {
		if !l.Pass {
			l.Figure = ""
		}
		return json.NewEncoder(os.Stdout).Encode(l)
	}
	var err error
	switch {
	case l.Error != "":
		_, err = fmt.Printf("FAIL  %-28s %s\n", l.Case, l.Error)
	case l.Adapter == doctor.NoAdapter && l.Pass:
		_, err = fmt.Printf("  ok  %-28s equal\n", l.Case)
	case l.Adapter == doctor.NoAdapter:
		_, err = fmt.Printf("FAIL  %-28s %s\n", l.Case, l.Worst)
	case l.Figure != "":
		_, err = fmt.Printf("      %-28s %s\n", l.Case, l.Figure)
	case l.Pass:
		_, err = fmt.Printf("  ok  %-28s error %.2g of %.2g\n", l.Case, l.MaxError, l.Tolerance)
	default:
		_, err = fmt.Printf("FAIL  %-28s error %.3g, tolerance %.3g at %s\n", l.Case, l.MaxError, l.Tolerance, l.Worst)
	}
	return err
}
