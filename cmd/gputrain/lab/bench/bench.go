package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/gpu"
	"gputrain/optim"
)

// Figure is one measurement. Ratio is to what Of names, both of the same run.
type Figure struct {
	Bench      string  `json:"bench"`
	Adapter    string  `json:"adapter"`
	Value      float64 `json:"value"`
	Unit       string  `json:"unit"`
	Millis     float64 `json:"ms,omitempty"`
	Dispatches int     `json:"dispatches,omitempty"`
	Bytes      uint64  `json:"bytes,omitempty"` // moved between host and device
	Ratio      float64 `json:"ratio,omitempty"`
	Of         string  `json:"of,omitempty"`
	Kernels    string  `json:"kernels,omitempty"` // of a product or attention: their names tell the tile
}

// beside fills in what so many operations or bytes in a time come to, as a ratio to another speed in billions of them.
func (f Figure) beside(rate, work float64, took time.Duration, dispatches int) Figure {
	f.Value, f.Millis, f.Dispatches = work/took.Seconds()/1e9, took.Seconds()*1e3, dispatches
	f.Ratio = f.Value / rate
	return f
}

// sizes are what is measured: usually those of the tables, of a card what fits it.
type sizes struct {
	products  []matmulShape // the first is what others are compared with
	attention []attentionShape
	elements  int // of the trees in figures of memory
	side      int // of the matrix that optimizers work on which wait for arithmetic
	kron      int // of that whose factors are refreshed
}

var tableSizes = sizes{products: benchShapes, elements: figureElements, side: 768, kron: 1024}

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

// Names are what can be measured alone.
func Names() []string {
	return slices.Concat([]string{"copy", "matmul", "kron", "train", "pipeline", "texels", "lora", "decode"}, optim.Names())
}

// measurement is a run of the figures of one adapter.
type measurement struct {
	sizes
	only    string // what alone is measured; "" for all
	rounded bool   // products are of operands rounded to f16
	report  func(Figure) error
}

func (r measurement) wants(name string) bool { return r.only == "" || r.only == name }

// Adapter measures what only names, one of Names, or all where it is empty, and reports each figure at once. dev is a device of a.
func Adapter(ctx context.Context, a gpu.Adapter, dev *gpu.Device, only string, report func(Figure) error) error {
	r := measurement{sizes: tableSizes, only: only, report: func(f Figure) error {
		f.Adapter = a.Name + " " + a.Backend
		return report(f)
	}}
	for _, part := range []struct {
		wanted  bool
		measure func() error
	}{
		{r.wants("matmul"), func() error { return r.productFigures(ctx, dev) }},
		{true, func() error { return r.memory(ctx, dev) }},
		{true, func() error { return r.arithmetic(ctx, dev) }},
		{r.wants("kron"), func() error { return r.kronFigures(ctx, dev) }},
		{r.wants("train"), func() error { return trainingFigures(ctx, dev, r.report) }},
		{r.wants("pipeline"), func() error { return pipelineFigures(ctx, a, r.report) }},
		{r.wants("texels"), func() error { return texelFigures(ctx, a, r.report) }},
		{only == "lora", func() error { return tuningFigures(ctx, a, r.report) }},
		{only == "decode", func() error { return decodeFigures(ctx, dev, r.report) }},
	} {
		if !part.wanted {
			continue
		}
		if err := part.measure(); err != nil {
			return err
		}
	}
	return nil
}

// productFigures measures the products.
func (r measurement) productFigures(ctx context.Context, dev *gpu.Device) error {
	for _, s := range r.products {
		rate, kernels, err := measureMatmul(ctx, dev, s, r.rounded)
		if err != nil {
			return err
		}
		if err := r.report(Figure{Bench: "matmul " + s.String(), Value: rate, Unit: "GFLOP/s", Kernels: kernels}); err != nil {
			return err
		}
	}
	return nil
}

// MemoryBound tells optimizers that wait for memory from those that wait for arithmetic, by their operations a parameter: an update
// moves some 30 bytes, and adapters make 1 to 10 operations in the time that a byte takes.
func MemoryBound(d optim.Description) bool { return d.Cost.FLOPs < 300 }

// chosen lists the optimizers that are wanted, of one kind.
func (r measurement) chosen(memory bool) ([]optim.Description, error) {
	var out []optim.Description
	for _, name := range optim.Names() {
		d, err := optim.Describe(name)
		if err != nil {
			return nil, err
		}
		if r.wants(name) && MemoryBound(d) == memory {
			out = append(out, d)
		}
	}
	return out, nil
}

// memory measures the copy and, as ratios to it, the optimizers that wait for memory.
func (r measurement) memory(ctx context.Context, dev *gpu.Device) error {
	wanted, err := r.chosen(true)
	if err != nil || len(wanted) == 0 && !r.wants("copy") {
		return err
	}
	rate, err := copyRate(ctx, dev, r.elements)
	if err != nil {
		return err
	}
	if err := r.report(Figure{Bench: "copy", Value: rate, Unit: "GB/s"}); err != nil {
		return err
	}
	for _, d := range wanted {
		took, dispatches, err := measureOptimizer(ctx, dev, d.Name, r.elements/4096, 4096)
		if err != nil {
			return err
		}
		f := Figure{Bench: d.Name, Unit: "GB/s", Of: "copy"}
		if err := r.report(f.beside(rate, d.Cost.TrafficBytes*float64(r.elements), took, dispatches)); err != nil {
			return err
		}
	}
	return nil
}

// arithmetic measures the optimizers that wait for arithmetic on one matrix, as ratios to the square product.
func (r measurement) arithmetic(ctx context.Context, dev *gpu.Device) error {
	wanted, err := r.chosen(false)
	if err != nil || len(wanted) == 0 {
		return err
	}
	rate, _, err := measureMatmul(ctx, dev, r.products[0], false)
	if err != nil {
		return err
	}
	for _, d := range wanted {
		took, dispatches, err := measureOptimizer(ctx, dev, d.Name, r.side, r.side)
		if err != nil {
			return err
		}
		f := Figure{Bench: fmt.Sprintf("%s, %dx%d", d.Name, r.side, r.side), Unit: "GFLOP/s", Of: fmt.Sprintf("matmul %s's %.1f", r.products[0], rate)}
		if err := r.report(f.beside(rate, d.Cost.FLOPs*float64(r.side*r.side), took, dispatches)); err != nil {
			return err
		}
	}
	return nil
}
