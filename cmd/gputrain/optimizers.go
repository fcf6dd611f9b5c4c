package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/runfile"
	"gputrain/run/setup"
)

type optimizersCmd struct {
	Name string `arg:"" optional:"" help:"One optimizer: print a commented piece of a run file with all its parameters."`
	JSON bool   `help:"JSON on standard output."`
}

// optimizerLine is an optimizer with what its state takes of some shapes: second moments of matrices can be two vectors, and factors have the
// sides of their blocks.
type optimizerLine struct {
	optim.Description
	StateOf    []shapedState `json:"state_of"`
	Rate       float64       `json:"learning_rate"` // to begin with for a new model
	Coded      *codedCost    `json:"in_eight_bits,omitempty"`
	countedFor string        // the shapes that the cost is of
}

// codedCost is what an optimizer costs with its state in eight bits.
type codedCost struct {
	Cost    optim.Cost    `json:"cost"`
	StateOf []shapedState `json:"state_of"`
}

// shapedState is an optimizer's state for some parameters, in bytes a parameter.
type shapedState struct {
	Of     string  `json:"of"`
	Saved  float64 `json:"saved"`  // what a checkpoint has of it
	Device float64 `json:"device"` // the memory it takes, with what is derived from it and what updates need in between
}

func (c *optimizersCmd) Run() error {
	names := optim.Names()
	if c.Name != "" {
		names = []string{c.Name}
	}
	all, err := optimizerLines(names)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		return json.NewEncoder(os.Stdout).Encode(all)
	case c.Name != "":
		return optimizerTemplate(all[0])
	}
	return writeOptimizers(os.Stdout, all)
}

// optimizerLines plans the state of optimizers.
func optimizerLines(names []string) (all []optimizerLine, err error) {
	for _, name := range names {
		d, err := optim.Describe(name)
		if err != nil {
			return nil, usageError{err}
		}
		states, err := statesOf(name, nil)
		if err != nil {
			return nil, err
		}
		var coded *codedCost
		if slices.ContainsFunc(d.Parameters, func(p optim.Parameter) bool { return p.Name == "state_dtype" }) {
			eight := []byte(`{"state_dtype":"8bit"}`)
			tx, err := optim.Build(name, optim.Options{}, eight)
			if err != nil {
				return nil, err
			}
			coded = &codedCost{Cost: tx.Cost()}
			if coded.StateOf, err = statesOf(name, eight); err != nil {
				return nil, err
			}
		}
		o, err := optim.Find(name)
		if err != nil {
			return nil, err
		}
		all = append(all, optimizerLine{d, states, o.Rate, coded, o.CountedFor})
	}
	return all, nil
}

// writeOptimizers prints what the optimizers cost.
func writeOptimizers(out io.Writer, all []optimizerLine) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "NAME\tTRAFFIC BYTES\tFLOPS")
	for _, s := range all[0].StateOf {
		fmt.Fprintf(w, "\tSTATE OF %s", strings.ToUpper(s.Of))
	}
	fmt.Fprintln(w)
	for _, d := range all {
		fmt.Fprintf(w, "%s\t%g\t%g", d.Name, d.Cost.TrafficBytes, d.Cost.FLOPs)
		for _, s := range d.StateOf {
			fmt.Fprintf(w, "\t%.4g", s.Saved)
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "bytes and operations are per parameter and update; gputrain optimizers NAME shows the parameters")
	for _, d := range all {
		if d.countedFor != "" {
			fmt.Fprintf(out, "%s: operations and traffic of %s\n", d.Name, d.countedFor)
		}
	}
	return nil
}

// statesOf plans the state of an optimizer, on no device.
func statesOf(name string, parameters []byte) ([]shapedState, error) {
	tx, err := optim.Build(name, optim.Options{}, parameters)
	if err != nil {
		return nil, err
	}
	def, _, err := setup.Definition(runfile.New(), told)
	if err != nil {
		return nil, err
	}
	var out []shapedState
	limits := gpu.DefaultLimits()
	for _, of := range []struct {
		name  string
		specs []buffers.Spec
	}{
		{"a 1024x1024 matrix", []buffers.Spec{{Path: "w", Shape: []int{1024, 1024}}}},
		{"a vector", []buffers.Spec{{Path: "b", Shape: []int{1 << 20}}}},
		{"the default model", model.Specs(def)},
	} {
		layout, err := buffers.NewLayout(of.specs, limits)
		if err != nil {
			return nil, err
		}
		params, err := buffers.NewTree(gpu.Dry(limits), "params", layout, buffers.F32)
		if err != nil {
			return nil, err
		}
		state, err := tx.Init(params)
		if err != nil {
			return nil, err
		}
		saved, each := 0, float64(layout.Elements())
		for _, t := range state.Tensors() {
			saved += t.Bytes()
		}
		out = append(out, shapedState{of.name, float64(saved) / each, float64(state.Bytes()) / each})
	}
	return out, nil
}

// optimizerTemplate writes what stands below `optimizer:` in a run file.
func optimizerTemplate(d optimizerLine) error {
	of := ""
	if d.countedFor != "" {
		of = ", of " + d.countedFor
	}
	fmt.Printf("# %s\n# %g is a learning rate to begin with for a new model\n# %g bytes of traffic, %g operations a parameter and update%s\n", d.Doc, d.Rate, d.Cost.TrafficBytes, d.Cost.FLOPs, of)
	for _, s := range d.StateOf {
		fmt.Printf("# %.4g bytes of state a parameter of %s, %.4g of device memory\n", s.Saved, s.Of, s.Device)
	}
	if c := d.Coded; c != nil {
		last := c.StateOf[len(c.StateOf)-1]
		fmt.Printf("# with state_dtype 8bit: %.4g bytes of traffic, %g operations,\n# %.4g bytes of state a parameter of %s, %.4g of device memory\n",
			c.Cost.TrafficBytes, c.Cost.FLOPs, last.Saved, last.Of, last.Device)
	}
	fmt.Printf("optimizer:\n  name: %s\n  parameters:\n", d.Name)
	for _, p := range d.Parameters {
		value, err := json.Marshal(p.Default)
		if err != nil {
			return err
		}
		fmt.Printf("    # %s\n    %s: %s\n", p.Doc, p.Name, value)
	}
	return nil
}
