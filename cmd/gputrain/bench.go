package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/shaders/suggest"
)

type benchCmd struct {
	Name    string `arg:"" optional:"" help:"Only one: copy, matmul, kron, train, pipeline, texels, or an optimizer; none = all."`
	Adapter string `help:"Index, part of a name, backend:part, or all." placeholder:"SEL"`
	JSON    bool   `help:"One JSON object a figure on standard output."`
}

// figure is one measurement. Ratio is to what Of names, both of the same run.
type figure struct {
	Bench      string  `json:"bench"`
	Adapter    string  `json:"adapter"`
	Value      float64 `json:"value"`
	Unit       string  `json:"unit"`
	Millis     float64 `json:"ms,omitempty"`
	Dispatches int     `json:"dispatches,omitempty"`
	Bytes      uint64  `json:"bytes,omitempty"` // moved between host and device
	Ratio      float64 `json:"ratio,omitempty"`
	Of         string  `json:"of,omitempty"`
}

// benchShapes are the products that are measured: the square one, and those of
// the default model's step (1,024 tokens, width 128).
var benchShapes = []matmulShape{
	{1024, 1024, 1024, "nn"},
	{1024, 1024, 1024, "nt"},
	{1024, 1024, 1024, "tn"},
	{1024, 128, 384, "nn"},
	{1024, 128, 128, "nn"},
	{1024, 128, 512, "nn"},
	{1024, 512, 128, "nn"},
	{1024, 128, 256, "nt"},
	{1024, 384, 128, "nt"},
	{1024, 512, 128, "nt"},
	{128, 1024, 384, "tn"},
	{128, 1024, 512, "tn"},
	{512, 1024, 128, "tn"},
}

func (c *benchCmd) Run(ctx context.Context) error {
	names := slices.Concat([]string{"copy", "matmul", "kron", "train", "pipeline", "texels"}, optim.Names())
	if c.Name != "" && !slices.Contains(names, c.Name) {
		return usageError{fmt.Errorf("bench: found %q, wanted one of %s%s", c.Name, strings.Join(names, ", "), suggest.DidYouMean(c.Name, names))}
	}
	adapters, err := chosenAdapters(c.Adapter)
	if err != nil {
		return err
	}
	for _, a := range adapters {
		if err := c.measure(ctx, a); err != nil {
			return fmt.Errorf("bench: %s: %w", a, err)
		}
	}
	return nil
}

func (c *benchCmd) wants(name string) bool { return c.Name == "" || c.Name == name }

func (c *benchCmd) measure(ctx context.Context, a gpu.Adapter) error {
	dev, err := gpu.Open(ctx, a, gpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Release()
	dev.SetAutotune(false)
	if err := sayTaken(a, c.JSON); err != nil {
		return err
	}
	report := func(f figure) error {
		f.Adapter = a.Name + " " + a.Backend
		return c.print(f)
	}
	if c.wants("matmul") {
		for _, s := range benchShapes {
			rate, err := measureMatmul(ctx, dev, s)
			if err != nil {
				return err
			}
			if err := report(figure{Bench: "matmul " + s.String(), Value: rate, Unit: "GFLOP/s"}); err != nil {
				return err
			}
		}
	}
	if err := c.memory(ctx, dev, report); err != nil {
		return err
	}
	if err := c.arithmetic(ctx, dev, report); err != nil {
		return err
	}
	if c.wants("kron") {
		if err := benchKron(ctx, dev, report); err != nil {
			return err
		}
	}
	if c.wants("train") {
		if err := benchTraining(ctx, dev, report); err != nil {
			return err
		}
	}
	if c.wants("pipeline") {
		if err := benchPipeline(ctx, a, report); err != nil {
			return err
		}
	}
	if c.wants("texels") {
		return benchTexels(ctx, a, report)
	}
	return nil
}

// memoryBound tells optimizers that wait for memory from those that wait for arithmetic, by their operations a parameter: an update
// moves some 30 bytes, and adapters make 1 to 10 operations in the time that a byte takes.
func memoryBound(d optim.Description) bool { return d.Cost.FLOPs < 300 }

// chosen lists the optimizers that are wanted, of one kind.
func (c *benchCmd) chosen(memory bool) ([]optim.Description, error) {
	var out []optim.Description
	for _, name := range optim.Names() {
		d, err := optim.Describe(name)
		if err != nil {
			return nil, err
		}
		if c.wants(name) && memoryBound(d) == memory {
			out = append(out, d)
		}
	}
	return out, nil
}

// memory measures the copy and, as ratios to it, the optimizers that wait for memory.
func (c *benchCmd) memory(ctx context.Context, dev *gpu.Device, report func(figure) error) error {
	wanted, err := c.chosen(true)
	if err != nil || len(wanted) == 0 && !c.wants("copy") {
		return err
	}
	rate, err := measureCopy(ctx, dev)
	if err != nil {
		return err
	}
	if err := report(figure{Bench: "copy", Value: rate, Unit: "GB/s"}); err != nil {
		return err
	}
	for _, d := range wanted {
		f, err := measureOptimizer(ctx, dev, d.Name, figureElements/4096, 4096)
		if err != nil {
			return err
		}
		value := d.Cost.TrafficBytes * figureElements / f.Seconds / 1e9
		if err := report(figure{Bench: d.Name, Value: value, Unit: "GB/s", Millis: f.Seconds * 1e3, Dispatches: f.Dispatches, Ratio: value / rate, Of: "copy"}); err != nil {
			return err
		}
	}
	return nil
}

// arithmetic measures the optimizers that wait for arithmetic on one matrix, as ratios to the square product.
func (c *benchCmd) arithmetic(ctx context.Context, dev *gpu.Device, report func(figure) error) error {
	wanted, err := c.chosen(false)
	if err != nil || len(wanted) == 0 {
		return err
	}
	const side = 768 // of the matrices that muon's operations are counted for
	rate, err := measureMatmul(ctx, dev, benchShapes[0])
	if err != nil {
		return err
	}
	for _, d := range wanted {
		f, err := measureOptimizer(ctx, dev, d.Name, side, side)
		if err != nil {
			return err
		}
		value := d.Cost.FLOPs * side * side / f.Seconds / 1e9
		line := figure{
			Bench: fmt.Sprintf("%s, %dx%d", d.Name, side, side), Value: value, Unit: "GFLOP/s", Millis: f.Seconds * 1e3, Dispatches: f.Dispatches,
			Ratio: value / rate, Of: fmt.Sprintf("matmul %s's %.1f", benchShapes[0], rate),
		}
		if err := report(line); err != nil {
			return err
		}
	}
	return nil
}

func (c *benchCmd) print(f figure) error {
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	line := fmt.Sprintf("  %-34s %9.1f %s", f.Bench, f.Value, f.Unit)
	if f.Millis > 0 {
		line += fmt.Sprintf(", %.1f ms", f.Millis)
	}
	if f.Dispatches > 0 {
		line += fmt.Sprintf(", %d dispatches", f.Dispatches)
	}
	if f.Bytes > 0 {
		line += fmt.Sprintf(", %s moved", size(f.Bytes))
	}
	if f.Of != "" {
		line += fmt.Sprintf(", %.2f of %s", f.Ratio, f.Of)
	}
	_, err := fmt.Println(line)
	return err
}
