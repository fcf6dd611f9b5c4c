package train

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gputrain/gpu"
	"gputrain/internal/ranks/cluster"
	"gputrain/internal/ranks/mesh"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/runfile"
	"gputrain/state"
)

// Rank 0 of several writes and says everything. The others make the same steps, and see of the run directory only its checkpoints. What
// ranks decide is a function of metrics, which are equal, or agreed on: once before every step.
//
// Where the stages of a model are on several ranks, so many in a row have a replica of it between them. They read the same of the text, and do together
// whatever the state does, equally often: a rank that fails there ends all.

// leads tells whether this process writes the run's files.
func (c Config) leads() bool { return c.Ranks.Leads() }

// follower is the configuration of a rank that writes and says nothing. Those that have stages of the model which rank 0 draws samples from, draw
// them too.
func (c Config) follower(samples bool) Config {
	c.Progress, c.Output = "none", io.Discard
	c.Hooks, c.Watchers, c.HistogramEvery = nil, nil, 0
	if !samples {
		c.Sample.Tokens, c.State.Sampling, c.Asked = 0, false, nil
	}
	return c
}

// checkSpread refuses what no rank has everything for where stages are on several.
func (c Config) checkSpread() error {
	if c.HistogramEvery+int64(len(c.Watchers)) > 0 {
		return fmt.Errorf("train: config: histogram_every: %d, watchers: %d, wanted none where stages are on several ranks (pipeline.adapters): no rank has all tensors",
			c.HistogramEvery, len(c.Watchers))
	}
	return nil
}

// join compares the ranks, and makes what adds up their gradients.
func (t *opening) join(ctx context.Context) error {
	c := &t.config
	facts := cluster.Facts{Program: Program(), Data: c.Fingerprint}
	for _, s := range c.Settings {
		if r := runfile.ResumeOf(s.Key); r == runfile.ByContent || r == runfile.ByPlace || s.Dir {
			continue // a path, which may be another on another machine
		}
		value, err := s.JSON()
		if err != nil {
			return err
		}
		facts.Settings = append(facts.Settings, cluster.Fact{Key: s.Key, Value: string(value)})
	}
	sum, err := model.Fingerprint(c.Params)
	if err != nil {
		return fmt.Errorf("train: parameters to begin with: %w", err)
	}
	facts.Settings = append(facts.Settings, cluster.Fact{Key: "parameters to begin with (checksum)", Value: sum})
	for _, d := range t.team.own() {
		facts.Adapters = append(facts.Adapters, cluster.Adapter{Index: d.Adapter().Index, Name: state.AdapterName(d)})
	}
	joined, err := cluster.Join(ctx, c.Ranks, facts)
	if err != nil {
		return err
	}
	t.notes, c.State.Adapter = t.rankNotes(joined), joined.Adapter()
	c.State.Mesh, c.Sums.Microbatches = c.Ranks, c.State.Microbatches
	if t.team.sums, err = cluster.NewReducer(ctx, c.Ranks, c.Sums, t.team.own()...); t.team.sums != nil {
		c.State.Reducer = t.team.sums
	}
	return err
}

// rankNotes are what there is to say of ranks.
func (t *opening) rankNotes(joined cluster.Joined) (notes []string) {
	g, micro := t.config.Ranks, t.config.State.Microbatches
	var hosts []string
	for rank := range g.Size() {
		if h := g.Host(rank); !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	said := fmt.Sprintf("%d ranks on %s, %d batches an update", g.Size(), strings.Join(hosts, ", "), micro)
	_, replicas := g.Replica()
	_, each := g.InRow()
	who := "ranks"
	if t.team.spread() {
		who = "replicas"
	}
	switch {
	case replicas == 1:
		said += ", of a model whose stages are on all of them"
	case t.team.spread():
		said += fmt.Sprintf(" divided over %d replicas of the model, each on %d ranks", replicas, each)
	default:
		said += " divided over them"
	}
	notes = append(notes, said)
	if idle := replicas - micro; idle > 0 {
		notes = append(notes, fmt.Sprintf("warning: %d of the %s compute nothing: raise train.accumulate x pipeline.microbatches, %d, to %d", idle, who, micro, replicas))
	}
	return append(notes, joined.Notes...)
}

// share are the rows of a batch that this rank reads; nil: all.
func (c Config) share() *data.Share {
	if c.Ranks == nil {
		return nil
	}
	s := share(c.State)
	return &data.Share{First: s.First * c.State.Batch, Rows: s.Count * c.State.Batch}
}

// team are the processes that train the model together, as one of them sees it. Of one that is alone, group is nil, and all that a team does is done
// without asking anybody.
type team struct {
	group  *mesh.Mesh
	target Target
	sums   *cluster.Reducer // adds up their gradients; nil: there is nobody to add to
	works  time.Duration    // that the group expects a rank to be at work before it comes
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
