package train

import (
	"context"
	"slices"

	"gputrain/cluster"
	"gputrain/gpu"
	"gputrain/mesh"
)

// team are the processes that train the model together, as one of them sees it. Of one that is alone, group is nil, and all that a team does is done
// without asking anybody.
type team struct {
	group  *mesh.Mesh
	target Target
	sums   *cluster.Reducer // adds up their gradients; nil: there is nobody to add to
	apart  bool             // this rank has failed where ranks do not meet to agree
}

// spread tells whether a replica is on several ranks.
func (m *team) spread() bool { return m.group.Spread() }

// replica is which of how many replicas of the model this rank has, or has stages of.
func (m *team) replica() (replica, replicas int) { return m.group.Replica() }

// uncancelled is the context of what all ranks of a replica do at the same time: who wants to stop says so where all meet.
func (m *team) uncancelled(ctx context.Context) context.Context {
	if m.spread() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// note takes note of an error of what all ranks of a replica do together: the others are still at it.
func (m *team) note(err error) error {
	m.apart = m.apart || err != nil && m.spread()
	return err
}

// own are the devices of the stages that are on this rank, each once.
func (m *team) own() []*gpu.Device {
	return slices.DeleteFunc(distinct(m.target.Devices()), (*gpu.Device).Dry)
}
