package doctor

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/optim"
)

// paramSpec is a leaf of a case.
type paramSpec struct {
	Name    string `json:"name"`
	Shape   []int  `json:"shape"`
	Scanned bool   `json:"scanned"`
}

// leaves reads one tensor a leaf, named prefix/leaf.
func (c *goldenCase) leaves(params []paramSpec, prefix string) (out []buffers.Host) {
	for _, p := range params {
		data := c.floats(prefix + "/" + p.Name)
		if n := graph.Elements(p.Shape); len(data) != n {
			c.note(fmt.Errorf("tensor %s/%s: %d elements, want %d of shape %v", prefix, p.Name, len(data), n, p.Shape))
		}
		out = append(out, buffers.Host{Path: p.Name, Shape: p.Shape, Data: data})
	}
	return out
}

// runClip gives the gradients to a clip alone, with params of zero: they become the clipped gradients.
func runClip(ctx context.Context, dev *gpu.Device, c *goldenCase) (*comparison, error) {
	var file struct {
		Params  []paramSpec `json:"params"`
		Entries []struct {
			Index   int     `json:"index"`
			MaxNorm float64 `json:"max_norm"`
		} `json:"entries"`
		Tolerance tolerance `json:"tolerance"`
	}
	if err := c.decode(&file); err != nil {
		return nil, err
	}
	grads := c.leaves(file.Params, "grads/0")
	if c.err != nil {
		return nil, c.err
	}
	seen := &comparison{}
	for _, e := range file.Entries {
		for form, tx := range []optim.Transform{optim.ClipByGlobalNorm(e.MaxNorm), optim.ClipStageLocal(e.MaxNorm)} {
			got, err := clipped(ctx, dev, tx, grads)
			if err != nil {
				return nil, err
			}
			prefix := fmt.Sprintf("expect/%d/%s", e.Index, []string{"optax", "stage_local"}[form])
			seen.leaves(prefix, got, c.leaves(file.Params, prefix), file.Tolerance)
		}
	}
	return seen, c.err
}

func clipped(ctx context.Context, dev *gpu.Device, tx optim.Transform, grads []buffers.Host) ([]buffers.Host, error) {
	zero := make([]buffers.Host, len(grads))
	for i, g := range grads {
		zero[i] = buffers.Host{Path: g.Path, Shape: g.Shape, Data: make([]float32, len(g.Data))}
	}
	run, err := newDeviceRun(ctx, dev, tx, zero)
	if err != nil {
		return nil, err
	}
	defer run.release()
	if err := run.call(grads); err != nil {
		return nil, err
	}
	return run.params()
}

// leaves compares trees leaf by leaf, whatever their order.
func (c *comparison) leaves(prefix string, got, want []buffers.Host, tol tolerance) {
	for _, w := range want {
		found := false
		for _, g := range got {
			if g.Path == w.Path {
				found = true
				c.tensor(prefix+"/"+w.Path, g.Data, w.Data, tol)
			}
		}
		if !found {
			c.fail(prefix + "/" + w.Path + ": missing")
		}
	}
}
