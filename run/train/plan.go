package train

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
)

// plan says where the run is to be, what it is to take and what it has to compute.
func (t *opening) plan(ctx context.Context) error {
	def, takes := t.config.State.Definition, t.reporter.takes
	parameters := grouped(model.Parameters(model.Student(def)))
	where := ": " + takes.Memory[0].String()
	advice, err := t.faster()
	if err != nil {
		return err
	}
	if len(takes.Memory) == 1 {
		t.say("adapter %s%s", t.stageAdapter(0), advice)
		t.reporter.facts.add("adapter", "%s", t.stageAdapter(0))
	} else {
		where = fmt.Sprintf(" on %d stages", len(takes.Memory))
		for i, m := range takes.Memory {
			stage := fmt.Sprintf("stage %d", i)
			t.note(stage, stage+", ", fmt.Sprintf("%s: %s; memory planned %s: %s", takes.Holds[i], t.stageAdapter(i), gpu.SizeText(m.Total()), m))
		}
		if advice != "" {
			t.say("all stages are on one adapter%s", advice)
		}
	}
	t.say("model %s, %s parameters; memory planned %s%s", def.Kind(), parameters, gpu.SizeText(takes.Bytes()), where)
	t.reporter.facts.add("model", "%s, %s parameters", def.Kind(), parameters)
	if q, n := model.QuantizationOf(def); n > 0 {
		t.note("parameters quantized", "parameters quantized, ", fmt.Sprintf("%d of %d read as %v", n, len(def.Params()), q))
	}
	if text := model.DescribeLoRA(def); text != "" {
		t.note("adapters", "adapters, ", text)
	} else if n := len(t.config.State.Frozen); n > 0 {
		t.note("parameters frozen", "parameters frozen, ", fmt.Sprintf("%d of %d: no gradients and no optimizer state", n, len(def.Params())))
	}
	if n := len(t.config.Drawn); n > 0 {
		t.note("parameters drawn anew", "parameters drawn anew, ", fmt.Sprintf("%d of %d: %s", n, len(def.Params()), strings.Join(t.config.Drawn, ", ")))
	}
	if len(takes.Memory) == 1 {
		t.reporter.facts.add("memory planned", "%s", takes.Memory[0])
	}
	for _, d := range distinct(t.team.target.Devices()) {
		t.reporter.facts.add("limits", "%s", limitsText(d.Limits()))
	}
	t.findPeak(ctx)
	t.reporter.facts.add("program", "%s", Program())
	return t.countWork()
}

// stageAdapter is where a stage is: the adapter with its driver, and the ranks that have it, if these are several.
func (t *opening) stageAdapter(stage int) string {
	a := t.team.target.Devices()[stage].Adapter()
	return rankNames(t.config.State.Mesh, stage) + a.String() + ", driver " + a.Driver
}

// faster is what stands behind the adapter of the run: what it is, and how something faster is to be had. Whoever trains on several has
// chosen them.
func (t *opening) faster() (string, error) {
	devices := t.team.target.Devices()
	a := devices[0].Adapter()
	for _, d := range devices {
		if d.Adapter().Index != a.Index || d.Dry() {
			return "", nil
		}
	}
	advice, err := a.Faster()
	return fmt.Sprintf(": %s%s", a.Class(), advice), err
}

// findPeak asks for what the devices can do.
func (t *opening) findPeak(ctx context.Context) {
	if t.config.Peak == nil || !t.reporter.takes.Fits {
		return
	}
	defer t.times.span(spanPeak)()
	peak, err := t.config.Peak(ctx)
	if err != nil {
		t.say("warning: %v: metrics have no mfu", err)
		return
	}
	t.meter.peak = peak
	t.say("peak of the devices %s in f32 products", flopsText(peak))
	t.reporter.facts.add("peak", "%s in f32 products, measured", flopsText(peak))
}

// countWork counts the operations of an update.
func (t *opening) countWork() error {
	job, err := state.NewJob(t.config.State)
	if err != nil {
		return err
	}
	flops, err := job.FLOPs()
	if err != nil {
		return err
	}
	c := t.config.State
	positions := float64(c.Batch * c.Microbatches * c.Sequence)
	for kind, n := range flops {
		t.meter.flops += float64(n)
		t.reporter.work = append(t.reporter.work, work{kind, float64(n) / positions})
	}
	slices.SortFunc(t.reporter.work, func(a, b work) int { return cmp.Or(cmp.Compare(b.FLOPs, a.FLOPs), strings.Compare(a.Kind, b.Kind)) })
	return nil
}

// estimate tells, before anything is compiled, how long the rest of the run takes by counts alone. It does so for processors, whose drivers may
// compile for a minute; a card is measured as soon.
func (t *opening) estimate(from int64) error {
	for _, d := range t.team.target.Devices() {
		if d.Adapter().Hardware() || t.team.spread() { // the peak is that of this rank's adapters
			return nil
		}
	}
	c := t.config
	if t.meter.peak == 0 || from >= c.Steps {
		return nil
	}
	speed := paced(t.team.target.Devices()[0].Adapter(), t.meter.peak*ofPeak)
	f, err := guessed(c, from, ownFLOPs(c.State, t.meter.flops), commandsOf(t.reporter.takes.Submits), speed)
	if err != nil {
		return err
	}
	f.spent = whole(t.times.list())
	t.say("at %s of that peak the run takes at least %s, and up to a minute more if the driver has yet to compile its kernels; it is measured before the first step",
		percent(ofPeak), f.whole())
	return nil
}

// flopsText is a number of operations a second for people.
func flopsText(v float64) string {
	if v >= 1e12 {
		return fmt.Sprintf("%.2f TFLOP/s", v/1e12)
	}
	return fmt.Sprintf("%.1f GFLOP/s", v/1e9)
}

// limitsText has those limits of a device that decide how kernels are cut.
func limitsText(l gpu.Limits) string {
	texels := "none"
	if l.TexelBindings > 0 {
		texels = fmt.Sprintf("%d operands a kernel, use %s", l.TexelBindings, l.Texels)
	}
	return fmt.Sprintf("buffer %s, binding %s, %d storage buffers a kernel, %d invocations and %s of memory a workgroup, texels: %s",
		gpu.SizeText(l.BufferBytes), gpu.SizeText(l.BindingBytes), l.StorageBuffers, l.Invocations, gpu.SizeText(uint64(l.WorkgroupBytes)), texels)
}
