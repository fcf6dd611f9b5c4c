package train

import (
	"context"
	"fmt"
	"strings"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/mesh"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// Pipelined is the target of a run whose model is cut into stages: devices[i] is stage i's, and may be several stages'. Of the configuration
// State is left out; it is the run's.
func Pipelined(devices []*gpu.Device, c pipeline.Config) Target { return pipelined{devices, c} }

type pipelined struct {
	devices []*gpu.Device
	config  pipeline.Config
}

func (p pipelined) with(c state.Config) pipeline.Config {
	p.config.State = c
	return p.config
}

// Plan tells what the stages are to take, in their order.
func (p pipelined) Plan(ctx context.Context, c state.Config) (out Planned, err error) {
	memory, host, fits, err := pipeline.Plan(ctx, p.with(c), p.devices)
	out.Fits, out.Host = fits, host
	for i, m := range memory {
		a := p.devices[i].Adapter()
		out.Stages = append(out.Stages, StagePlan{Adapter: where(c.Mesh, i) + a.String() + ", driver " + a.Driver, Holds: p.holds(c, i), Bytes: m.Total(), Memory: m.String()})
	}
	return out, err
}

// where names the ranks that have a stage, one of each replica but of no more than namedReplicas; "" where they all are in one process.
func where(m *mesh.Mesh, stage int) string {
	if !m.Spread() {
		return ""
	}
	var names []string
	_, replicas := m.Replica()
	for replica := range min(replicas, namedReplicas) {
		names = append(names, m.Name(m.RankOf(replica, stage)))
	}
	if more := replicas - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ") + ": "
}

// namedReplicas is how many replicas are named one by one.
const namedReplicas = 4

// holds names what a stage has of the model, part by part.
func (p pipelined) holds(c state.Config, stage int) string {
	built, err := c.Definition.Build(1, 1, model.Options{Loss: true})
	if err != nil {
		return ""
	}
	units, err := partition.Units(built)
	if err != nil {
		return ""
	}
	var parts []string
	for part, units := range p.config.Assignment.Units(units) {
		if part%p.config.Assignment.Stages != stage || len(units) == 0 {
			continue
		}
		text := units[0].Name
		if n := len(units); n > 1 {
			text = fmt.Sprintf("%s to %s", text, units[n-1].Name)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func (p pipelined) Adapter() string { return state.AdapterName(p.devices...) }

func (p pipelined) Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error) {
	s, err := pipeline.Create(ctx, p.devices, p.with(c), params)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (p pipelined) Load(ctx context.Context, c state.Config, dir string) (State, checkpoint.Record, error) {
	s, record, err := pipeline.Load(ctx, p.devices, p.with(c), dir)
	if err != nil {
		return nil, record, err
	}
	return s, record, nil
}

func (p pipelined) Devices() []*gpu.Device { return p.devices }
