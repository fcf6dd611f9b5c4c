package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"gputrain/optim"
)

type optimizersCmd struct {
	Name string `arg:"" optional:"" help:"One optimizer: a commented piece of a run file with all of its parameters."`
	JSON bool   `help:"JSON on standard output."`
}

func (c *optimizersCmd) Run() error {
	names := optim.Names()
	if c.Name != "" {
		names = []string{c.Name}
	}
	var all []optim.Description
	for _, name := range names {
		d, err := optim.Describe(name)
		if err != nil {
			return usageError{err}
		}
		all = append(all, d)
	}
	switch {
	case c.JSON:
		return json.NewEncoder(os.Stdout).Encode(all)
	case c.Name != "":
		return optimizerTemplate(all[0])
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE BYTES\tTRAFFIC BYTES\tFLOPS\tPARAMETERS\t")
	for _, d := range all {
		fmt.Fprintf(w, "%s\t%g\t%g\t%g\t", d.Name, d.Cost.StateBytes, d.Cost.TrafficBytes, d.Cost.FLOPs)
		for i, p := range d.Parameters {
			if i > 0 {
				fmt.Fprint(w, " ")
			}
			fmt.Fprintf(w, "%s=%v", p.Name, p.Default)
		}
		fmt.Fprintln(w, "\t")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Println("bytes and operations a parameter and update; gputrain optimizers NAME tells what the parameters mean")
	return nil
}

// optimizerTemplate writes what stands below `optimizer:` in a run file.
func optimizerTemplate(d optim.Description) error {
	fmt.Printf("# %s\n# %g bytes of state, %g bytes of traffic, %g operations a parameter and update\noptimizer:\n  name: %s\n  parameters:\n",
		d.Doc, d.Cost.StateBytes, d.Cost.TrafficBytes, d.Cost.FLOPs, d.Name)
	for _, p := range d.Parameters {
		value, err := json.Marshal(p.Default)
		if err != nil {
			return err
		}
		fmt.Printf("    # %s\n    %s: %s\n", p.Doc, p.Name, value)
	}
	return nil
}
