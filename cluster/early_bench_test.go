package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/data"
	"gputrain/gpu/gputest"
	definitions "gputrain/model"
	"gputrain/optim"
	"gputrain/state"
	"gputrain/transport"
)

// slow are ranks whose messages take as long as on a link of so many bits a second in each direction.
type slow struct {
	transport.Ranks
	bits float64
	link sync.Mutex
}

func (s *slow) Send(ctx context.Context, to int, tag transport.Tag, b []byte) error {
	s.link.Lock()
	time.Sleep(time.Duration(8 * float64(len(b)) / s.bits * float64(time.Second)))
	s.link.Unlock()
	return s.Ranks.Send(ctx, to, tag, b)
}

// whole is a reducer for which passes are not cut.
type whole struct{ *Reducer }

func (whole) Bucket() int { return 0 }

// BenchmarkSlowLink compares steps of two ranks whose passes are cut with steps of two whose passes are not, in turns: what each takes, its
// passes, how long gradients are under way, and what share of that is hidden: medians on one rank.
func BenchmarkSlowLink(b *testing.B) {
	for _, bits := range []float64{1e9, 2.5e8} {
		b.Run(fmt.Sprintf("%g bits a second", bits), func(b *testing.B) { compareOn(b, bits) })
	}
}

func compareOn(b *testing.B, bits float64) {
	const ranks, rows, context = 2, 2, 64
	def, err := definitions.NewGPT2(definitions.GPT2Config{Layers: 8, Heads: 4, Width: 256, Vocab: 2048, Context: context})
	require.NoError(b, err)
	c := state.Config{
		Definition: def, Batch: rows, Microbatches: ranks, Seed: 7,
		Optimizer: optim.Config{Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 1e-3}}},
	}
	batch := data.Batch{Rows: rows}
	for i := range rows * context {
		batch.Tokens, batch.Labels = append(batch.Tokens, int32(5*i%2048)), append(batch.Labels, int32(5*i+5)%2048)
	}
	figures := map[string][]float64{}
	var all sync.WaitGroup
	for rank, of := range transport.Local(ranks) {
		dev := gputest.Device(b)
		all.Go(func() {
			group := New(&slow{Ranks: of, bits: bits}, Config{Timeout: gputest.Patience})
			reducers, states := map[bool]*Reducer{}, map[bool]*state.TrainState{}
			for _, cut := range []bool{false, true} {
				r, err := NewReducer(b.Context(), group, Sums{Microbatches: ranks, Bucket: 1 << 20}, dev)
				if err != nil {
					panic(err)
				}
				c := c
				if c.Reducer = r; !cut {
					c.Reducer = whole{r}
				}
				if states[cut], err = state.Create(b.Context(), dev, c); err != nil {
					panic(err)
				}
				reducers[cut] = r
			}
			for step := range 2 + 2*b.N { // a round to warm up
				cut := step%2 == 1
				begun := time.Now()
				if _, err := states[cut].TrainStep(b.Context(), batch); err != nil {
					panic(err)
				}
				if rank > 0 || step < 2 {
					continue
				}
				name, u := map[bool]string{false: "whole-", true: "cut-"}[cut], reducers[cut].use
				for figure, v := range map[string]float64{
					"ms": time.Since(begun).Seconds() * 1e3, "passes-ms": u.Passes.Seconds() * 1e3,
					"transfer-ms": u.Transfer.Seconds() * 1e3, "hidden": u.Hidden.Seconds() / u.Transfer.Seconds(),
				} {
					figures[name+figure] = append(figures[name+figure], v)
				}
			}
			for cut := range states {
				states[cut].Release()
				reducers[cut].Release()
			}
		})
	}
	all.Wait()
	for figure, all := range figures {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], figure)
	}
}
