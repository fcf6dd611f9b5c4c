package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/internal/system"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
)

// passes are the forward and backward passes of a model that is cut into stages.
type passes struct {
	job     job
	mesh    *mesh.Mesh     // that the stages are on
	specs   []buffers.Spec // of the whole model, sorted
	devices []*gpu.Device
	stages  []*stage

	training, evaluation *line
	look                 *line            // before an update
	continuing           map[string]*line // of passes that go on with texts
	begin                [][]*gpu.Program // of each stage, before the first microbatch of an update: in sequence its gradients are cleared
	last                 *stage           // where the loss is
	tag                  transport.Tag    // behind those of the links between ranks
	broken               error            // what failed half way: messages may be under way, and nobody waits for them
	notes                *notes
}

// compile makes the kernels of each stage ahead of the programs that run them, all at once.
func (p *passes) compile(ctx context.Context, kernels [][]*gpu.Kernel) error {
	for i, of := range kernels {
		dev := p.devices[i]
		if !p.mesh.Here(i) {
			continue
		}
		progress := func(done, total int) {
			p.job.State.Progress(fmt.Sprintf("compile kernels of stage %d", i), done, total)
		}
		if err := dev.Compile(ctx, of, progress); err != nil {
			return (&stage{index: i, device: dev}).failed("compile", err)
		}
	}
	return nil
}

// kernels are those of all lines, by stage.
func (p *passes) kernels() [][]*gpu.Kernel {
	out := make([][]*gpu.Kernel, len(p.stages))
	for _, l := range p.lines() {
		for _, part := range l.parts {
			st := l.stageOf(part.index).index
			for _, programs := range part.programs {
				for _, x := range programs {
					for _, k := range x.program.Kernels() {
						if !slices.ContainsFunc(out[st], func(o *gpu.Kernel) bool { return o.Source == k.Source && o.Label == k.Label }) {
							out[st] = append(out[st], k)
						}
					}
				}
			}
		}
	}
	return out
}

// build makes the stages and the lines.
func (p *passes) build(ctx context.Context, params []buffers.Host) error {
	c := p.job
	tx, err := c.State.Transform()
	if err != nil {
		return err
	}
	_, looks := c.State.Objective.Ahead()
	lines := []struct {
		to     **line
		make   func() (*line, error)
		wanted bool
	}{{&p.training, c.training, true}, {&p.look, c.look, looks}, {&p.evaluation, c.evaluation, c.State.Evaluation > 0}}
	for _, l := range lines {
		if !l.wanted {
			continue
		}
		if *l.to, err = l.make(); err != nil {
			return err
		}
	}
	p.continuing = map[string]*line{}
	for _, name := range c.State.Continuations() {
		if p.continuing[name], err = c.continuing(name); err != nil {
			return err
		}
	}
	homes := residences(p.training.cut, p.specs, c.State.Frozen, c.Assignment.Stages)
	for i, dev := range p.devices {
		st := &stage{index: i, device: dev, where: p.mesh.Where(i), away: !p.mesh.Here(i)}
		p.stages = append(p.stages, st)
		if err := p.allocate(ctx, st, tx, homes[i], params); err != nil {
			return st.failed("parameters and optimizer", err)
		}
	}
	p.tag = firstTag
	for _, l := range p.lines() {
		l.mesh, l.blamed, l.tag = p.mesh, p.blame, p.tag
		if err := l.build(ctx, p.stages, c.NewLink); err != nil {
			return err
		}
		p.tag = l.tag
	}
	p.last, p.notes = p.training.stageOf(c.Assignment.Parts-1), newNotes(p.training, c.Profile)
	if err := p.buildSums(ctx); err != nil {
		return err
	}
	return p.buildBegin(ctx)
}

// allocate makes what a stage keeps from step to step, and its scratch.
func (p *passes) allocate(ctx context.Context, st *stage, tx optim.Transform, home residence, params []buffers.Host) error {
	var err error
	dtype := p.job.State.FrozenDType
	for _, tree := range []struct {
		to    **buffers.Tree
		label string
		dtype buffers.DType
		specs []buffers.Spec
	}{
		{&st.params, "params", buffers.F32, home.own},
		{&st.frozen, "frozen", dtype, home.frozen},
		{&st.mirrors, "mirrors", buffers.F32, home.mirrored},
		{&st.lent, "lent", dtype, home.lent},
	} {
		if len(tree.specs) == 0 && tree.to != &st.params {
			continue
		}
		layout := func(specs []buffers.Spec, lim gpu.Limits) (*buffers.Layout, error) {
			return buffers.NewLayoutFor(tree.dtype, specs, lim)
		}
		if tree.to == &st.params {
			layout = p.job.State.Layout
		}
		placed, err := layout(tree.specs, st.device.Limits())
		if err != nil {
			return err
		}
		if *tree.to, err = st.upload(tree.label, tree.dtype, placed, params); err != nil {
			return err
		}
	}
	if st.grads, err = buffers.NewTree(st.device, "grads", st.params.Layout(), buffers.F32); err != nil {
		return err
	}
	if st.sums, err = p.job.State.NewSums(st.grads); err != nil {
		return err
	}
	if st.opt, err = tx.InitStage(p.job.State.Own(st.params), p.specs); err != nil {
		return err
	}
	var plans []compile.Plan
	for _, l := range p.lines() {
		found, err := l.plans(ctx, st)
		if err != nil {
			return err
		}
		plans = append(plans, found...)
	}
	if st.arena, err = compile.NewArena(st.device, "pipeline", plans...); err != nil {
		return err
	}
	m := &st.memory
	m.Params, m.Gradients, m.Sums, m.Optimizer, m.Transfer = st.params.Bytes(), st.grads.Bytes(), st.sums.Bytes(), st.opt.Bytes(), st.params.Layout().StagingBytes(buffers.F32)
	if st.frozen != nil {
		m.Frozen, m.Transfer = st.frozen.Bytes(), max(m.Transfer, st.frozen.Layout().StagingBytes(dtype))
	}
	for _, tree := range []*buffers.Tree{st.mirrors, st.lent} {
		if tree != nil {
			m.Mirrors += tree.Bytes()
		}
	}
	m.Scratch += st.arena.Bytes()
	return nil
}

// buildSums makes what adds up the gradients of the microbatches, part by part: those of a stage are at different microbatches.
func (p *passes) buildSums(ctx context.Context) (err error) {
	for _, part := range p.training.parts {
		st := p.training.stageOf(part.index)
		own := func(l buffers.Leaf) bool { return slices.Contains(part.Params, l.Path) }
		if part.sum, err = st.sums.Programs(ctx, "pipeline", own); err != nil {
			return st.failed("sums of gradients", err)
		}
		if part.zero, err = p.zero(ctx, st, own); err != nil {
			return st.failed("gradients", err)
		}
	}
	for _, st := range p.stages {
		p.training.taken(st, st.sums.UniformBytes())
	}
	return nil
}

// Partials are the sums that Compute has left; see state.OnStages.
func (p *passes) Partials() []state.Partial {
	var sums []*state.Sums
	for _, st := range p.stages {
		if !st.away {
			sums = append(sums, st.sums)
		}
	}
	return sums[0].Partials(sums[1:]...)
}

// zero overwrites some gradients of a stage with zeros; nil where there are none, and where passes add to them.
func (p *passes) zero(ctx context.Context, st *stage, keep func(buffers.Leaf) bool) (*gpu.Program, error) {
	if p.training.accumulate || !slices.ContainsFunc(st.grads.Layout().Leaves(), keep) {
		return nil, nil
	}
	rec := st.device.Record("gputrain.pipeline.zero")
	for _, l := range st.grads.Layout().Leaves() {
		for _, part := range l.Parts {
			if keep(l) {
				rec.Zero(st.grads.Part(part))
			}
		}
	}
	return rec.Program(ctx)
}

// buildBegin makes what clears the gradients of each stage where those of several microbatches are added up in place.
func (p *passes) buildBegin(ctx context.Context) error {
	p.begin = make([][]*gpu.Program, len(p.stages))
	for i, st := range p.stages {
		if p.training.accumulate && len(st.grads.Layout().Slabs()) > 0 {
			rec := st.device.Record("gputrain.pipeline.begin")
			for i := range st.grads.Layout().Slabs() {
				rec.Zero(st.grads.Slab(i))
			}
			begin, err := rec.Program(ctx)
			if err != nil {
				return st.failed("update", err)
			}
			p.begin[i] = []*gpu.Program{begin}
		}
	}
	return nil
}

// countTexels puts what each device has of them into the account of its first stage.
func (p *passes) countTexels() {
	for i, st := range p.stages {
		if slices.Index(p.devices, st.device) == i {
			st.memory.Texels = st.device.TexelBytes()
		}
	}
}

// lines are those that there are.
func (p *passes) lines() []*line {
	var out []*line
	all := []*line{p.training, p.look, p.evaluation}
	for _, name := range p.job.State.Continuations() {
		all = append(all, p.continuing[name])
	}
	for _, l := range all {
		if l != nil {
			out = append(out, l)
		}
	}
	return out
}

// residents are what an update changes.
func (p *passes) residents() (out []state.Resident) {
	for _, st := range p.stages {
		out = append(out, state.Resident{Params: st.params, Frozen: st.frozen, Grads: st.grads, State: st.opt})
	}
	return out
}

// Compute takes the microbatches of an update through all stages; see state.OnStages.
func (p *passes) Compute(ctx context.Context, in state.Inputs, then func() (*gpu.Program, error)) error {
	p.notes.recorder.Begin()
	if p.job.State.Share().Count == 0 {
		return nil
	}
	feeds, r, begin := p.feeds(in), whole(p.training.schedule), p.begin
	var busy []int
	for i, f := range feeds {
		if !f.Idle {
			busy = append(busy, i)
		}
	}
	if len(busy) < len(feeds) {
		r.order, r.numbers, begin = r.order.Only(busy), append([]int{}, busy...), slices.Clone(begin)
		for _, of := range p.training.results {
			st := p.training.stageOf(of.Part).index
			begin[st] = append(slices.Clip(begin[st]), of.zero)
		}
		if err := p.training.collects(ctx, r); err != nil {
			return p.last.failed("results", err)
		}
	}
	err := p.run(ctx, p.training, r, written(feeds), begin, p.notes)
	if err != nil || then == nil {
		return err
	}
	update, err := then()
	if err == nil {
		err = update.Submit(ctx)
	}
	return p.last.failed("update", err)
}

// Submits are those of the actions, if all that one hands on can leave at once, and of the update; see state.OnStages.
func (p *passes) Submits(then *gpu.Program) [][]gpu.Planned {
	out := make([][]gpu.Planned, len(p.stages))
	for i, st := range p.stages {
		begin := slices.Clip(p.begin[i])
		for _, a := range p.training.schedule.Actions[i] {
			if programs := p.training.programs(a); programs != nil {
				out[i] = append(out[i], st.device.Plan(append(begin, programs...)...)...)
				begin = nil
			}
		}
		if then != nil && st == p.last {
			out[i] = append(out[i], st.device.Plan(then)...)
		}
	}
	return out
}

// measured tells each device what it took at most for all of its actions.
func (p *passes) measured(took time.Duration) {
	programs := map[*gpu.Device][]*gpu.Program{}
	for i, st := range p.stages {
		if st.away {
			continue
		}
		for _, a := range p.training.schedule.Actions[i] {
			programs[st.device] = append(programs[st.device], p.training.programs(a)...)
		}
	}
	for d, all := range programs {
		d.Measured(took, all...)
	}
}

// feeds are what the microbatches of an update read.
func (p *passes) feeds(in state.Inputs) (all []state.Feed) {
	for i := range p.training.schedule.Microbatches {
		all = append(all, p.job.State.Feed(in, i))
	}
	return all
}

// written writes what microbatches read.
func written(feeds []state.Feed) feed {
	return func(to *compile.Program, i int) error { return feeds[i].Write(to) }
}

// run runs a line. One that fails half way leaves messages on the links, and nothing runs after it.
func (p *passes) run(ctx context.Context, l *line, r round, write feed, begin [][]*gpu.Program, note *notes) error {
	p.broken = p.mesh.FailRow(l.run(ctx, r, write, begin, p.job.timeout(), note))
	return p.broken
}

// Each runs pieces of an update, every stage its own.
func (p *passes) Each(ctx context.Context) state.Each {
	return func(do func(ctx context.Context, stage int) error) error {
		c := newGroup(ctx, p.job.timeout())
		for i, st := range p.stages {
			if !st.away {
				c.do(st, "update", func() error { return do(c.ctx, i) })
			}
		}
		p.broken = p.mesh.FailRow(c.wait(nobody, func() {}))
		return p.broken
	}
}

// nobody is the culprit where every stage works by itself: whoever has not ended.
func nobody(error) error { return nil }

// Updated brings the copies of trained parameters that other stages own up to date.
func (p *passes) Updated(ctx context.Context) error {
	c, tag := newGroup(ctx, p.job.timeout()), p.tag
	for _, st := range p.stages {
		if st.mirrors == nil {
			continue
		}
		for _, leaf := range st.mirrors.Layout().Leaves() {
			owner := p.training.stageOf(p.job.Assignment.Part[leaf.Path])
			tag++
			if doing, at := "copy of "+leaf.Path, tag; !st.away || !owner.away {
				c.do(st, doing, func() error { return p.blame(doing, p.mirror(c.ctx, leaf, owner, st, at)) })
			}
		}
	}
	p.broken = p.mesh.FailRow(c.wait(nobody, func() {}))
	return p.broken
}

// mirror brings a leaf from its owner to a stage that has a copy; one of them may be on another rank.
func (p *passes) mirror(ctx context.Context, leaf buffers.Leaf, owner, to *stage, tag transport.Tag) (err error) {
	var raw []byte
	if owner.away {
		raw = make([]byte, to.mirrors.DType().Bytes(uint64(leaf.Elements())))
		err = p.mesh.Receive(ctx, p.mesh.Home(owner.index), tag, raw)
	} else if raw, err = owner.params.ReadRaw(ctx, leaf.Path); err != nil {
		return owner.failed("read of "+leaf.Path, err)
	}
	switch {
	case err != nil:
		return err
	case to.away:
		return p.mesh.Send(ctx, p.mesh.Home(to.index), tag, raw)
	}
	return to.mirrors.WriteRaw(leaf.Path, raw)
}

// Rehearse makes the passes of an update; see state.OnStages.
func (p *passes) Rehearse(ctx context.Context, times int) (time.Duration, error) {
	c := p.job.State
	b := c.Rehearsal()
	n := p.training.schedule.Microbatches
	b.Rows, b.Tokens, b.Labels = n*b.Rows, slices.Repeat(b.Tokens, n), slices.Repeat(b.Labels, n)
	for name, values := range b.Beside {
		b.Beside[name] = slices.Repeat(values, n)
	}
	write := written(p.feeds(state.Inputs{Batch: b, Counts: model.Counts{Of: int64(len(b.Labels))}}))
	watch := system.Stopwatch()
	for range times {
		if err := p.run(ctx, p.training, whole(p.training.schedule), write, p.begin, nil); err != nil {
			return 0, err
		}
	}
	took := watch() / time.Duration(times)
	for _, st := range p.stages {
		if st.away {
			continue
		}
		if err := st.device.Wait(ctx); err != nil {
			return 0, p.mesh.FailRow(err)
		}
	}
	p.measured(took)
	return took, nil
}

// Failed is a *StageError.
func (p *passes) Failed(stage int, err error) error { return p.stages[stage].failed("update", err) }

// Broken is the failure that ended a run half way.
func (p *passes) Broken() error { return p.broken }

// Leave makes Release leave what is trained, and what is frozen, to another.
func (p *passes) Leave() {
	for _, st := range p.stages {
		st.params, st.frozen, st.opt = nil, nil, nil
	}
}

// Release gives everything back.
func (p *passes) Release() {
	for _, begin := range p.begin {
		for _, b := range begin {
			b.Release()
		}
	}
	for _, l := range p.lines() {
		l.release()
	}
	for _, st := range p.stages {
		st.release()
	}
}
