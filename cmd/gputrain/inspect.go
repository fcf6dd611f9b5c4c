package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/cmd/gputrain/lab/inspect"
	"gputrain/hub"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/setup"
	"gputrain/run/tensorboard"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

type inspectCmd struct {
	baseFlag
	Path      string `arg:"" help:"Run directory, checkpoint, model directory, .safetensors or GGUF file." type:"path"`
	Optimizer bool   `help:"Show the optimizer's state instead of the parameters, one line a parameter."`
	JSON      bool   `help:"One JSON object a tensor, or a parameter with --optimizer, on standard output."`
	Plot      string `help:"With --optimizer, for quad and skew: draw the Lipschitz estimates and the conditions of the factors." type:"path" placeholder:"FILE.svg"`
}

// tensorLine is a tensor as `inspect` shows it: figures are of all elements.
type tensorLine struct {
	Name      string  `json:"name"`
	DType     string  `json:"dtype"`
	Shape     []int   `json:"shape"`
	Mean      float64 `json:"mean"`
	RMS       float64 `json:"rms"`
	MaxAbs    float64 `json:"max_abs"`
	NonFinite int     `json:"non_finite"`
}

func (c *inspectCmd) Run() error {
	info, err := os.Stat(c.Path)
	if err != nil {
		return usageError{fmt.Errorf("inspect: %w", err)}
	}
	if c.Plot != "" && !c.Optimizer {
		return usageError{errors.New("inspect: --plot: found no --optimizer, whose factors it draws")}
	}
	events := []string{c.Path}
	if info.IsDir() {
		if events, err = tensorboard.Files(c.Path); err != nil {
			return err
		}
	} else if !tensorboard.IsEventFile(c.Path) {
		events = nil
	}
	if len(events) > 0 {
		return usageError{fmt.Errorf("inspect: %s: found event files of TensorBoard, wanted a run directory, a checkpoint or a file of tensors: look at them with tensorboard --logdir %s",
			c.Path, filepath.Dir(events[0]))}
	}
	path, err := filepath.EvalSymlinks(c.Path) // of a file that the user names, links are the user's
	if err != nil {
		return usageError{fmt.Errorf("inspect: %w", err)}
	}
	if hub.Is(path) {
		return c.model()
	}
	if c.Base != "" {
		return usageError{fmt.Errorf("inspect: %s: found a file, wanted a run directory or a checkpoint for --base", c.Path)}
	}
	if c.Optimizer {
		return usageError{fmt.Errorf("inspect: %s: found a file, wanted a run directory or a checkpoint for --optimizer", c.Path)}
	}
	w := c.table()
	if err := c.files(w, path); err != nil {
		return err
	}
	return w.Flush()
}

// model shows a model, and its tensors or what the optimizer remembers of them.
func (c *inspectCmd) model() error {
	b, err := c.open(c.Path)
	if err != nil {
		return err
	}
	defer b.Close()
	base, err := c.base(b)
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	if !c.JSON {
		if err := c.describe(b, base); err != nil {
			return err
		}
	}
	if c.Optimizer {
		return c.optimizer(b)
	}
	names, err := b.WeightFiles()
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	w := c.table()
	if b.IsGGUF() {
		err = c.ggufTensors(w, b)
	} else {
		err = c.files(w, names...)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// table begins a table of tensors.
func (c *inspectCmd) table() *tabwriter.Writer {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "TENSOR\tDTYPE\tSHAPE\tMEAN\tRMS\tMAX\tNOT FINITE")
	}
	return w
}

// files writes a line for each tensor of files.
func (c *inspectCmd) files(w io.Writer, names ...string) error {
	for _, name := range names {
		f, err := safetensors.Open(name)
		if err != nil {
			return &setup.ModelError{Err: err}
		}
		err = c.tensors(w, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// base is what the directory says of parameters that it leaves out, or --base, where that has them; nil where it leaves out none.
func (c *inspectCmd) base(b *hub.Bundle) (*model.Base, error) {
	if c.Base == "" {
		return b.LeftOut()
	}
	_, weights, err := b.Partial(nil)
	if err != nil {
		return nil, err
	}
	return weights.Base(), nil
}

// optimizer shows what the optimizer of a checkpoint remembers of each parameter.
func (c *inspectCmd) optimizer(b *hub.Bundle) error {
	dir := b.Path(".")
	record, err := checkpoint.ReadRecord(checkpoint.OS, dir)
	if err != nil {
		return err
	}
	def, err := b.Definition()
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	optimizer, err := savedOptimizer(dir, record)
	if err != nil {
		return err
	}
	trained := slices.DeleteFunc(model.Specs(def), func(s buffers.Spec) bool { return slices.Contains(record.Frozen, s.Path) })
	plan, err := kronPlan(optimizer, trained)
	if err != nil {
		return err
	}
	f, err := safetensors.Open(filepath.Join(dir, "optimizer.safetensors"))
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	defer f.Close()
	leaves, err := inspect.Optimizer(f, trained, plan)
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	if c.Plot != "" {
		var picture bytes.Buffer
		title := fmt.Sprintf("%s, step %d: factors of %s", def.Kind(), record.Step, optimizer.Name)
		if err := inspect.Plot(&picture, title, leaves); err != nil {
			return usageError{err}
		}
		if err := os.WriteFile(c.Plot, picture.Bytes(), 0o666); err != nil {
			return err
		}
	}
	if !c.JSON {
		return inspect.Table(os.Stdout, leaves)
	}
	out := json.NewEncoder(os.Stdout)
	for _, l := range leaves {
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func savedOptimizer(dir string, r checkpoint.Record) (optim.Config, error) {
	c, err := state.SavedOptimizer(r)
	if err != nil {
		return c, &checkpoint.LoadError{Path: dir, Err: err}
	}
	return c, nil
}

// describe prints what a checkpoint or a model directory is.
func (c *inspectCmd) describe(b *hub.Bundle, base *model.Base) error {
	dir := b.Path(".")
	def, err := b.Definition()
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	fmt.Printf("%s\n%s, %d parameters%s, context %d, vocabulary %d\n", dir, def.Kind(), model.Parameters(def), model.ForToken(def), def.Context(), def.Vocab())
	if text := model.DescribeLoRA(def); text != "" {
		fmt.Printf("adapters: %s\n", terminal.Text(text))
		if err := c.doubt(b, def); err != nil {
			return err
		}
	}
	if tokens, err := setup.ModelTokens(b, def); err != nil {
		fmt.Println(terminal.Text(err.Error()))
	} else if t := tokens.Tokenizer; t != nil {
		fmt.Printf("tokenizer: %s, %d tokens, end tokens %v, fingerprint %s\n", t.Kind(), t.VocabSize(), t.EndTokens(), t.Fingerprint())
	}
	if _, err := os.Stat(filepath.Join(dir, "state.json")); err != nil {
		return nil
	}
	if err := checkpoint.Verify(checkpoint.OS, dir); err != nil {
		return err
	}
	r, err := checkpoint.ReadRecord(checkpoint.OS, dir)
	if err != nil {
		return err
	}
	o, err := savedOptimizer(dir, r)
	if err != nil {
		return err
	}
	if n := len(r.Frozen); n > 0 {
		fmt.Printf("%d of %d parameters frozen\n", n, len(def.Params()))
	}
	if base != nil {
		fmt.Printf("what is frozen is not here but in %s, %.19s\n", terminal.Name(base.Directory), terminal.Name(base.Fingerprint))
	}
	fmt.Printf("step %d, %d tokens, seed %d, computed on %s\n", r.Step, r.Run.Tokens, r.Run.Seed, terminal.Name(r.Adapter))
	var parameters bytes.Buffer
	if err := json.Compact(&parameters, o.Parameters); err != nil {
		return err
	}
	fmt.Printf("optimizer %s %s, numerics %s, %d updates left out; every checksum holds\n", o.Name, terminal.Text(parameters.String()), o.Options.Numerics, r.Skipped)
	return nil
}

// doubt compares the base of exported adapters with what they were trained upon.
func (c *inspectCmd) doubt(b *hub.Bundle, def model.Definition) error {
	if !b.Has(model.FingerprintFile) {
		return nil
	}
	weights, err := b.Weights(def)
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	return tellDoubt(weights, false)
}

// tensors writes a line for each tensor of a file.
func (c *inspectCmd) tensors(w io.Writer, f *safetensors.File) error {
	for _, name := range f.Names() {
		dtype, shape, _ := f.Info(name)
		var values []float32
		if strings.HasPrefix(dtype, "F") || strings.HasPrefix(dtype, "BF") {
			var err error
			if values, err = f.Float32(name); err != nil {
				return err
			}
		}
		if err := c.line(w, tensorLine{Name: name, DType: dtype, Shape: shape}, values); err != nil {
			return err
		}
	}
	return nil
}

// ggufTensors writes a line for each tensor of a GGUF file, under the names and in the order of the file.
func (c *inspectCmd) ggufTensors(w io.Writer, b *hub.Bundle) error {
	f, err := b.GGUF()
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	for _, info := range f.Tensors() {
		var values []float32
		if info.Type.Readable() {
			values = make([]float32, info.Elements())
			if err := f.Floats(info.Name, values, 0); err != nil {
				return &setup.ModelError{Err: err}
			}
		}
		if err := c.line(w, tensorLine{Name: info.Name, DType: strings.ToUpper(info.Type.String()), Shape: info.Shape}, values); err != nil {
			return err
		}
	}
	return nil
}

// line writes a tensor, with the figures of its elements where they can be read.
func (c *inspectCmd) line(w io.Writer, l tensorLine, values []float32) error {
	l.measure(values)
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(l)
	}
	_, err := fmt.Fprintf(w, "%s\t%s\t%v\t%.3g\t%.3g\t%.3g\t%d\n", terminal.Name(l.Name), l.DType, l.Shape, l.Mean, l.RMS, l.MaxAbs, l.NonFinite)
	return err
}

// measure sets the figures; elements that are not finite are counted and left
// out of the others.
func (l *tensorLine) measure(values []float32) {
	sum, squares, n := 0.0, 0.0, 0
	for _, v := range values {
		x := float64(v)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			l.NonFinite++
			continue
		}
		sum += x
		squares += x * x
		l.MaxAbs = max(l.MaxAbs, math.Abs(x))
		n++
	}
	if n > 0 {
		l.Mean, l.RMS = sum/float64(n), math.Sqrt(squares/float64(n))
	}
}
