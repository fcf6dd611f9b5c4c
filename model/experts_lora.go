package model

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// Adapters of experts lie stacked, A [experts, rank, in] and B [experts, out, rank]. PEFT has them in one of two ways. Where experts are modules
// (mlp.experts.3.gate_proj) each has two matrices of its own. Where the matrices of all are one parameter (mlp.experts.gate_up_proj, target_parameters), A is
// [experts * rank, in], and B [out, rank * experts] with experts the faster; of two parameters of a module the second has the module's name, the first that
// of its base_layer.

// expertsModule is the module with all experts of a layer, below it.
const expertsModule = "mlp.experts"

// adapters are those that the matrices at path, which lie below name in files, may have.
func (e *experts) adapters(path, name string, shape []int) []adapter {
	whole := adapter{module: name, weight: path, conv: e.clamped != nil, out: shape[1], in: shape[2], experts: e.count}
	if whole.conv {
		whole.in, whole.out = whole.out, whole.in
	}
	down := strings.HasSuffix(path, expertsDown)
	if whole.apart = e.pieces && down; !e.pieces || down {
		return []adapter{whole}
	}
	begin := strings.TrimSuffix(name, "gate_up_proj")
	gate, up := whole, whole
	gate.module, gate.apart, gate.out = begin+"gate_proj", true, e.width
	up.module, up.apart, up.out, up.first = begin+"up_proj", true, e.width, e.width
	return []adapter{whole, gate, up}
}

// adaptExperts adds to y, the products of rows x with the matrices at path, what their adapters give, by products for each expert like that of by.
func (b *Builder) adaptExperts(e *experts, y, x *graph.Value, path string, by graph.RaggedMatMul, offsets *graph.Value) *graph.Value {
	if b.o.expert == nil && b.o.adapted == nil || len(y.Shape()) != 2 {
		return y
	}
	by.TransW = true
	multiply := func(x *graph.Value, w string) *graph.Value { return b.Append(by, x, b.master(w), offsets).Outputs[0] }
	for _, may := range e.adapters(path, families[b.def.Kind()].name(path, true), b.shapes[path]) {
		if b.o.expert != nil {
			b.o.expert(may)
		}
		a := b.adapterOf(func(a adapter) bool { return a.weight == path && a.module == may.module })
		if a == nil {
			continue
		}
		low := b.Scale(multiply(b.dropout(x, b.o.adapted.lora.Dropout), a.a()), a.scale)
		y = b.Add(y, b.Pad(multiply(low, a.b()), 1, a.first, y.Shape()[1]-a.first-a.out))
	}
	return y
}

// names are those of the modules that PEFT has in place of an adapter's: of experts that are modules each its own.
func (a adapter) names() []string {
	if !a.apart {
		return []string{a.module}
	}
	at := strings.LastIndexByte(a.module, '.')
	names := make([]string, a.experts)
	for i := range names {
		names[i] = fmt.Sprintf("%s.%d%s", a.module[:at], i, a.module[at:])
	}
	return names
}

// parameter tells whether PEFT has the adapter by target_parameters.
func (a adapter) parameter() bool { return a.experts > 0 && !a.apart }

// behind tells whether o's parameter, which has an adapter, stands behind a's in their module.
func (a adapter) behind(o adapter) bool {
	return strings.HasSuffix(a.weight, expertsDown) && strings.HasSuffix(o.weight, expertsGateUp) && strings.TrimSuffix(a.weight, expertsDown) == strings.TrimSuffix(o.weight, expertsGateUp)
}

// expertsWeight is what files call the parameter of an adapter's module.
func expertsWeight(module string) string {
	layer, of, experts := strings.Cut(module, "."+expertsModule+".")
	switch {
	case !experts:
		return module + ".weight"
	case of == "down_proj":
		return layer + "." + expertsDown
	}
	return layer + "." + expertsGateUp
}

// shapes are those of A and B, as they lie here.
func (a adapter) shapes() (down, up []int) {
	down, up = []int{a.rank, a.in}, []int{a.out, a.rank}
	if a.experts > 0 {
		return append([]int{a.experts}, down...), append([]int{a.experts}, up...)
	}
	return down, up
}

// inFiles gives A and B the names and shapes that files have them by; nested: the module has another parameter with an adapter behind this one.
func (a adapter) inFiles(down, up *Param, nested bool) {
	switch {
	case a.apart:
		for _, name := range a.names() {
			of := adapter{module: name}
			down.pieces = append(down.pieces, piece{of.a(), down.Shape[1:]})
			up.pieces = append(up.pieces, piece{of.b(), up.Shape[1:]})
		}
	case a.experts > 0:
		of := adapter{module: a.module[:strings.LastIndexByte(a.module, '.')]}
		if nested {
			of.module += ".base_layer"
		}
		down.pieces = []piece{{of.a(), []int{a.experts * a.rank, a.in}}}
		up.pieces, up.across = []piece{{of.b(), []int{a.out, a.rank * a.experts}}}, true
	}
}

// expertFaults refuses adapters of experts that are not known here.
func (m *adapted) expertFaults() error {
	for _, a := range m.modules {
		switch {
		case a.experts == 0:
		case m.lora.DoRA:
			return fmt.Errorf("model: lora: dora: found %q among the targets, wanted matrices that are no experts': of those PEFT has no dora that keeps their lengths stacked", a.module)
		case m.lora.Dropout > 0 && a.parameter():
			return fmt.Errorf("model: lora: dropout: found %v and an adapter of %q, wanted 0: PEFT has no dropout where the matrices of all experts are one parameter", m.lora.Dropout, a.module)
		case a.parameter() && slices.ContainsFunc(m.modules, func(o adapter) bool { return o.apart && o.weight == a.weight }):
			return fmt.Errorf("model: lora: target: found %q beside adapters of its parts, wanted one of both", a.module)
		}
	}
	return nil
}

// same is what of gives for all modules of PEFT's that an adapter stands for.
func same[T comparable](key string, a adapter, of func(module string) (T, error)) (value T, err error) {
	for i, name := range a.names() {
		v, err := of(name)
		if err != nil {
			return value, err
		}
		if i > 0 && v != value {
			return value, fmt.Errorf("model: lora: %s: %q: found %v and, of expert 0, %v, wanted one for all experts of a layer: they lie stacked", key, name, v, value)
		}
		value = v
	}
	return value, nil
}

// acrossExperts puts B of all experts as files have it, [out, rank, experts], the experts first, or back.
func acrossExperts(data []float32, experts, out, rank int, back bool) []float32 {
	to := make([]float32, len(data))
	for e := range experts {
		for o := range out {
			for k := range rank {
				file, here := (o*rank+k)*experts+e, (e*out+o)*rank+k
				if back {
					file, here = here, file
				}
				to[here] = data[file]
			}
		}
	}
	return to
}

// joinedAs is a parameter of tensors that are its pieces.
func (p Param) joinedAs(parts []array.Tensor) array.Tensor {
	read := readPieces(parts)
	if p.across {
		whole := sync.OnceValues(func() ([]float32, error) {
			data := make([]float32, elements(p.Shape))
			err := readPieces(parts)(data, 0)
			return acrossExperts(data, p.Shape[0], p.Shape[1], p.Shape[2], false), err
		})
		read = func(dst []float32, first int) error {
			data, err := whole()
			if err == nil {
				copy(dst, data[first:])
			}
			return err
		}
	}
	return array.Tensor{DType: parts[0].DType, Host: array.Host{Path: p.Path, Shape: p.Shape, Read: read}}
}

// stacked puts the tensors of a PEFT file that are pieces of parameters together, where it has all of them in the shapes that are wanted.
func (m adapted) stacked(in []array.Tensor) (out []array.Tensor) {
	family, at, used := families[m.Kind()], map[string]int{}, map[int]bool{}
	for i, t := range in {
		at[family.tensorPath(t.Path)] = i
	}
	var joined []array.Tensor
	for _, p := range m.own() {
		var parts []array.Tensor
		for _, piece := range p.pieces {
			if i, ok := at[piece.path]; ok && slices.Equal(in[i].Shape, piece.shape) && encoders[in[i].DType] != nil {
				parts = append(parts, in[i])
			}
		}
		if _, whole := at[p.Path]; whole || len(parts) == 0 || len(parts) < len(p.pieces) {
			continue
		}
		for _, piece := range p.pieces {
			used[at[piece.path]] = true
		}
		joined = append(joined, p.joinedAs(parts))
	}
	for i, t := range in {
		if !used[i] {
			out = append(out, t)
		}
	}
	return append(out, joined...)
}

// mergeExperts adds to the matrices w of all experts what the adapter has.
func (a adapter) mergeExperts(w []float32, read func(path string) ([]float32, error)) error {
	down, err := read(a.a())
	if err != nil {
		return err
	}
	up, err := read(a.b())
	if err != nil {
		return err
	}
	each := len(w) / a.experts
	for e := range a.experts {
		of := w[e*each : (e+1)*each]
		if !a.conv {
			of = of[a.first*a.in : (a.first+a.out)*a.in]
		}
		err := a.merge(of, false, func(path string) ([]float32, error) {
			if path == a.a() {
				return down[e*a.rank*a.in : (e+1)*a.rank*a.in], nil
			}
			return up[e*a.out*a.rank : (e+1)*a.out*a.rank], nil
		})
		if err != nil {
			return fmt.Errorf("expert %d: %w", e, err)
		}
	}
	return nil
}
