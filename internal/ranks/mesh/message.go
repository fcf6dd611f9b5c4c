package mesh

import (
	"context"

	"gputrain/internal/ranks/transport"
)

// tagDelivery is the tag of what goes to rank 0. Below it are the tags of sums, above it those of links between stages.
const tagDelivery transport.Tag = 1<<10 - 1

// Send gives b to another rank; see transport.Ranks. The caller ends the wait.
func (m *Mesh) Send(ctx context.Context, to int, tag transport.Tag, b []byte) error {
	return m.ranks.Send(ctx, to, tag, b)
}

// Receive fills b with the oldest message of another rank; see transport.Ranks. The caller ends the wait.
func (m *Mesh) Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error {
	return m.ranks.Receive(ctx, from, tag, b)
}

// Give is a Send whose wait ends: with the context where that has a deadline, else with this rank's patience, by an error that says so.
func (m *Mesh) Give(ctx context.Context, to int, tag transport.Tag, b []byte) error {
	what := m.Name(to) + " to take gradients"
	return m.bounded(ctx, what, what, func(ctx context.Context) error { return m.Send(ctx, to, tag, b) })
}

// Take is a Receive of what a rank has to give, whose wait ends as that of Give.
func (m *Mesh) Take(ctx context.Context, from int, tag transport.Tag, b []byte, what string) error {
	what += " of " + m.Name(from)
	return m.bounded(ctx, what, "waiting for "+what, func(ctx context.Context) error { return m.Receive(ctx, from, tag, b) })
}

func (m *Mesh) bounded(ctx context.Context, what, doing string, call func(context.Context) error) error {
	if _, ends := ctx.Deadline(); ends {
		return call(ctx)
	}
	within, done := m.within(ctx, what)
	defer done()
	if err := call(within); err != nil {
		return m.failed(within, doing, err)
	}
	return nil
}

// ToLeader gives the rank that leads what the rank that has a replica's stage has in b, which has one length on both. The others return at once.
func (m *Mesh) ToLeader(ctx context.Context, replica, stage int, b []byte) error {
	from := m.RankOf(replica, stage)
	switch {
	case from == 0:
		return nil
	case m.Leads():
		return m.Together(func() error { return m.Take(ctx, from, tagDelivery, b, "the state of the optimizer") })
	case from == m.rank:
		return m.Together(func() error { return m.Give(ctx, 0, tagDelivery, b) })
	}
	return nil
}
