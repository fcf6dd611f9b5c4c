package pipeline

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/internal/schedule"
	"gputrain/state"
)

// A line is a cut with a schedule, and, once it is built, its programs on the stages: it takes the microbatches of a batch through all parts.
type line struct {
	label      string
	cut        *cut
	schedule   *schedule.Schedule
	accumulate bool                                // gradients are added to, instead of overwritten
	caches     []*graph.Value                      // inputs that lie on the stages, for all lines that have them
	mesh       *mesh.Mesh                          // that the stages are on
	blamed     func(doing string, err error) error // see passes.blame
	tag        transport.Tag                       // of the next link between ranks

	stages  []*stage
	parts   []*linePart
	wires   []*wire
	results []*result
	fences  []*fence
	buffers []*gpu.Buffer
	workers []*worker // of the run under way, by stage; nil for those on other ranks
}

// linePart is a part at work. A value that is read later than in the pass that it came with, or was made by, has a place for each microbatch in
// flight, a slot; any other has one place.
type linePart struct {
	*part
	index    int
	merged   bool // forward and backward are one program
	slots    int
	sum      func(microbatch int) *gpu.Program // behind its backward pass; nil where nothing is
	zero     *gpu.Program                      // overwrites its gradients with zeros; nil where passes add to them
	places   map[*graph.Value][]gpu.Range
	programs map[*pass][]*passProgram // by slot
}

// passProgram is a pass of a part for one slot.
type passProgram struct {
	program *compile.Program
	run     *gpu.Program
}

// newLine puts a cut and a schedule together; it takes nothing of a device.
func newLine(label string, c *cut, s *schedule.Schedule) *line {
	l := &line{label: label, cut: c, schedule: s}
	for i, p := range c.Parts {
		l.parts = append(l.parts, &linePart{part: p, index: i, merged: p.Backward != nil && s.Merged(i), slots: max(1, s.Slots(i))})
	}
	return l
}

// passes are those that a part runs.
func (p *linePart) passes() []*pass {
	switch {
	case p.Backward == nil:
		return []*pass{p.Forward}
	case p.merged:
		return []*pass{p.Whole}
	}
	return []*pass{p.Forward, p.Backward}
}

// copies is the number of programs of each pass, and of places of a saved value.
func (p *linePart) copies() int {
	if p.Backward == nil || p.merged {
		return 1
	}
	return p.slots
}

// placesOf is how many places a value has in a part.
func (p *linePart) placesOf(v *graph.Value) int {
	if !p.merged && slices.Contains(p.Saved, v) {
		return p.slots
	}
	return 1
}

// values are those with places: given to a pass or made by one.
func (p *linePart) values() []*graph.Value {
	var out []*graph.Value
	for _, pass := range p.passes() {
		for _, v := range slices.Concat(pass.Given, pass.Made) {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// stageOf is where a part lives.
func (l *line) stageOf(part int) *stage { return l.stages[part%len(l.stages)] }

// build makes everything that running the line needs on its stages.
func (l *line) build(ctx context.Context, stages []*stage, newLink linkMaker) error {
	l.stages = stages
	for _, p := range l.parts {
		if err := l.buildPart(ctx, p); err != nil {
			return l.stageOf(p.index).failed(fmt.Sprintf("%s of part %d", l.label, p.index), err)
		}
	}
	for _, e := range l.cut.Edges {
		w, err := l.newWire(ctx, e, newLink)
		if err != nil {
			return l.stageOf(e.From).failed(fmt.Sprintf("%s to part %d", e.Kind, e.To), err)
		}
		l.wires = append(l.wires, w)
	}
	if err := l.buildResults(ctx); err != nil {
		return err
	}
	for _, s := range stages {
		t, err := newFence(ctx, l.label, s)
		if err != nil {
			return s.failed(l.label, err)
		}
		l.taken(s, fenceBytes)
		l.fences = append(l.fences, t)
	}
	return nil
}

// buffer makes a buffer that lives as long as the line.
func (l *line) buffer(s *stage, label string, bytes uint64) (*gpu.Buffer, error) {
	b, err := s.device.NewBuffer("gputrain.pipeline."+l.label+"."+label, bytes)
	if err == nil {
		l.buffers = append(l.buffers, b)
		s.memory.Activations += b.Bytes()
	}
	return b, err
}

// plans are the memory plans of the passes that run on a stage.
func (l *line) plans(ctx context.Context, s *stage) ([]compile.Plan, error) {
	var out []compile.Plan
	narrow, tables := map[string]buffers.DType{}, map[string]buffers.DType{}
	for _, tree := range buffers.Given(s.frozen, s.lent) {
		for _, leaf := range tree.Layout().Leaves() {
			switch {
			case leaf.Table:
				tables[leaf.Path] = tree.DType()
			case tree.DType() != buffers.F32:
				narrow[leaf.Path] = tree.DType()
			}
		}
	}
	for _, p := range l.parts {
		if p.index%l.schedule.Stages != s.index {
			continue
		}
		if err := l.crosses(s, p); err != nil {
			return nil, err
		}
		for _, pass := range p.passes() {
			bound := pass.Crossing()
			for _, c := range l.cachesOf(pass) {
				bound = append(bound, state.CacheInput(c))
			}
			plan, err := compile.PlanNarrow(ctx, pass.Piece.Graph, pass.Targets(), narrow, tables, s.device.Limits(), bound...)
			if err != nil {
				return nil, fmt.Errorf("part %d: %w", p.index, err)
			}
			out = append(out, plan)
		}
	}
	return out, nil
}

// cachesOf are the caches that a pass has.
func (l *line) cachesOf(p *pass) (out []*graph.Value) {
	for _, c := range l.caches {
		if p.Piece.Value(c) != nil {
			out = append(out, c)
		}
	}
	return out
}

// crosses refuses what is handed on and does not fit a buffer of the device.
func (l *line) crosses(s *stage, p *linePart) error {
	limit := s.device.Limits().BufferBytes
	for _, e := range l.cut.Edges {
		for _, v := range e.Values {
			if (e.From == p.index || e.To == p.index) && compile.Bytes(v.Type()) > limit {
				err := &gpu.LimitError{Subject: fmt.Sprintf("%v %v", v.Node(), v.Shape()), Bytes: compile.Bytes(v.Type()), Limit: limit, Name: "BufferBytes"}
				return fmt.Errorf("%v: %w; lower the batch or the context, use adapters with larger buffers or fewer stages, or if it belongs to a tied head, a model whose head is its own", e, error(err))
			}
		}
	}
	return nil
}

// taken counts what the line takes of a stage beside activations.
func (l *line) taken(s *stage, bytes uint64) {
	switch {
	case l.trains():
		s.memory.Inputs += bytes
	case len(l.caches) > 0:
		s.memory.Sampling += bytes
	default:
		s.memory.Evaluation += bytes
	}
}

// trains tells whether some part has a backward pass.
func (l *line) trains() bool {
	return slices.ContainsFunc(l.parts, func(p *linePart) bool { return p.Backward != nil })
}

func (l *line) buildPart(ctx context.Context, p *linePart) error {
	s := l.stageOf(p.index)
	p.places, p.programs = map[*graph.Value][]gpu.Range{}, map[*pass][]*passProgram{}
	for _, v := range p.values() {
		for range p.placesOf(v) {
			b, err := l.buffer(s, valueName(v), compile.Bytes(v.Type()))
			if err != nil {
				return err
			}
			p.places[v] = append(p.places[v], b.All())
		}
	}
	for slot := range p.copies() {
		for _, pass := range p.passes() {
			program, err := l.compile(ctx, s, p, pass, slot)
			if err != nil {
				return err
			}
			p.programs[pass] = append(p.programs[pass], program)
		}
	}
	return nil
}

// place is where a value lies for a microbatch.
func (p *linePart) place(v *graph.Value, microbatch int) gpu.Range {
	places := p.places[v]
	return places[microbatch%len(places)]
}

func (l *line) compile(ctx context.Context, s *stage, p *linePart, pass *pass, slot int) (*passProgram, error) {
	bind := map[string]gpu.Range{}
	for _, v := range slices.Concat(pass.Given, pass.Made) {
		bind[valueName(v)] = p.place(v, slot)
	}
	for _, c := range l.cachesOf(pass) {
		at, err := s.cache(state.CacheName(l.label, c), pass.Piece.Graph, pass.Piece.Value(c))
		if err != nil {
			return nil, err
		}
		bind[state.CacheInput(c)] = at
	}
	program, err := compile.New(ctx, s.device, pass.Piece.Graph, compile.Options{
		Label: l.label, Params: s.params, Beside: []*buffers.Tree{s.frozen, s.mirrors, s.lent}, Grads: s.grads, Targets: pass.Targets(), Accumulate: l.accumulate, Bind: bind, Arena: s.arena,
	})
	if err != nil {
		return nil, err
	}
	out := &passProgram{program: program}
	plan := program.Plan()
	l.taken(s, plan.Inputs+plan.Outputs)
	rec := s.device.Record(fmt.Sprintf("gputrain.pipeline.%s.part.%d", l.label, p.index))
	program.Record(rec)
	if out.run, err = rec.Program(ctx); err != nil {
		program.Release()
		return nil, err
	}
	l.taken(s, out.run.UniformBytes())
	return out, nil
}

// pass is what an action runs for a microbatch; none for the forward pass of a part that runs it with its backward pass, and for the backward
// pass of one that has none.
func (p *linePart) pass(a schedule.Action) *passProgram {
	pass := p.Backward
	switch {
	case p.merged && a.Kind == schedule.Forward, pass == nil && a.Kind == schedule.Backward:
		return nil
	case p.merged:
		pass = p.Whole
	case a.Kind == schedule.Forward:
		pass = p.Forward
	}
	programs := p.programs[pass]
	return programs[a.Microbatch%len(programs)]
}

// computing is an action's pass, with what takes the gradients and the results from where it has made them. Microbatches without a gradient come before the
// backward pass that follows them.
func (l *line) computing(r round, a schedule.Action, pass *passProgram) (out []*gpu.Program) {
	p, number := l.parts[a.Part], r.number(a.Microbatch)
	if a.Kind == schedule.Backward {
		out = p.idle(r.number(a.Microbatch-1)+1, number)
	}
	out = append(out, pass.run)
	if a.Kind == schedule.Backward && p.sum != nil {
		if sum := p.sum(number); sum != nil {
			out = append(out, sum)
		}
	}
	for _, r := range l.results {
		if r.Part == a.Part && l.ends(a, schedule.Forward) {
			out = append(out, r.collect[collection{number, a.Microbatch % p.copies()}])
		}
	}
	return out
}

// programs are those that an action submits at once; none for an action without a pass.
func (l *line) programs(a schedule.Action) (out []*gpu.Program) {
	pass := l.parts[a.Part].pass(a)
	if pass == nil {
		return nil
	}
	for _, in := range l.wires {
		if in.local() && in.Edge.To == a.Part && l.ends(a, in.Kind) {
			out = append(out, in.taking(a.Microbatch))
		}
	}
	out = append(out, l.computing(round{}, a, pass)...)
	for _, w := range l.wires {
		if w.Edge.From == a.Part && l.ends(a, w.Kind) {
			out = append(out, w.leaving(a.Microbatch))
		}
	}
	return append(out, l.fences[a.Part%len(l.stages)].run)
}

// result is where a named output is collected, microbatch by microbatch.
type result struct {
	output
	size    uint64 // of a microbatch's, in bytes
	buffer  *gpu.Buffer
	collect map[collection]*gpu.Program
	zero    *gpu.Program // of a line that trains: that of microbatches without a gradient
}

// buildResults makes the places of the named outputs and the programs that put them there.
func (l *line) buildResults(ctx context.Context) error {
	for _, o := range l.cut.Outputs {
		s := l.stageOf(o.Part)
		size := uint64(o.Value.Type().Elements()) * 4
		b, err := l.buffer(s, "results."+o.Name, size*uint64(l.schedule.Microbatches))
		if err != nil {
			return err
		}
		if !l.trains() { // read through the device's own buffer; those of training come with a step's metrics
			s.memory.Transfer = max(s.memory.Transfer, gpu.StagingBytes(b.Bytes()))
		}
		r := &result{output: o, size: size, buffer: b, collect: map[collection]*gpu.Program{}}
		l.results = append(l.results, r)
		if l.trains() {
			rec := s.device.Record("gputrain.pipeline.zero")
			rec.Zero(b.All())
			if r.zero, err = rec.Program(ctx); err != nil {
				return err
			}
		}
	}
	return l.collects(ctx, whole(l.schedule))
}

// collection is where a result of a microbatch goes, by the microbatch's number in the update, and the program whose it is.
type collection struct{ number, program int }

// collects makes what a round collects results with, where no round before has.
func (l *line) collects(ctx context.Context, of round) (err error) {
	for _, r := range l.results {
		p, dev := l.parts[r.Part], l.stageOf(r.Part).device
		for i := range of.order.Microbatches {
			key := collection{of.number(i), i % p.copies()}
			if r.collect[key] != nil {
				continue
			}
			from := p.outputPlace(r.output, i)
			rec := dev.Record("gputrain.pipeline.collect")
			rec.Copy(r.buffer.Range(r.size*uint64(key.number), r.size), from.Buffer.Range(from.Offset, r.size))
			if r.collect[key], err = rec.Program(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// outputPlace is where a part leaves a named output of its own for a microbatch.
func (p *linePart) outputPlace(o output, microbatch int) gpu.Range {
	pass := p.Forward
	if p.merged {
		pass = p.Whole
	}
	programs := p.programs[pass]
	return programs[microbatch%len(programs)].program.Output(o.Name)
}

// release gives the line's memory back.
func (l *line) release() {
	for _, p := range l.parts {
		p.zero.Release()
		for _, programs := range p.programs {
			for _, x := range programs {
				x.run.Release()
				x.program.Release()
			}
		}
	}
	for _, w := range l.wires {
		w.release()
	}
	for _, r := range l.results {
		r.zero.Release()
		for _, p := range r.collect {
			p.Release()
		}
	}
	for _, t := range l.fences {
		t.release()
	}
	for _, b := range l.buffers {
		b.Release()
	}
}
