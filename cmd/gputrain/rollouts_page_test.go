package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state"
)

// A generation of the page of benchmarks: so many completions of so many prompts, in a window that has room for both.
const (
	pagePrompts, pageSamples      = 8, 8
	pagePrompt, pageTokens        = 128, 512
	pageRows, pageWindow          = pagePrompts * pageSamples, pagePrompt + pageTokens
	blockOf                       = 16
	pageSeen                      = float64(pagePrompt+pageTokens/2) / pageWindow // of the keys that a pass is counted with, in the mean
	pageFilled                    = float64(pagePrompt/2) / pageWindow            // likewise, as prompts are taken in
	pageShort                     = 128                                           // tokens of a short completion
	rolloutsPage                  = "../../docs/benchmarks.md"
	rolloutsModel, rolloutsTuning = "SmolLM2-135M", "lora.rank=8 lora.target=all-linear data.jsonl=absent.jsonl data.validation=0 rollout.loss=dapo train.batch=8 train.accumulate=8 model.context=640 train.sample_tokens=0"
)

// heldBy is the part of all blocks that a pass reads as completions have so many tokens in the mean: those of a prompt once, since its rows read them at the
// same time and they fit a card's cache.
func heldBy(tokens int) float64 {
	return float64(pagePrompts*pagePrompt+pageRows*tokens/2) / (pageRows * pageWindow)
}

// passTime is the time of a pass that goes on with texts, at a card's limits and as kernels reached an H100's, where rows see a part of the keys and a part of
// the blocks is read.
func passTime(t *testing.T, on card, def model.Definition, pass string, storage buffers.DType, seen, held float64) (limit, expected float64) {
	t.Helper()
	a := on.adapter(false)
	dev := gpu.DryOf(a, a.Limits)
	built, wanted, err := state.Generation(def, pageWindow, state.Paging{
		Rows: pageRows, Size: blockOf, Entries: pageWindow / blockOf, Blocks: pageRows * pageWindow / blockOf, Fill: 64, Storage: storage,
	}, pass, false)
	require.NoError(t, err)
	o := compile.Options{Label: pass, Targets: []compile.Target{{Name: "wanted", Value: wanted}}, Bind: map[string]gpu.Range{}}
	layout, err := buffers.NewLayout(built.Graph.Parameters(), dev.Limits())
	require.NoError(t, err)
	o.Params, err = buffers.NewTree(dev, "params", layout, buffers.F32)
	require.NoError(t, err)
	for _, v := range built.Caches {
		b, err := dev.NewBuffer("cache", compile.Bytes(v.Type()))
		require.NoError(t, err)
		o.Bind[state.CacheInput(v)] = b.All()
	}
	g, err := compile.New(t.Context(), dev, built.Graph, o)
	require.NoError(t, err)
	for _, w := range g.Work() {
		if w.Kind == "cached_attention" {
			w.FLOPs, w.Bytes = seen*w.FLOPs, held*w.Bytes
		}
		s := on.Speed.Seconds(w.Work)
		limit, expected = limit+s, expected+s/reached(w, false)
	}
	return limit, expected
}

// rolloutsTable is the table of the page.
func rolloutsTable(t *testing.T) string {
	dir := sparseModel(t, realSizes[slices.IndexFunc(realSizes, func(s realSize) bool { return s.name == rolloutsModel })])
	def, err := hub.ReadConfig(dir)
	require.NoError(t, err)
	names := []string{"RTX 3060", "RX 7900 XTX", "Apple M2"}
	lines := []string{"a pass of 64 rows, ms", "with `train.storage: bf16`, ms", "drawing 32,768 tokens, s", "the same one text at a time, s", "the update of 40,960 positions, s", "memory planned, GiB", "tokens a second of 64 rows, by those of one", "with `train.storage: bf16`", "with that, 128 tokens drawn"}
	both := func(i int, limit, expected float64) { lines[i] += fmt.Sprintf(" | %.3g, %.3g", limit, expected) }
	for _, name := range names {
		on, known := namedCard(name)
		require.True(t, known, name)
		draw, drawn := passTime(t, on, def, "draw", buffers.F32, pageSeen, heldBy(pageTokens))
		half, halved := passTime(t, on, def, "draw", buffers.BF16, pageSeen, heldBy(pageTokens))
		fill, filled := passTime(t, on, def, "fill", buffers.F32, pageFilled, pageFilled)
		one, alone := passTime(t, on, def, "decode", buffers.F32, pageSeen, pageSeen)
		const shortSeen = float64(pagePrompt+pageShort/2) / pageWindow
		short, shorter := passTime(t, on, def, "draw", buffers.BF16, shortSeen, heldBy(pageShort))
		first, only := passTime(t, on, def, "decode", buffers.F32, shortSeen, shortSeen)
		fills := float64((pagePrompts*(pagePrompt-1) + pageRows*(blockOf-1) + 63) / 64)
		both(0, 1e3*draw, 1e3*drawn)
		both(1, 1e3*half, 1e3*halved)
		both(2, pageTokens*draw+fills*fill, pageTokens*drawn+fills*filled)
		both(3, pageRows*pageTokens*one, pageRows*pageTokens*alone)
		set := append([]string{"model.from=" + dir, "rewards=[{kind: repetition}]"}, strings.Fields(rolloutsTuning)...)
		c := planCmd{Step: true, Memory: on.Name, runFlags: runFlags{Set: set}}
		cfg, err := c.load()
		require.NoError(t, err)
		p, err := c.planStep(t.Context(), cfg)
		require.NoError(t, err)
		of := p.Cards[slices.IndexFunc(p.Cards, func(p plannedCard) bool { return p.Name == on.Name })]
		both(4, of.Seconds, of.Expected)
		least := uint64(0)
		for _, choice := range plannedWith(t, on.Name, set...).Choices {
			if least == 0 || choice.Planned < least {
				least = choice.Planned
			}
		}
		lines[5] += fmt.Sprintf(" | %.3g", float64(least)/(1<<30))
		both(6, pageRows*one/draw, pageRows*alone/drawn)
		both(7, pageRows*one/half, pageRows*alone/halved)
		both(8, pageRows*first/short, pageRows*only/shorter)
	}
	return fmt.Sprintf("\n| | %s |\n|---%s|\n| %s |\n\n", strings.Join(names, " | "), strings.Repeat("|---:", len(names)), strings.Join(lines, " |\n| "))
}

// docs/benchmarks.md has what rollouts come to by the model of cards.
func TestPageOfRollouts(t *testing.T) {
	gputest.Long(t, "TestSizes")
	heldPage(t, rolloutsPage, rolloutsTable(t))
}
