package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"gputrain/gpu"
	"gputrain/run/runfile"
)

type devicesCmd struct {
	JSON    bool `help:"One JSON array on standard output." xor:"form"`
	Missing bool `help:"Print only the command that installs Vulkan's software driver, and only if nothing better than OpenGL on the processor is found." xor:"form"`
}

// deviceLine is an adapter as `devices --json` shows it. Sizes in bytes.
type deviceLine struct {
	Index             int      `json:"index"`
	Name              string   `json:"name"`
	Backend           string   `json:"backend"`
	Type              string   `json:"type"`
	Class             string   `json:"class"` // hardware, software driver, OpenGL on the processor
	Driver            string   `json:"driver"`
	Default           bool     `json:"default"` // taken when nothing else is said
	MaxBufferBytes    uint64   `json:"max_buffer_bytes"`
	MaxBindingBytes   uint64   `json:"max_binding_bytes"`
	MaxStorageBuffers int      `json:"max_storage_buffers"`
	MaxInvocations    int      `json:"max_invocations_per_workgroup"`
	MaxWorkgroupBytes int      `json:"max_workgroup_bytes"`
	MaxWorkgroupsADim uint32   `json:"max_workgroups_per_dimension"`
	Timestamps        bool     `json:"timestamps"`
	Multiprocessors   int      `json:"multiprocessors"`    // 0: not known
	MatrixShapes      []string `json:"matrix_shapes"`      // M x N x K of its units that multiply f16 and add up in f32
	MatrixInvocations int      `json:"matrix_invocations"` // that make a product together
}

func (c *devicesCmd) Run() error {
	if c.Missing {
		if command := gpu.MissingDriver(); command != "" {
			fmt.Println(command)
		}
		return nil
	}
	adapters, err := gpu.Adapters()
	if err != nil {
		return err
	}
	best, bestErr := gpu.Select("")
	lines := make([]deviceLine, len(adapters))
	for i, a := range adapters {
		l := a.Limits
		lines[i] = deviceLine{
			Index: a.Index, Name: a.Name, Backend: a.Backend, Type: a.Type, Class: a.Class(), Driver: a.Driver,
			Default:        bestErr == nil && best.Index == a.Index,
			MaxBufferBytes: l.BufferBytes, MaxBindingBytes: l.BindingBytes, MaxStorageBuffers: l.StorageBuffers,
			MaxInvocations: l.Invocations, MaxWorkgroupBytes: l.WorkgroupBytes, MaxWorkgroupsADim: l.Workgroups,
			Timestamps: a.Timestamps, Multiprocessors: l.Multiprocessors, MatrixShapes: []string{}, MatrixInvocations: l.Matrix.Lanes,
		}
		for _, s := range l.Matrix.Shapes {
			lines[i].MatrixShapes = append(lines[i].MatrixShapes, s.String())
		}
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(lines)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tINDEX\tNAME\tBACKEND\tTYPE\tDRIVER\tBUFFER\tBINDING\tSTORAGE BUFFERS\tINVOCATIONS\tTIMESTAMPS\tMULTIPROCESSORS\tMATRIX UNITS")
	for i, l := range lines {
		mark, multiprocessors := "", "not known"
		if l.Default {
			mark = "*"
		}
		if l.Multiprocessors > 0 {
			multiprocessors = fmt.Sprint(l.Multiprocessors)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%v\t%s\t%s\n", mark, l.Index, l.Name, l.Backend, l.Type, l.Driver,
			size(l.MaxBufferBytes), size(l.MaxBindingBytes), l.MaxStorageBuffers, l.MaxInvocations, l.Timestamps, multiprocessors, adapters[i].Limits.Matrix)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bestErr != nil {
		return bestErr
	}
	fmt.Println("* taken unless --adapter or GPUTRAIN_ADAPTER says otherwise: an index, a part of a name, or backend:part")
	taken, err := takenText(best)
	fmt.Println("taken: " + taken)
	return err
}

// takenText says which adapter is taken, what it is, and how something faster is to be had.
func takenText(a gpu.Adapter) (string, error) {
	advice, err := a.Faster()
	return fmt.Sprintf("%s, driver %s: %s%s", a, a.Driver, a.Class(), advice), err
}

// sayTaken writes that line, beside results that are JSON to standard error.
func sayTaken(a gpu.Adapter, json bool) error {
	text, err := takenText(a)
	if err != nil {
		return err
	}
	out := os.Stdout
	if json {
		out = os.Stderr
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// size writes bytes with a binary unit.
func size(b uint64) string { return runfile.FormatBytes(b) }
