package optim

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
)

// factoredState is factoredRMS at work. An update is, for each group, in each slab the partial sums of all tiles and their folding
// into the statistics; then the means by which rows are divided; then in each slab the scaling of all tiles.
type factoredState struct {
	*gpu.Set
	factoredRMS
	groups           []factoredBuffers
	grouped          bool        // a mean is of a workgroup, not of an invocation, which software adapters prefer
	scalars          *gpu.Buffer // beta, 1-beta, eps
	rowSums, colSums *gpu.Buffer // partial sums of one slab of one group
}

// factoredBuffers is a group with what it has on the device.
type factoredBuffers struct {
	factoredGroup
	values, carry, means, matrices *gpu.Buffer
	vector, scalar                 []*gpu.Buffer // a slab; nil where there are none
	vectorFolds, scalarFolds       []*gpu.Buffer
}

func (f factoredRMS) Open(s Scene) (Operation, error) {
	w := &factoredState{Set: s.Device.NewSet("gputrain.optim.adafactor"), factoredRMS: f, grouped: f.grouped || !s.Device.Limits().Software}
	groups, err := groupLeaves(s.Leaves, s.Chosen, len(s.Layout.Slabs()), s.Device.Limits())
	if err != nil {
		return nil, err
	}
	if err := w.allocate(groups); err != nil {
		w.Release()
		return nil, err
	}
	return w, nil
}

func (w *factoredState) allocate(groups []factoredGroup) error {
	buffer := func(name string, n int) *gpu.Buffer { return w.Zeros(name, 4*uint64(n)) }
	table := func(name string, data []uint32) *gpu.Buffer {
		if len(data) == 0 {
			return nil
		}
		return w.Filled(name, data)
	}
	rowSums, colSums := 0, 0
	for _, g := range groups {
		b := factoredBuffers{factoredGroup: g, values: buffer("values", g.size), means: buffer("means", len(g.matrices)/4)}
		carry := 4 // a kernel binds a vec4 at least
		if g.carries {
			carry = g.size
		}
		b.carry, b.matrices = buffer("carry", carry), table("matrices", g.matrices)
		for _, s := range g.slabs {
			b.vector = append(b.vector, table("tiles", s.vector))
			b.scalar = append(b.scalar, table("tiles", s.scalar))
			b.vectorFolds = append(b.vectorFolds, table("folds", s.vectorFolds))
			b.scalarFolds = append(b.scalarFolds, table("folds", s.scalarFolds))
			rowSums, colSums = max(rowSums, s.rowSums), max(colSums, s.colSums)
		}
		w.groups = append(w.groups, b)
	}
	w.rowSums, w.colSums = buffer("row_sums", rowSums), buffer("col_sums", colSums)
	w.scalars = w.Uniform("scalars", 16)
	return w.Err()
}

func (w *factoredState) Reuses() bool { return false }

func (w *factoredState) Prepare(t int64) (bool, error) {
	return false, w.Device().Write(w.scalars.All(), gpu.Bytes([4]float32{float32(1 - w.rest(t)), float32(w.rest(t)), float32(w.Eps)}))
}

func (w *factoredState) Record(rec *gpu.Recording, c OperatorCall) {
	for _, g := range w.groups {
		for slab := range g.slabs {
			w.recordTiles(rec, g, slab, "sums", c.Updates, w.rowSums.All(), w.colSums.All())
			w.recordFolds(rec, g, "vec4<f32>", g.vectorFolds[slab], c.Flag)
			w.recordFolds(rec, g, "f32", g.scalarFolds[slab], c.Flag)
		}
		w.recordMeans(rec, g)
		for slab := range g.slabs {
			w.recordTiles(rec, g, slab, "scale", c.Updates, g.values.All(), g.values.All(), g.means.All())
		}
	}
}

// recordTiles records a kernel over all tiles of a group in a slab: "sums", which writes both arrays, or "scale", which reads all.
func (w *factoredState) recordTiles(rec *gpu.Recording, g factoredBuffers, slab int, name string, updates *buffers.Tree, arrays ...gpu.Range) {
	for _, vector := range []bool{true, false} {
		table, tiles, constants := g.vector[slab], len(g.slabs[slab].vector)/tileWords, map[string]string{"T": "vec4<f32>", "ACROSS": fmt.Sprint(vectorTile)}
		if !vector {
			table, tiles, constants = g.scalar[slab], len(g.slabs[slab].scalar)/tileWords, map[string]string{"T": "f32", "ACROSS": fmt.Sprint(scalarTile)}
		}
		if table == nil {
			continue
		}
		var flags map[string]bool
		if name == "sums" {
			flags = map[string]bool{"VECTOR": vector}
		}
		k := operatorKernel("adafactor_"+name, "adafactor_"+name, flags, constants)
		rec.Dispatch(k, gpu.Linear(uint64(tiles), lanes, w.Device().Limits()), uint32(tiles), append([]gpu.Range{updates.Slab(slab), table.All()}, arrays...)...)
	}
}

// recordFolds records the folding of a slab's partial sums, of which an invocation takes an element.
func (w *factoredState) recordFolds(rec *gpu.Recording, g factoredBuffers, element string, table *gpu.Buffer, flag gpu.Range) {
	if table == nil {
		return
	}
	skip := flag.Bytes > 0
	bind := []gpu.Range{w.scalars.All(), table.All(), w.rowSums.All(), w.colSums.All(), g.carry.All(), g.values.All()}
	if skip {
		bind = append(bind, flag)
	}
	k := operatorKernel("adafactor_fold", "adafactor_fold", map[string]bool{"SKIP": skip}, map[string]string{"T": element})
	blocks := table.Bytes() / (4 * foldWords)
	rec.Dispatch(k, gpu.Linear(blocks, 1, w.Device().Limits()), uint32(blocks), bind...)
}

// recordMeans records the means of all matrices.
func (w *factoredState) recordMeans(rec *gpu.Recording, g factoredBuffers) {
	k := operatorKernel("adafactor_means", "adafactor_means", map[string]bool{"GROUP": w.grouped, "VECTOR": false}, map[string]string{"T": "f32"})
	matrices, each := uint64(len(g.factoredGroup.matrices)/4), lanes
	if w.grouped {
		each = 1
	}
	rec.Dispatch(k, gpu.Linear(matrices, each, w.Device().Limits()), uint32(matrices), g.matrices.All(), g.values.All(), g.means.All())
}

func (w *factoredState) Tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, g := range w.groups {
		for _, l := range g.leaves {
			first, second := largestAxes(l.Shape)
			row := w.tensor("v_row/"+l.Path, without(l.Shape, first), g.values, l.byRow)
			col := w.tensor("v_col/"+l.Path, without(l.Shape, second), g.values, l.byCol)
			if !l.rowsFirst {
				row = w.tensor("v_row/"+l.Path, without(l.Shape, first), g.values, l.byCol)
				col = w.tensor("v_col/"+l.Path, without(l.Shape, second), g.values, l.byRow)
			}
			out = append(out, row, col)
		}
	}
	return out
}

func (w *factoredState) tensor(name string, shape []int, b *gpu.Buffer, at int) buffers.Tensor {
	return rangeTensor(w.Device(), name, shape, b, at)
}

// rangeTensor is a tensor in f32 that lies in one place, from an element of a buffer on.
func rangeTensor(dev *gpu.Device, name string, shape []int, b *gpu.Buffer, at int) buffers.Tensor {
	r := b.Range(4*uint64(at), 4*uint64(buffers.Leaf{Shape: shape}.Elements()))
	return buffers.Tensor{
		Name: name, DType: buffers.F32, Shape: shape,
		Read: func(ctx context.Context) ([]byte, error) {
			data := make([]byte, r.Bytes)
			return data, dev.Read(ctx, data, r)
		},
		Write: func(raw []byte) error {
			if uint64(len(raw)) != r.Bytes {
				return fmt.Errorf("optim: tensor %q: found %d bytes, wanted %d", name, len(raw), r.Bytes)
			}
			return dev.Write(r, raw)
		},
	}
}
