package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/gputest"
)

// token is one of a pass; row -1: it is idle.
type token struct{ row, position, id int }

// passFeeds are the inputs of a pass of tokens.
func passFeeds(pass []token) map[string]*graph.Array {
	n := len(pass)
	ids, row, positions := graph.NewArray([]int{1, n}), graph.NewArray([]int{1, n}), graph.NewArray([]int{1, n})
	for i, t := range pass {
		ids.Data[i], row.Data[i], positions.Data[i] = float64(t.id), float64(t.row), float64(t.position)
	}
	return map[string]*graph.Array{InputTokens: ids, InputRow: row, InputPositions: positions}
}

// Two rows of a prompt that they share, taken in packed with a third row and then token by token, have the logits of whole sequences.
func TestPagesGoOn(t *testing.T) {
	for _, name := range slices.Concat(goldenNames, familyNames) {
		g := readGolden(t, name)
		seq, vocab := g.SeqLen, g.def.Vocab()
		whole, err := g.def.Build(3, seq, Options{Logits: true})
		require.NoError(t, err)
		feeds := g.feeds(t, 1)
		ids := feeds[InputTokens].Data
		const prompt = 4 // tokens that rows 0 and 2 share, two blocks
		tokens := slices.Concat(ids[:2*seq], ids[:prompt], ids[seq+1:2*seq+1-prompt])
		feeds[InputTokens] = &graph.Array{Shape: []int{3, seq}, Data: tokens}
		want, err := graph.Eval(whole.Graph, feeds, whole.Logits)
		require.NoError(t, err)

		o := Options{Logits: true, Window: seq, Paging: Paging{Rows: 3, Blocks: 3 * seq, Size: 2}}
		entries := o.Paging.entries(seq)
		table := graph.NewArray([]int{3, entries})
		for i := range table.Data {
			table.Data[i] = float64(3*seq - 1 - i)
		}
		if !Recurrent(g.def) {
			copy(table.Data[2*entries:], table.Data[:prompt/2])
		}
		feeds[InputTable] = table
		of := func(row, position int) token { return token{row, position, int(tokens[row*seq+position])} }
		first := []token{{-1, 0, 0}}
		for i := range prompt {
			first = append(first, of(0, i), of(1, i))
			if Recurrent(g.def) { // each row has a state of its own
				first = append(first, of(2, i))
			}
		}
		passes := [][]token{first}
		for i := prompt; i < seq; i++ {
			passes = append(passes, []token{of(2, i), of(0, i), {-1, 0, 0}, of(1, i)})
		}
		caches := map[string]*graph.Array{}
		for _, pass := range passes {
			built, err := g.def.Build(1, len(pass), o)
			require.NoError(t, err)
			for name, a := range passFeeds(pass) {
				feeds[name] = a
			}
			after, names := cachesAfter(built)
			ask := append([]*graph.Value{built.Logits}, after...)
			for i, cache := range built.Caches {
				if feeds[names[i]] = caches[names[i]]; feeds[names[i]] == nil {
					feeds[names[i]] = &graph.Array{Shape: cache.Shape(), Data: slices.Repeat([]float64{7}, cache.Type().Elements())}
				}
			}
			got, err := graph.Eval(built.Graph, feeds, ask...)
			require.NoError(t, err)
			for i, name := range names {
				caches[name] = got[1+i]
			}
			for i, at := range pass {
				if at.row >= 0 {
					from := (at.row*seq + at.position) * vocab
					assert.InDeltaSlice(t, want[0].Data[from:from+vocab], got[0].Data[i*vocab:(i+1)*vocab], 1e-12, "%s: %+v", name, at)
				}
			}
		}
	}
}

// A row has the same logits, bit by bit, alone among idle tokens and beside rows of any tokens, wherever its blocks are and its tokens stand in a pass.
func TestPagesKeepTheBitsOfARow(t *testing.T) {
	names := slices.Concat(goldenNames, familyNames)
	if testing.Short() {
		names = []string{"gpt2_tied", "gemma2_small", "gemma4_small"}
	}
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, name := range names {
			g := readGolden(t, name)
			window := g.SeqLen
			const n, prompt = 6, 3
			o := Options{Logits: true, Window: window, Paging: Paging{Rows: 3, Blocks: 3 * window, Size: 4}}
			built, err := g.def.Build(1, n, o)
			require.NoError(t, err)
			tree, err := buffers.Upload(dev, "test.params", Init(g.def, 5), array.F32)
			require.NoError(t, err)
			defer tree.Release()
			p, err := compile.New(t.Context(), dev, built.Graph, compile.Options{Params: tree, Targets: []compile.Target{{Name: "logits", Value: built.Logits}}})
			require.NoError(t, err)
			defer p.Release()
			vocab := g.def.Vocab()
			run := func(seed uint64, alone bool) (logits [][]float32) {
				rng := rand.New(rand.NewPCG(seed, 1))
				for _, c := range built.Caches {
					junk := make([]float32, c.Type().Elements())
					for i := range junk {
						junk[i] = float32(rng.NormFloat64())
					}
					require.NoError(t, p.WriteFloats(c.Node().Op.(graph.Input).Name, junk))
				}
				entries := o.Paging.entries(window)
				table := make([]int32, 3*entries)
				for i, b := range rng.Perm(o.Paging.Blocks)[:len(table)] {
					table[i] = int32(b)
				}
				require.NoError(t, p.WriteInts(InputTable, table))
				row := rng.IntN(3)
				for first := 0; first < window; {
					count := 1
					if first == 0 {
						count = prompt
					}
					pass, at := make([]token, n), rng.Perm(n)
					for i := range pass {
						pass[i] = token{-1, rng.IntN(window), rng.IntN(vocab)}
					}
					for i := range count {
						pass[at[i]] = token{row, first + i, (7*(first+i) + 3) % vocab}
					}
					for i := 1; i < 3 && !alone; i++ { // one token of each other row, anywhere
						pass[at[count+i-1]] = token{(row + i) % 3, rng.IntN(window), rng.IntN(vocab)}
					}
					for name, a := range passFeeds(pass) {
						ints := make([]int32, n)
						for i, v := range a.Data {
							ints[i] = int32(v)
						}
						require.NoError(t, p.WriteInts(name, ints))
					}
					rec := dev.Record("test")
					p.Record(rec)
					require.NoError(t, rec.Submit(t.Context()))
					raw := make([]byte, p.Output("logits").Bytes)
					require.NoError(t, dev.Read(t.Context(), raw, p.Output("logits")))
					all := array.Decoded(array.F32, raw)
					for i := range count {
						logits = append(logits, all[at[i]*vocab:(at[i]+1)*vocab])
					}
					first += count
				}
				return logits
			}
			want := run(1, true)
			for seed := range uint64(3) {
				require.Equal(t, want, run(2+seed, seed == 2), "%s, seed %d", name, seed)
			}
		}
	})
}

func TestPagingRefused(t *testing.T) {
	def := readGolden(t, "llama_gqa").def
	for _, o := range []Options{
		{Paging: Paging{Rows: 1, Blocks: 1, Size: 3}, Window: 8},
		{Paging: Paging{Rows: 1, Blocks: 1, Size: 4}},
		{Paging: Paging{Rows: 1, Size: 4}, Window: 8},
	} {
		o.Logits = true
		_, err := def.Build(1, 4, o)
		require.ErrorContains(t, err, "paging")
	}
	_, err := def.Build(2, 4, Options{Logits: true, Window: 8, Paging: Paging{Rows: 1, Blocks: 1, Size: 4}})
	require.ErrorContains(t, err, "paging")
}
