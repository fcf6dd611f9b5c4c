package main

import (
	"context"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
)

// centre is an operator on matrices: from each row of the update it takes the moving average of the row's mean, s <- 0.9 s + 0.1 mean(u), u <- u - s.
// State: "mean", one number a row.
type centre struct{}

func (centre) Cost() optim.Cost { return optim.Cost{TrafficBytes: 12, FLOPs: 2} }

// rowsOf lists the rows of the matrices that it is for.
func rowsOf(s optim.Scene) (rows []buffers.Spec) {
	for i, l := range s.Leaves {
		if s.Chosen[i] && len(l.Shape) == 2 && l.Elements() > 0 {
			rows = append(rows, buffers.Spec{Path: l.Path, Shape: l.Shape[:1]})
		}
	}
	return rows
}

type centreTwin struct {
	optim.Scene
	means map[string][]float64
}

func (centre) Twin(s optim.Scene) (optim.OperatorTwin, error) {
	w := centreTwin{s, map[string][]float64{}}
	for _, rows := range rowsOf(s) {
		w.means[rows.Path] = make([]float64, rows.Shape[0])
	}
	return w, nil
}

func (w centreTwin) Update(_ int64, u, _ [][]float64, skip bool) {
	for leaf, l := range w.Leaves {
		for row, mean := range w.means[l.Path] {
			at := u[leaf][row*l.Shape[1] : (row+1)*l.Shape[1]]
			sum := 0.0
			for _, x := range at {
				sum += x
			}
			mean = 0.9*mean + 0.1*sum/float64(len(at))
			for i := range at {
				at[i] -= mean
			}
			if !skip {
				w.means[l.Path][row] = float64(float32(mean))
			}
		}
	}
}

func (w centreTwin) Tensors() (out []buffers.Host) {
	for _, rows := range rowsOf(w.Scene) {
		h := buffers.Host{Path: "mean/" + rows.Path, Shape: rows.Shape}
		for _, mean := range w.means[rows.Path] {
			h.Data = append(h.Data, float32(mean))
		}
		out = append(out, h)
	}
	return out
}

type centring struct {
	optim.Scene
	means *buffers.Tree
	never *gpu.Buffer // a flag that is not set
}

func (centre) Open(s optim.Scene) (optim.Operation, error) {
	layout, err := buffers.NewLayout(rowsOf(s), s.Device.Limits())
	if err != nil {
		return nil, err
	}
	w := &centring{Scene: s}
	if w.means, err = buffers.NewTree(s.Device, "centre.mean", layout, buffers.F32); err != nil {
		return nil, err
	}
	if w.never, err = s.Device.NewBuffer("centre.never", 16); err != nil {
		w.means.Release()
	}
	return w, err
}

var centreKernel = gpu.KernelOf("outside.centre", `
struct Params { rows: u32, width: u32, first: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> update: array<f32>;
@group(0) @binding(2) var<storage, read_write> means: array<f32>;
@group(0) @binding(3) var<storage, read> flag: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.rows) {
        let at = id.x * params.width;
        var sum = 0.0;
        for (var i = 0u; i < params.width; i++) { sum += update[at + i]; }
        let mean = 0.9 * means[params.first + id.x] + 0.1 * sum / f32(params.width);
        for (var i = 0u; i < params.width; i++) { update[at + i] -= mean; }
        if (flag[1] == 0u) { means[params.first + id.x] = mean; }
    }
}`)

func (w *centring) Record(rec *gpu.Recording, c optim.OperatorCall) {
	flag := c.Flag
	if flag.Bytes == 0 {
		flag = w.never.All()
	}
	for _, means := range w.means.Layout().Leaves() {
		leaf, _ := w.Layout.Leaf(means.Path)
		for _, part := range leaf.Parts {
			params := struct{ Rows, Width, First uint32 }{uint32(part.Rows), uint32(leaf.Shape[1]), uint32(part.Row)}
			rec.Dispatch(centreKernel, gpu.Linear(uint64(part.Rows), 64, w.Device.Limits()), params, c.Updates.Part(part), w.means.Part(means.Parts[0]), flag)
		}
	}
}

func (w *centring) Tensors() (out []buffers.Tensor) {
	for _, means := range w.means.Layout().Leaves() {
		out = append(out, buffers.Tensor{
			Name: "mean/" + means.Path, DType: buffers.F32, Shape: means.Shape,
			Read:  func(ctx context.Context) ([]byte, error) { return w.means.ReadRaw(ctx, means.Path) },
			Write: func(raw []byte) error { return w.means.WriteRaw(means.Path, raw) },
		})
	}
	return out
}

func (w *centring) Reuses() bool                { return false }
func (w *centring) Prepare(int64) (bool, error) { return false, nil }
func (w *centring) Bytes() uint64               { return w.means.Bytes() + w.never.Bytes() }
func (w *centring) Release()                    { w.means.Release(); w.never.Release() }
