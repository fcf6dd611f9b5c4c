package train

import (
	"fmt"
	"slices"

	"gputrain/gpu"
)

// reporter writes report.md once a run has ended.
type reporter struct {
	config  Config
	team    *team
	times   *times
	facts   facts
	planned Planned
	work    []work
	decided []decision // of the schedule
	resumed int64      // the step that this process went on from

	last       Metrics // the last metrics read
	checkpoint string  // the newest; "" without one
}

func (r *reporter) observe(e Event) error {
	switch e.Kind {
	case Stepped:
		r.last = e.seen.metrics
	case Saved:
		r.checkpoint = e.Checkpoint
	}
	return nil
}

// write writes the report of a run that has ended at a step.
func (r *reporter) write(reason Reason, step int64) error {
	known := slices.Clone(r.facts)
	known.add("ended", "%s at step %s of %s", reason, grouped(step), grouped(r.config.Steps))
	if r.last.Skipped+r.last.Spikes > 0 {
		known.add("left out", "%s updates that were not finite, %s beyond the usual", grouped(r.last.Skipped), grouped(r.last.Spikes))
	}
	if r.resumed > 0 {
		known.add("resumed", "from step %s", grouped(r.resumed))
	}
	for _, d := range r.decided {
		known.add("schedule", "%s", d.text)
	}
	if r.checkpoint != "" {
		known.add("checkpoint", "%s", r.checkpoint)
	}
	out := report{title: r.config.Title, facts: known, work: r.work, spans: r.times.list(), memory: r.memory(), settings: r.config.Settings}
	return out.write(r.config.Dir)
}

// memory is what was planned for every device, what it has given, and what the process takes of the machine.
func (r *reporter) memory() (rows []memory) {
	devices, own := r.team.target.Devices(), r.team.own()
	for i, d := range own {
		m := memory{name: fmt.Sprintf("device %d: %s", i, d.Adapter())}
		if len(own) == 1 {
			m.name = fmt.Sprintf("device: %s", d.Adapter())
		}
		for stage, at := range devices {
			if at == d {
				m.planned += r.planned.Stages[stage].Bytes
			}
		}
		counted := d.Counters()
		m.now, m.most = counted.LiveBytes, counted.PeakBytes
		rows = append(rows, m)
	}
	if most := gpu.HostPeakBytes(); most > 0 {
		rows = append(rows, memory{name: "process, in the machine's memory", planned: r.processBytes(), now: gpu.HostBytes(), most: most})
	}
	return rows
}

// processBytes is what was planned for the process: with the buffers of devices that share the machine's memory.
func (r *reporter) processBytes() uint64 {
	h := r.planned.Host
	bytes := h.Program + h.Staging
	if h.Copies(r.config.SaveAsync) {
		bytes += h.Copy
	}
	for stage, d := range r.team.target.Devices() {
		if !d.Dry() && d.Adapter().Shares() {
			bytes += r.planned.Stages[stage].Bytes
		}
	}
	return bytes
}
