package optim

import (
	"fmt"
	"regexp"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// A fused kernel is several elements in one body: every tree is loaded once, the running update u goes through
// the elements, every tree is stored once. Elements say $name; here the names become variables, words of the
// uniform and entries of the per-leaf table.

// job says which kernel of a plan is wanted, for trees of which dtypes.
type job struct {
	kind          jobKind
	norm          int // of a normJob: which
	grads, params buffers.DType
}

type jobKind int

const (
	updateJob  jobKind = iota // all elements; stores state and params
	collectJob                // the accumulation alone; stores it
	normJob                   // the elements before a norm; stores partial sums
)

const (
	lanes     = 64 // invocations a workgroup, a vec4 each
	normSteps = 32 // vec4s that an invocation of the norm kernel sums
)

// operand is a tree as a kernel binds it. Gradients and params have places below those of the state.
type operand struct {
	name   string
	place  int
	dtype  buffers.DType
	stored bool
	dither bool
}

const (
	paramsPlace = -2
	gradsPlace  = -1
)

// fused is a kernel and what it binds after its params: scalars, trees, table, statistics, partial sums.
type fused struct {
	kernel     *gpu.Kernel
	operands   []operand
	statistics bool
	partials   bool
}

// A fusion is a fused kernel in the making.
type fusion struct {
	plan       *plan
	job        job
	operands   []operand
	body       strings.Builder
	statistics bool
}

var placeholder = regexp.MustCompile(`\$[a-z0-9_]+`)

// fuse writes the kernel of a job.
func (p *plan) fuse(j job) (*fused, error) {
	f := &fusion{plan: p, job: j}
	f.use(operand{name: "g", place: gradsPlace, dtype: j.grads})
	switch j.kind {
	case updateJob:
		f.use(operand{name: "p", place: paramsPlace, dtype: j.params, stored: true})
		f.add(p.steps, true)
		f.statistics = f.statistics || p.transform.skip
	case collectJob:
		only := p.steps[0]
		only.wgsl = collect
		f.add([]step{only}, true)
	case normJob:
		f.add(p.steps[:p.norms[j.norm]], false)
	}
	return f.kernel()
}

// add puts the elements of steps into the body.
func (f *fusion) add(steps []step, stored bool) {
	for _, s := range steps {
		text := placeholder.ReplaceAllStringFunc(s.wgsl, func(name string) string { return f.replace(s, name[1:], stored) })
		fmt.Fprintf(&f.body, "{ // %s\n%s\n}\n", s.name, text)
	}
}

// replace gives the WGSL of a name of an element.
func (f *fusion) replace(s step, name string, stored bool) string {
	switch name {
	case "p":
		return f.use(operand{name: "p", place: paramsPlace, dtype: f.job.params})
	case "norm":
		f.statistics = true
		return fmt.Sprintf("bitcast<f32>(statistics[%d].x)", s.norm)
	case "bad":
		f.statistics = true
		return fmt.Sprintf("(statistics[%d].y != 0u)", s.norm)
	}
	for i, slot := range s.slots {
		if slot.name == name {
			return f.use(operand{name: s.slotNames[i], place: s.firstSlot + i, dtype: slot.dtype, stored: stored, dither: slot.dither})
		}
	}
	for i, c := range s.scalars {
		if c.name == name {
			return "bitcast<f32>(" + scalarWord(s.firstScalar+i) + ")"
		}
	}
	for i, c := range s.columns {
		if c.name == name {
			return fmt.Sprintf("bitcast<f32>(table[values + %du])", s.firstColumn+i)
		}
	}
	panic("optim: fuse: " + s.name + ": unknown name $" + name)
}

// use binds a tree, once, and gives the variable that holds it.
func (f *fusion) use(o operand) string {
	for i, have := range f.operands {
		if have.place == o.place {
			f.operands[i].stored = have.stored || o.stored
			return o.name
		}
	}
	f.operands = append(f.operands, o)
	return o.name
}

// scalarWord is word i of the step's uniform.
func scalarWord(i int) string { return fmt.Sprintf("scalars.words[%d].%c", i/4, "xyzw"[i%4]) }

// kernel puts the parts into the source file of the job's kind.
func (f *fusion) kernel() (*fused, error) {
	file := "optim_update.wgsl"
	if f.job.kind == normJob {
		file = "optim_norm.wgsl"
	}
	out := &fused{operands: f.operands, statistics: f.statistics, partials: f.job.kind == normJob}
	bindings := []gpu.Binding{{Name: "params", Access: gpu.Uniform}, {Name: "scalars", Access: gpu.Uniform}}
	loads, stores := "var u = g;\n", ""
	for _, o := range f.operands {
		access := gpu.Read
		if o.stored {
			access = gpu.ReadWrite
			stores += f.store(o)
		}
		bindings = append(bindings, gpu.Binding{Name: o.name + "_data", Access: access})
		value := o.name + "_data[i]"
		if o.dtype == buffers.BF16 {
			value = "bf16_unpack4(" + value + ")"
		}
		keyword := "var"
		if o.place < 0 {
			keyword = "let"
		}
		loads = fmt.Sprintf("%s %s = %s;\n", keyword, o.name, value) + loads
	}
	bindings = append(bindings, gpu.Binding{Name: "table", Access: gpu.Read})
	if f.statistics {
		bindings = append(bindings, gpu.Binding{Name: "statistics", Access: gpu.Read})
	}
	constants := map[string]string{
		"LOADS": loads, "BODY": f.body.String(), "LANES": fmt.Sprint(lanes),
		"SCALARS": fmt.Sprint(f.plan.uniformBytes() / 16), "STRIDE": fmt.Sprint(f.plan.stride()), "COLUMNS": fmt.Sprint(f.plan.columns),
	}
	if out.partials {
		bindings = append(bindings, gpu.Binding{Name: "partials", Access: gpu.ReadWrite})
		constants["STEPS"] = fmt.Sprint(normSteps)
	} else {
		constants["STORES"] = stores
	}
	constants["BINDINGS"] = declare(bindings[2:], f.operands)
	source, err := shaders.Source(file, shaders.Variant{Constants: constants})
	if err != nil {
		return nil, fmt.Errorf("optim: fuse: %w", err)
	}
	out.kernel = &gpu.Kernel{
		Label: "gputrain.optim." + f.label(), Source: source, Bindings: bindings, Workgroup: [3]int{lanes, 1, 1},
	}
	return out, nil
}

func (f *fusion) label() string {
	return [...]string{updateJob: "update", collectJob: "collect", normJob: "norm"}[f.job.kind]
}

// store writes a tree back. Padding stays zero, and a parameter that gets no update keeps every bit.
func (f *fusion) store(o operand) string {
	value := o.name
	if o.place == paramsPlace {
		value = "select(p + u, p, u == vec4<f32>(0.0))"
	}
	value = "select(vec4<f32>(0.0), " + value + ", live)"
	switch {
	case o.dither:
		value = fmt.Sprintf("optim_dither(%s, table[entry + 1u], %s, %du, table[entry + 2u] + (i & 31u))",
			value, scalarWord(f.plan.scalars), o.place)
	case o.dtype == buffers.BF16:
		value = "bf16_pack4(" + value + ")"
	}
	text := fmt.Sprintf("%s_data[i] = %s;\n", o.name, value)
	accumulation := f.plan.transform.accumulate > 1 && o.place == 0 // is reset all the same
	if f.plan.transform.skip && f.job.kind == updateJob && !accumulation {
		text = "if (statistics[0].y == 0u) { " + text + "}\n"
	}
	return text
}

// declare writes the storage bindings, which follow the two uniforms.
func declare(bindings []gpu.Binding, operands []operand) string {
	var b strings.Builder
	for i, binding := range bindings {
		kind := map[string]string{"table": "u32", "statistics": "vec4<u32>", "partials": "vec2<u32>"}[binding.Name]
		if i < len(operands) {
			kind = "vec4<f32>"
			if operands[i].dtype == buffers.BF16 {
				kind = "vec2<u32>"
			}
		}
		fmt.Fprintf(&b, "@group(0) @binding(%d) var<storage, %s> %s: array<%s>;\n", i+2, binding.Access, binding.Name, kind)
	}
	return b.String()
}
