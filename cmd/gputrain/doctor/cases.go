// Package doctor checks this program on an adapter: golden cases, made by an independent float64 implementation.
package doctor

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/internal/suggest"
)

//go:embed cases
var embedded embed.FS

// Cases lists the golden cases that are part of the program, each a folder for RunCase.
func Cases() (map[string]fs.FS, error) {
	entries, err := embedded.ReadDir("cases")
	if err != nil {
		return nil, fmt.Errorf("doctor: cases: %w", err)
	}
	cases := map[string]fs.FS{}
	for _, e := range entries {
		if cases[e.Name()], err = fs.Sub(embedded, "cases/"+e.Name()); err != nil {
			return nil, fmt.Errorf("doctor: cases: %w", err)
		}
	}
	return cases, nil
}

// Result is how a case went. MaxError and Tolerance are those of the element that came nearest to its tolerance, or
// passed it by most: Worst. A case that could not be run to its end fails with an Error.
type Result struct {
	Case      string  `json:"case"`
	Adapter   string  `json:"adapter"`
	Pass      bool    `json:"pass"`
	MaxError  float64 `json:"max_error"`
	Tolerance float64 `json:"tolerance"`
	Worst     string  `json:"worst"`
	Error     string  `json:"error,omitempty"`
}

// Failed is the result of what came to no numbers.
func Failed(name string, a gpu.Adapter, err error) Result {
	return Result{Case: name, Adapter: AdapterName(a), Error: err.Error()}
}

// AdapterName names an adapter in results.
func AdapterName(a gpu.Adapter) string { return a.Name + " " + a.Backend }

// header is what every case.json has.
type header struct {
	FormatVersion int    `json:"format_version"`
	Kind          string `json:"kind"`
}

// A kind of case is run on the first of the devices, or on all of them.
type kind struct {
	name string
	run  func(ctx context.Context, devices []*gpu.Device, c *goldenCase, dir fs.FS) (*comparison, error)
}

// onFirst is a kind that one device runs.
func onFirst(name string, run func(ctx context.Context, dev *gpu.Device, c *goldenCase) (*comparison, error)) kind {
	return kind{name, func(ctx context.Context, devices []*gpu.Device, c *goldenCase, _ fs.FS) (*comparison, error) {
		return run(ctx, devices[0], c)
	}}
}

// kinds that the format has.
var kinds = []kind{
	onFirst("optimizer", runOptimizer), onFirst("prng", runPRNG), onFirst("schedule", runSchedule), onFirst("clip", runClip), onFirst("wk_unit", runUnit),
	training("model", loadModel), training("lora", loadLoRA), training("dpo", loadPairs),
	training("reward", loadReward), cutting("embed", loadEmbed), training("distill", loadDistill), training("kto", loadKTO),
	onFirst("nf4", runNF4), onFirst("advantages", runAdvantages),
	{"packed", runPacked},
	cutting("grpo", loadDrawn),
}

// folder is a folder of cases on disk. A case may read what lies beside it.
type folder string

// Open opens a file by its path from the folder.
func (f folder) Open(name string) (fs.File, error) {
	file, err := os.Open(filepath.Join(string(f), filepath.FromSlash(name)))
	if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) {
		wrong.Path = name // as it is called in the case
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// RunCase runs the case in dir, a folder called name, on the first of the devices. Models, with or without adapters, are cut into a stage for each.
// An unknown kind or optimizer, another format version or a damaged case is a failure of that case.
func RunCase(ctx context.Context, devices []*gpu.Device, name string, dir fs.FS) Result {
	adapter := devices[0].Adapter()
	c, err := loadCase(dir)
	if err != nil {
		return Failed(name, adapter, err)
	}
	seen, err := c.kind.run(ctx, devices, c, dir)
	if err = cmp.Or(c.err, err); err != nil {
		return Failed(name, adapter, err)
	}
	r := Result{Case: name, Adapter: AdapterName(adapter)}
	r.Pass, r.MaxError, r.Tolerance, r.Worst = seen.result()
	return r
}

// runCheck runs the check of a kernel on dev.
func runCheck(ctx context.Context, dev *gpu.Device, check gpu.Check) Result {
	name := "kernel/" + check.Name
	found, err := check.Run(ctx, dev)
	if err != nil {
		return Failed(name, dev.Adapter(), err)
	}
	return Result{
		Case: name, Adapter: AdapterName(dev.Adapter()), Pass: found.MaxError <= found.Tolerance,
		MaxError: finite(found.MaxError), Tolerance: finite(found.Tolerance), Worst: found.Worst,
	}
}

// finite is x as JSON can tell it, which has no NaN and no infinity.
func finite(x float64) float64 {
	if math.IsNaN(x) {
		return math.MaxFloat64
	}
	return max(-math.MaxFloat64, min(x, math.MaxFloat64))
}

// goldenCase is a case as it lies in its folder.
type goldenCase struct {
	header
	kind    kind
	raw     []byte
	tensors *safetensors.File // nil for schedules and advantages
	err     error             // the first of its tensors that could not be read
}

// floats reads a tensor, to compare with: none where it cannot be read, which ends the case with that error.
func (c *goldenCase) floats(name string) []float32 {
	data, err := c.tensors.Float32(name)
	c.note(err)
	return data
}

// note keeps the first error.
func (c *goldenCase) note(err error) { c.err = cmp.Or(c.err, err) }

func loadCase(dir fs.FS) (*goldenCase, error) {
	raw, err := fs.ReadFile(dir, "case.json")
	if err != nil {
		return nil, err
	}
	c := &goldenCase{raw: raw}
	if err := json.Unmarshal(raw, &c.header); err != nil {
		return nil, fmt.Errorf("case.json: %w", err)
	}
	if c.FormatVersion != 1 {
		return nil, fmt.Errorf("format_version %d, want 1", c.FormatVersion)
	}
	var names []string
	for _, k := range kinds {
		if names = append(names, k.name); k.name == c.Kind {
			c.kind = k
		}
	}
	if c.kind.run == nil {
		return nil, fmt.Errorf("kind %q, want one of %s%s", c.Kind, strings.Join(names, ", "), suggest.DidYouMean(c.Kind, names))
	}
	if c.Kind == "schedule" || c.Kind == "advantages" {
		return c, nil
	}
	data, err := fs.ReadFile(dir, "tensors.safetensors")
	if err != nil {
		return nil, err
	}
	if c.tensors, err = safetensors.Parse(data); err != nil {
		return nil, fmt.Errorf("tensors.safetensors: %w", err)
	}
	return c, nil
}

// decode reads case.json into the fields of a kind. Keys that are for people are ignored.
func (c *goldenCase) decode(into any) error {
	if err := json.Unmarshal(c.raw, into); err != nil {
		return fmt.Errorf("case.json: %w", err)
	}
	return nil
}

// tolerance of an element: atol + rtol |want| + atol_rel_max max|want over the tensor|.
type tolerance struct {
	RTol       float64 `json:"rtol"`
	ATol       float64 `json:"atol"`
	ATolRelMax float64 `json:"atol_rel_max"`
}

// comparison keeps the element that is worst in relation to its tolerance.
type comparison struct {
	ratio, found, allowed float64
	where                 string
	failed                bool
}

// tensor compares every element; a NaN, or another number of elements, never passes.
func (c *comparison) tensor(where string, got, want []float32, tol tolerance) {
	if len(got) != len(want) {
		c.fail(fmt.Sprintf("%s: %d elements, want %d", where, len(got), len(want)))
		return
	}
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(float64(w)))
	}
	for i, w := range want {
		c.number(where, float64(got[i]), float64(w), tol.ATol+tol.RTol*math.Abs(float64(w))+tol.ATolRelMax*largest)
	}
}

// near compares one number that has no others beside it.
func (c *comparison) near(where string, got, want float64, tol tolerance) {
	c.number(where, got, want, tol.ATol+(tol.RTol+tol.ATolRelMax)*math.Abs(want))
}

// number compares one number. An infinity allows nothing but itself.
func (c *comparison) number(where string, got, want, allowed float64) {
	if math.IsInf(allowed, 0) {
		allowed = 0
	}
	diff := math.Abs(got - want)
	if got == want {
		diff = 0 // equal infinities too
	}
	if !(diff <= allowed) {
		c.failed = true
	}
	ratio := diff / allowed
	switch {
	case diff == 0:
		ratio = 0
	case math.IsNaN(ratio):
		ratio = math.Inf(1)
	}
	diff = finite(diff)
	if c.where == "" || ratio > c.ratio {
		c.ratio, c.found, c.allowed, c.where = ratio, diff, allowed, where
	}
}

// join adds another comparison, whose places have a name before them.
func (c *comparison) join(of string, other *comparison) {
	c.failed = c.failed || other.failed
	if other.ratio > c.ratio || c.where == "" {
		c.ratio, c.found, c.allowed, c.where = other.ratio, other.found, other.allowed, of+other.where
	}
}

// fail records something that no number measures.
func (c *comparison) fail(what string) {
	c.failed = true
	c.ratio, c.found, c.allowed, c.where = math.Inf(1), math.MaxFloat64, 0, what
}

func (c *comparison) result() (pass bool, found, allowed float64, where string) {
	return !c.failed && c.where != "", c.found, c.allowed, c.where
}

// tolerances decodes those of case.json into a value that another does not have beside its own of that name.
func (c *goldenCase) tolerances(to any) error {
	return c.decode(&struct {
		Tolerance any `json:"tolerance"`
	}{to})
}
