// Package mesh is the ranks of a run as one of them sees them: who trains together, which of them has what, and what they decide together.
//
// A [Mesh] is replicas x ranks of a replica. Each row is a replica of the model, whose stages are divided over the ranks of the row; the ranks of a
// column have the same stages, and add up gradients. Where [Mesh.Divide] has not been called every rank is a replica. A nil Mesh is a process alone:
//
//	           stages 0-1   stages 2-3   stage 4
//	replica 0  rank 0       rank 1       rank 2     a row: one pipeline
//	replica 1  rank 3       rank 4       rank 5
//	           a column: gradients of stages 0-1
//
// A replica computes a share of the microbatches (state.Config.Share), and a state.Reducer adds up the partial sums of a column along one tree, so that
// any number of replicas has the same bits. With Config.ShardOptimizer replicas divide the update, too (state/shard.go). Adapters are compared by
// run/setup/ranks.go: all ranks cut the model by those of replica 0. All ranks make the same calls of a state equally often, decide about memory
// together, and end together.
//
// Rank 0 leads: it writes the run's files and says everything. Where ranks meet, each says that it goes on or why it does not, so that an error of one is
// known to all. Every wait ends, by an error that names a rank, its host and what was waited for.
package mesh

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"gputrain/internal/ranks/transport"
)

// DefaultTimeout is how long a rank waits for another, beside what that is expected to take.
const DefaultTimeout = 5 * time.Minute

// Config is how ranks treat each other.
type Config struct {
	Timeout time.Duration // 0: DefaultTimeout
	// Code is the exit code that belongs to an error, which all ranks end with; nil: 1.
	Code func(error) int
}

// Mesh is the ranks of a run, as one of them uses them; nil: it is alone. Methods that take a context are called by all ranks in the same order, from one
// goroutine, except those that exchange messages between two. They do not end with their context: a rank that is to stop says so where all meet.
type Mesh struct {
	grid
	ranks    transport.Ranks
	config   Config
	expected atomic.Int64 // nanoseconds that another rank may be at work before it comes
	reaches  atomic.Bool  // waits last as long as others answer
	note     []byte       // that travels whenever all meet
	notes    [][]byte     // of all ranks, when they met last
	met      time.Time    // when that was
	ended    error        // what all ranks have agreed to end with at once
	agreed   bool         // all have come to the end, and know why
	broken   error        // a call that failed: no other will succeed
}

// grid is a place among ranks.
type grid struct {
	rank, size int
	stages     []int // the rank of each stage, counted within its replica; nil: each rank has all
}

func (m *Mesh) place() grid {
	if m == nil {
		return grid{size: 1}
	}
	return m.grid
}

// New makes a mesh of ranks, which it closes.
func New(ranks transport.Ranks, c Config) *Mesh {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Code == nil {
		c.Code = func(error) int { return 1 }
	}
	return &Mesh{grid: grid{rank: ranks.Rank(), size: ranks.Size()}, ranks: ranks, config: c, notes: make([][]byte, ranks.Size())}
}

// Planned is one of so many replicas for a plan: it knows its place, and cannot speak to others.
func Planned(replica, replicas int) *Mesh { return &Mesh{grid: grid{rank: replica, size: replicas}} }

// Divide divides the stages of each replica over ranks: stages has the rank of each, counted within its replica.
func (m *Mesh) Divide(stages []int) error {
	n := slices.Max(stages) + 1
	for rank := range n {
		if !slices.Contains(stages, rank) {
			return fmt.Errorf("pipeline: ranks: rank %d: found no stage, wanted one or more on each of ranks 0 to %d", rank, n-1)
		}
	}
	if m.size%n != 0 {
		return fmt.Errorf("pipeline: ranks: found %d ranks, wanted a multiple of the %d of a pipeline: %d, %d, %d and so on", m.size, n, n, 2*n, 3*n)
	}
	m.stages = stages
	return nil
}

// Rank is which of Size this one is, from 0 on.
func (m *Mesh) Rank() int { return m.place().rank }

// Size is how many ranks there are.
func (m *Mesh) Size() int { return m.place().size }

// InRow says which rank of its replica's this one is, and how many a replica has.
func (m *Mesh) InRow() (this, of int) {
	of = 1
	for _, rank := range m.place().stages {
		of = max(of, rank+1)
	}
	return m.Rank() % of, of
}

// Replica says which replica of the model this rank has, or has stages of, and how many replicas there are.
func (m *Mesh) Replica() (this, of int) {
	_, row := m.InRow()
	return m.Rank() / row, m.Size() / row
}

// Spread tells whether a replica is on several ranks.
func (m *Mesh) Spread() bool {
	_, row := m.InRow()
	return row > 1
}

// Leads tells whether this rank writes checkpoints and logs, and says things for all.
func (m *Mesh) Leads() bool { return m.Rank() == 0 }

// at is the rank of a stage, counted within its replica.
func (m *Mesh) at(stage int) int {
	if m.Divided() == 0 {
		return 0
	}
	return m.stages[stage]
}

// RankOf is the rank that has a replica's stage.
func (m *Mesh) RankOf(replica, stage int) int {
	_, row := m.InRow()
	return replica*row + m.at(stage)
}

// Has tells whether this rank is the one that has a replica's stage.
func (m *Mesh) Has(replica, stage int) bool { return m.RankOf(replica, stage) == m.Rank() }

// Here tells whether this rank has a stage of its replica.
func (m *Mesh) Here(stage int) bool { return m.Home(stage) == m.Rank() }

// Home is the rank that has a stage of this rank's replica.
func (m *Mesh) Home(stage int) int {
	replica, _ := m.Replica()
	return m.RankOf(replica, stage)
}

// Where names the rank of a stage of this replica for people; "" where a replica is in one process.
func (m *Mesh) Where(stage int) string {
	if !m.Spread() {
		return ""
	}
	return m.Name(m.Home(stage))
}

// Divided is how many stages are divided over the ranks of a replica; 0: none.
func (m *Mesh) Divided() int { return len(m.place().stages) }

// Stages are those of each rank of a replica, of n.
func (m *Mesh) Stages(n int) [][]int {
	_, row := m.InRow()
	out := make([][]int, row)
	for stage := range n {
		out[m.at(stage)] = append(out[m.at(stage)], stage)
	}
	return out
}

// Row are the ranks of this replica.
func (m *Mesh) Row() []int {
	this, of := m.InRow()
	return every(m.Rank()-this, of, 1)
}

// Column are the ranks that have the same stages as this one, replica by replica.
func (m *Mesh) Column() []int {
	this, of := m.InRow()
	_, replicas := m.Replica()
	return every(this, replicas, of)
}

// every is n ranks from first on, each so many after the one before.
func every(first, n, step int) (out []int) {
	for i := range n {
		out = append(out, first+i*step)
	}
	return out
}

// Host names the machine of a rank.
func (m *Mesh) Host(rank int) string { return m.ranks.Host(rank) }

// Name is a rank for people.
func (m *Mesh) Name(rank int) string { return transport.Name(rank, m.Host(rank)) }
