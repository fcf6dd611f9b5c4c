package optim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	index         int // of an updateJob: the segment; of a measureJob: which; of a rowsJob and an apartJob: the step
	grads, params buffers.DType
}

type jobKind int

const (
	updateJob  jobKind = iota // all elements of a segment; stores state and the update, the last one params
	collectJob                // the accumulation alone; stores it
	measureJob                // the elements before a measurement; stores partial sums
	rowsJob                   // the elements before a step with a rowRule; stores sums by rows
	apartJob                  // the kernel of its own of a step; stores params
)

const (
	lanes     = 64 // invocations a workgroup, a vec4 each
	normSteps = 32 // vec4s that an invocation of the norm kernel sums at most
)

// operand is a tree as a kernel binds it. Gradients, params and the update between segments have places below the
// state's.
type operand struct {
	name    string
	place   int
	dtype   buffers.DType
	route   int // the route whose layout the tree has; -1: the params' layout
	stored  bool
	written bool // not read
	slot    Slot // of a tree of the state
}

const (
	updatesPlace = -3
	paramsPlace  = -2
	gradsPlace   = -1
)

// fused is a kernel and what it binds after its params: scalars, trees, table, statistics, pairs of leaves, partial sums.
type fused struct {
	kernel   *gpu.Kernel
	operands []operand
	coded    bool // some are in eight bits
}

// A fusion is a fused kernel in the making.
type fusion struct {
	plan       *plan
	job        job
	segment    segment
	operands   []operand
	routes     map[int]bool
	body       strings.Builder
	statistics bool
	pairs      bool
}

var placeholder = regexp.MustCompile(`\$[a-z0-9_]+`)

// fuse writes the kernel of a job.
func (p *plan) fuse(j job) *fused {
	f := &fusion{plan: p, job: j, routes: map[int]bool{}}
	before := 0
	switch j.kind {
	case updateJob:
		f.segment = p.segments[j.index]
	case measureJob:
		before = p.measured[j.index].before
		f.segment = p.segments[p.segmentOf(before)]
	case rowsJob:
		before = j.index
		f.segment = p.segments[p.segmentOf(before)]
	}
	ofParams := j.kind == measureJob && p.measured[j.index].params
	switch {
	case j.kind == apartJob:
		f.use(operand{name: "p", place: paramsPlace, dtype: j.params, route: -1, stored: true})
	case ofParams:
		f.use(operand{name: "g", place: paramsPlace, dtype: j.params, route: -1})
	case f.segment.first == 0:
		f.use(operand{name: "g", place: gradsPlace, dtype: j.grads, route: -1})
	default:
		f.use(operand{name: "g", place: updatesPlace, dtype: buffers.F32, route: -1})
	}
	switch j.kind {
	case updateJob:
		if f.segment.last {
			f.use(operand{name: "p", place: paramsPlace, dtype: j.params, route: -1, stored: true})
		}
		f.add(p.within(f.segment, f.segment.end), !f.segment.aside)
		if !f.segment.last {
			f.use(operand{name: "next", place: updatesPlace, dtype: buffers.F32, route: -1, stored: true, written: true})
		}
		f.statistics = f.statistics || p.transform.skip
	case collectJob:
		only := p.steps[0]
		only.WGSL = collect
		f.add([]step{only}, true)
	case apartJob:
		only := p.steps[j.index]
		only.WGSL = only.apart
		f.add([]step{only}, false)
	case measureJob:
		if !ofParams {
			f.add(p.within(f.segment, before), false)
		}
	case rowsJob:
		f.add(p.within(f.segment, before), false)
		f.use(operand{name: "p", place: paramsPlace, dtype: j.params, route: -1})
	}
	return f.kernel()
}

// add puts the elements of steps into the body.
func (f *fusion) add(steps []step, stored bool) {
	for _, s := range steps {
		text := placeholder.ReplaceAllStringFunc(s.WGSL, func(name string) string { return f.replace(s, name[1:], stored) })
		if s.rows != nil {
			n := s.firstColumn + len(s.columns) - 3
			text = fmt.Sprintf(rowLookup, n, n+1, n+2) + text
		}
		condition := ""
		if s.route >= 0 {
			f.routes[s.route] = true
			condition = fmt.Sprintf("if (route_%d) ", s.route)
		}
		fmt.Fprintf(&f.body, "%s{ // %s\n%s\n}\n", condition, s.Name, text)
	}
}

// replace gives the WGSL of a name of an element.
func (f *fusion) replace(s step, name string, stored bool) string {
	switch name {
	case "p":
		return f.use(operand{name: "p", place: paramsPlace, dtype: f.job.params, route: -1})
	case "left":
		if !f.plan.transform.skip {
			return "false"
		}
		f.statistics = true
		return "(statistics[0].y != 0u)"
	case "norm":
		f.statistics = true
		return fmt.Sprintf("bitcast<f32>(statistics[%d].x)", s.norm)
	case "bad":
		f.statistics = true
		return fmt.Sprintf("(statistics[%d].y != 0u)", s.norm)
	case "row_pull", "row_stretch":
		return name
	case "leaf_squares":
		return f.leafSquares(s.leafSum)
	case "param_squares":
		return f.leafSquares(s.paramSum)
	}
	for i, slot := range s.Slots {
		if slot.Name == name {
			return f.use(operand{
				name: s.slotNames[i], place: s.firstSlot + i, dtype: slot.DType, route: s.route, stored: stored, slot: slot,
			})
		}
	}
	for i, c := range s.Scalars {
		if c.Name == name {
			return "bitcast<f32>(" + scalarWord(s.firstScalar+i) + ")"
		}
	}
	for i, c := range s.columns {
		if c.name == name {
			return fmt.Sprintf("bitcast<f32>(table[values + %du])", s.firstColumn+i)
		}
	}
	panic("optim: fuse: " + s.Name + ": unknown name $" + name)
}

func (f *fusion) leafSquares(measurement int) string {
	f.pairs = true
	return fmt.Sprintf("bitcast<f32>(pairs[%du * params.leaves + (block >> 8u)].x)", measurement)
}

// use binds a tree, once, and gives the variable that holds it.
func (f *fusion) use(o operand) string {
	for i, have := range f.operands {
		if have.place == o.place {
			f.operands[i].stored = have.stored || o.stored
			return have.name
		}
	}
	f.operands = append(f.operands, o)
	return o.name
}

// scalarWord is word i of the step's uniform.
func scalarWord(i int) string { return fmt.Sprintf("scalars.words[%d].%c", i/4, "xyzw"[i%4]) }

// kernel puts the parts into the source file of the job's kind.
func (f *fusion) kernel() *fused {
	bindings := ""
	bind := func(access gpu.Access, name, kind string) {
		bindings += fmt.Sprintf("@bind var<storage, %s> %s: array<%s>;\n", access, name, kind)
	}
	loads, tops, stores, codes := "var u = g;\n", "", "", false
	if f.job.kind == apartJob {
		loads = "var u = vec4<f32>(0.0);\n"
	}
	for _, o := range f.operands {
		access, kind := gpu.Read, "vec4<f32>"
		if o.stored {
			access = gpu.ReadWrite
			stores += f.store(o)
		}
		switch o.dtype {
		case buffers.BF16:
			kind = "vec2<u32>"
		case buffers.U8:
			kind, codes = "u32", true
			tops += top(o)
		}
		bind(access, o.name+"_data", kind)
		if !o.written {
			loads = load(o) + loads
		}
	}
	if codes {
		loads = fmt.Sprintf(atCodes, f.plan.codesWord()) + loads
	}
	bind(gpu.Read, "table", "u32")
	if f.statistics {
		bind(gpu.Read, "statistics", "vec4<u32>")
	}
	if f.pairs {
		bind(gpu.Read, "pairs", "vec2<u32>")
	}
	constants := map[string]string{
		"LOADS": f.memberships() + loads, "BODY": f.body.String(), "LANES": fmt.Sprint(lanes),
		"SCALARS": fmt.Sprint(f.plan.uniformBytes() / 16),
	}
	file := "optim_update"
	switch f.job.kind {
	case measureJob:
		file = "optim_norm"
		bind(gpu.ReadWrite, "partials", "vec2<u32>")
	case rowsJob:
		file = "optim_rows"
		bind(gpu.ReadWrite, "row_sums", "vec4<f32>")
	default:
		if codes {
			bindings += workgroupTops(f.operands)
			stores = tops + "workgroupBarrier();\nif (used > 0) {\n" + stores + "}"
		}
		constants["STORES"] = stores
	}
	constants["BINDINGS"] = bindings
	v := shaders.Variant{Flags: map[string]bool{"CODED": codes}, Constants: constants}
	label := "gputrain.optim." + f.label()
	if codes {
		label += "_8bit"
	}
	return &fused{gpu.NewKernel(label, file, v), f.operands, codes}
}

func (f *fusion) label() string {
	return [...]string{updateJob: "update", collectJob: "collect", measureJob: "norm", rowsJob: "rows", apartJob: "apart"}[f.job.kind]
}

// memberships declares, for each route that the kernel's elements are on, whether the leaf at hand is on it, and which vec4 of the
// route's own trees goes with i.
func (f *fusion) memberships() string {
	var b strings.Builder
	for _, route := range slices.Sorted(maps.Keys(f.routes)) {
		fmt.Fprintf(&b, "let route_%d = table[values + %du] != 0u;\n", route, f.plan.columns+route)
		fmt.Fprintf(&b, "let i_%d = table[entry + %du] * 32u + (i & 31u);\n", route, f.plan.routeWord(route))
	}
	return b.String()
}
