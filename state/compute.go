package state

import (
	"cmp"
	"context"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/formats"
	"gputrain/internal/system"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
)

// trainingPasses are the forward and backward passes of a model in training, wherever it lies: all that a TrainState does not do itself.
type trainingPasses interface {
	forwardPasses
	// Compute makes the gradients of an update and the losses of its microbatches. Behind them it submits the program that then makes, if it is
	// given then: where one stage has the whole model. It need not wait for any.
	Compute(ctx context.Context, in Inputs, then func() (*gpu.Program, error)) error
	// Partials are the sums of the gradients that Compute leaves: the nodes of the share.
	Partials() []Partial
	// Submits are those that Compute makes, by stage, as the devices cut them at present.
	Submits(then *gpu.Program) [][]gpu.Planned
	// Among makes a call in which other ranks take part: its waits end, and an error names the stage that it comes from; doing is what is done.
	Among(ctx context.Context, doing string, call func(context.Context) error) error
	// Each runs the pieces of an update on the stages that are here.
	Each(ctx context.Context) Each
	// Updated brings up to date what stages have of each other's parameters.
	Updated(ctx context.Context) error
	// Rehearse computes without an update, times over, and tells how long an update's passes take.
	Rehearse(ctx context.Context, times int) (time.Duration, error)
	// Failed says of an error which stage it came from.
	Failed(stage int, err error) error
	// Broken is the error that passes failed with half way, if any: nothing can be computed after it.
	Broken() error
	// Leave makes Release leave the parameters and the optimizer's states of the stages, which are another's from now on.
	Leave()
	Release()
}

// Inputs are what the microbatches of a replica's share of an update read.
type Inputs struct {
	Batch  data.Batch
	Counts model.Counts // of all replicas
	Step   int64        // updates before this one
	// Scale is the power of two that the loss is scaled by, with products of f16; 0: 1.
	Scale float64
}

// Feed is what microbatch i of the share reads.
func (j Job) Feed(in Inputs, i int) Feed {
	f := FeedOf(j.Objective, in.Batch.Part(data.Share{First: i * j.Batch, Rows: j.Batch}))
	f.Counts, f.DropoutKey = in.Counts, j.dropoutKey(in.Step, j.Share().First+i)
	f.LossScale = float32(cmp.Or(in.Scale, 1)) * float32(1/float64(in.Counts.Of))
	f.Balance = float32(cmp.Or(in.Scale, 1) / float64(j.losses()))
	return f
}

// onDevice are the passes of a model in training on one device.
type onDevice struct {
	*passes
	job   Job
	grads *buffers.Tree
	shard *optim.State // of the leaves that this replica updates, where there are others for the rest

	micro   *compile.Program
	begin   []*gpu.Program // before the first microbatch of an update
	compute *gpu.Program
	idle    *gpu.Program // what compute leaves of a microbatch that has no gradient: zeros
	sums    *Sums
	sum     func(i int) *gpu.Program // behind the passes of microbatch i; nil where nothing is
	scorers uint64                   // bytes of reward models beside the run
	figures gpu.Range                // the sums of the objective of each microbatch, if it has any
	collect []*gpu.Program           // puts the loss of microbatch i where the optimizer looks for it; of a dry device the first alone, as all are alike
}

// build makes the programs of an update's passes, in the pieces that its submits are made of:
//
//	begin?  compute  sum 0?  collect 0 | compute  sum 1?  collect 1 | ... | compute  sum k-1?  collect k-1  update
//
// Compute overwrites the gradients, and with k > 1 microbatches Sums takes them from there. In sequence begin clears the gradients, which compute
// then adds to.
func (d *onDevice) build(ctx context.Context, losses gpu.Range) (err error) {
	c := d.job
	if d.grads, err = buffers.NewTree(d.device, "grads", d.params.Layout(), buffers.F32); err != nil {
		return err
	}
	if err := d.buildMicro(ctx); err != nil {
		return err
	}
	program := func(name string, record func(*gpu.Recording)) (*gpu.Program, error) {
		rec := d.device.Record("gputrain.state." + name)
		record(rec)
		return rec.Program(ctx)
	}
	if c.InPlace() {
		p, err := program("begin", func(rec *gpu.Recording) {
			for i := range d.grads.Layout().Slabs() {
				rec.Zero(d.grads.Slab(i))
			}
		})
		if err != nil {
			return err
		}
		d.begin = []*gpu.Program{p}
	}
	if d.sums, err = c.NewSums(d.grads); err != nil {
		return err
	}
	if d.sum, err = d.sums.Programs(ctx, "state", nil); err != nil {
		return err
	}
	loss, sums, size := d.micro.Output(lossTarget), d.micro.Output(sumsTarget), c.sumBytes()
	if size > 0 {
		b, err := d.device.NewBuffer("gputrain.state.figures", c.sumRoom())
		if err != nil {
			return err
		}
		d.figures = b.All()
	}
	if c.Objective.Row().Form == formats.Prompts {
		d.idle, err = program("idle", func(rec *gpu.Recording) {
			for i := range d.grads.Layout().Slabs() {
				if !c.InPlace() {
					rec.Zero(d.grads.Slab(i))
				}
			}
			rec.Zero(loss)
			rec.Zero(sums)
		})
		if err != nil {
			return err
		}
	}
	if d.scorers, err = c.ScorerBytes(ctx, d.device); err != nil {
		return err
	}
	losing := c.Share().Count
	if d.device.Dry() {
		losing = min(losing, 1)
	}
	for i := range uint64(losing) {
		p, err := program("collect", func(rec *gpu.Recording) {
			rec.Copy(losses.Buffer.Range(losses.Offset+4*i, 4), loss.Buffer.Range(loss.Offset, 4))
			if size > 0 {
				rec.Copy(d.figures.Buffer.Range(size*i, size), sums.Buffer.Range(sums.Offset, size))
			}
		})
		if err != nil {
			return err
		}
		d.collect = append(d.collect, p)
	}
	if _, looks := c.Objective.Ahead(); looks {
		if err := d.prepareLook(ctx, c.Batch, c.Sequence); err != nil {
			return err
		}
	}
	if c.Evaluation > 0 {
		if err := d.prepareEvaluation(ctx, c.Evaluation, c.Sequence); err != nil {
			return err
		}
	}
	for _, name := range c.Continuations() {
		if err := d.generate(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// buildMicro makes the program of a microbatch.
func (d *onDevice) buildMicro(ctx context.Context) error {
	g, targets, err := d.job.step()
	if err != nil {
		return err
	}
	d.micro, err = compile.New(ctx, d.device, g, compile.Options{
		Label: "step", Params: d.params, Beside: []*buffers.Tree{d.frozen}, Grads: d.grads, Targets: targets, Accumulate: d.job.InPlace(),
		Progress: func(done, total int) { d.job.Progress("compile kernels", done, total) },
	})
	if err != nil {
		return err
	}
	rec := d.device.Record("gputrain.state.compute")
	d.micro.Record(rec)
	d.compute, err = rec.Program(ctx)
	return err
}

// again makes the passes of a dry device for another choice of what is computed again. All else is as it was, and takes what it did.
func (d *onDevice) again(ctx context.Context, recompute string) error {
	d.compute.Release()
	d.micro.Release()
	d.compute, d.job.Recompute = nil, recompute
	return d.buildMicro(ctx)
}

// Compute submits the microbatches one by one; see trainingPasses.
func (d *onDevice) Compute(ctx context.Context, in Inputs, then func() (*gpu.Program, error)) error {
	count := d.job.Share().Count
	for i := range count {
		f, compute := d.job.Feed(in, i), d.idle
		if !f.Idle {
			compute = d.compute
			if err := f.Write(d.micro); err != nil {
				return err
			}
		}
		programs := d.programs(i, compute)
		if i == count-1 && then != nil {
			last, err := then()
			if err != nil {
				return err
			}
			programs = append(programs, last)
		}
		if err := d.device.Submit(ctx, programs...); err != nil {
			return err
		}
	}
	return nil
}

// programs are those of microbatch i of the share, of which compute is d.compute, or d.idle.
func (d *onDevice) programs(i int, compute *gpu.Program) (out []*gpu.Program) {
	if i == 0 {
		out = append(out, d.begin...)
	}
	out = append(out, compute)
	if sum := d.sum(i); sum != nil {
		out = append(out, sum)
	}
	return append(out, d.collect[min(i, len(d.collect)-1)])
}

// Partials are what the last Compute has left; see trainingPasses.
func (d *onDevice) Partials() []Partial { return d.sums.Partials() }

// Submits are those of the microbatches, each kind of them once; see trainingPasses.
func (d *onDevice) Submits(then *gpu.Program) [][]gpu.Planned {
	var out []gpu.Planned
	count := d.job.Share().Count
	for _, like := range d.sums.steps.kinds() {
		programs := d.programs(like.first, d.compute)
		if like.first == count-1 && then != nil {
			programs = append(programs, then)
		}
		for _, p := range d.device.Plan(programs...) {
			p.Times = like.count
			out = append(out, p)
		}
	}
	return [][]gpu.Planned{out}
}

// Each runs the pieces of an update in their turn.
func (d *onDevice) Each(ctx context.Context) Each {
	return func(do func(ctx context.Context, stage int) error) error { return do(ctx, 0) }
}

// Among leaves the waits to the ranks, each of which has all stages.
func (d *onDevice) Among(ctx context.Context, _ string, call func(context.Context) error) error {
	return call(ctx)
}

// Updated has nothing to do: one device has all parameters.
func (d *onDevice) Updated(context.Context) error { return nil }

// Failed leaves errors as they are: there is one device.
func (d *onDevice) Failed(_ int, err error) error { return err }

// Broken is nil: what fails is to be submitted anew.
func (d *onDevice) Broken() error { return nil }

// Leave has nothing to do: they are the state's.
func (d *onDevice) Leave() {}

// Rehearse makes the passes of one microbatch: the others take as long. A device that is given the next step while it computes one, as in
// training, does not wait for the host. What they take is told to the device.
func (d *onDevice) Rehearse(ctx context.Context, times int) (time.Duration, error) {
	b := d.job.Rehearsal()
	if err := d.job.Feed(Inputs{Batch: b, Counts: model.Counts{Of: int64(len(b.Labels))}}, 0).Write(d.micro); err != nil {
		return 0, err
	}
	if err := d.device.Wait(ctx); err != nil {
		return 0, err
	}
	watch := system.Stopwatch()
	programs := append(d.begin[:len(d.begin):len(d.begin)], d.compute)
	if sum := d.sum(0); sum != nil {
		programs = append(programs, sum)
	}
	for range times {
		if err := d.device.Submit(ctx, programs...); err != nil {
			return 0, err
		}
	}
	if err := d.device.Wait(ctx); err != nil {
		return 0, err
	}
	took := watch() / time.Duration(times)
	d.device.Measured(took, programs...)
	return took * time.Duration(d.job.Share().Count), nil
}

// Release gives back all but the parameters.
func (d *onDevice) Release() {
	for _, programs := range [][]*gpu.Program{d.begin, d.collect, {d.compute, d.idle}} {
		for _, p := range programs {
			p.Release()
		}
	}
	d.micro.Release()
	d.sums.Release()
	d.grads.Release()
	d.figures.Buffer.Release()
	d.shard.Release()
	d.passes.release()
}
