package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/run/setup"
)

// Each part takes the longer of its two times, and parts follow each other.
func TestTimeOfAStepOnACard(t *testing.T) {
	p := plannedStep{Tokens: 600, Work: []plannedWork{
		{Work: compile.Work{Group: "products", Work: gpu.Work{Bytes: 100, FLOPs: 8000}}},
		{Work: compile.Work{Group: "the rest", Work: gpu.Work{Bytes: 300, FLOPs: 1000}, Least: 150}},
		{Work: compile.Work{Group: "products", Work: gpu.Work{Bytes: 200, FLOPs: 200}}},
	}}
	c := p.on(card{Name: "one", Speed: gpu.Speed{BytesPerSecond: 100, FLOPS: 1000}})
	assert.Equal(t, 8.0+3+2, c.Seconds)
	assert.InDelta(t, 600.0/13, c.TokensPerSecond, 1e-9)
	require.Len(t, c.Groups, 2)
	assert.Equal(t, "products", c.Groups[0].Group)
	assert.InDelta(t, 10.0/13, c.Groups[0].Share, 1e-9)

	p.Cards = []plannedCard{c}
	var out bytes.Buffer
	require.NoError(t, p.write(&out))
	assert.Contains(t, out.String(), "the rest moves 2.00 times")
	assert.Contains(t, out.String(), "products 77 %, the rest 23 %")
}

// A step is planned without any adapter, with the kernels of a card.
func TestPlanOfAStep(t *testing.T) {
	c := planCmd{Step: true, runFlags: runFlags{Set: []string{"model.width=32", "model.layers=2", "train.batch=4", "train.accumulate=2", "data.text=absent.txt"}}}
	cfg, err := c.load()
	require.NoError(t, err)
	p, err := c.planStep(t.Context(), cfg)
	require.NoError(t, err)
	assert.Equal(t, 2*4*cfg.Model.Context, p.Tokens)
	groups := map[string]bool{}
	for _, w := range p.Work {
		groups[w.Group] = true
		if w.Group == "products" {
			assert.True(t, strings.HasPrefix(w.Kernels, "matmul"), w.Kernels)
		}
	}
	assert.Len(t, groups, 5)
	require.Len(t, p.Cards, len(rated()))
	for _, on := range p.Cards {
		assert.InDelta(t, on.TokensPerSecond*on.Expected, p.Tokens, 1e-6)
	}
	assert.Less(t, p.Cards[0].Expected, p.Cards[3].Expected)
	var rest compile.Work
	for _, w := range p.Work {
		if w.Group == compile.Rest {
			rest.Bytes, rest.Least = rest.Bytes+w.Bytes, rest.Least+w.Least
		}
	}
	assert.GreaterOrEqual(t, rest.Bytes, rest.Least)
	assert.Positive(t, rest.Least)

	all := func(p *plannedStep) (operations int64) {
		for _, w := range p.Work {
			operations += w.MultiplyAdds
		}
		return operations
	}
	once := all(p)
	require.NoError(t, cfg.Set("train.recompute=layers"))
	p, err = c.planStep(t.Context(), cfg)
	require.NoError(t, err)
	assert.Greater(t, all(p), once)
	var out bytes.Buffer
	require.NoError(t, p.write(&out))
	assert.Contains(t, out.String(), fmt.Sprintf("train.recompute layers: %.2f of a forward pass is computed again\n", p.Again))
	assertPage(t, out.String())

	c.Adapter = "no such adapter"
	_, err = c.planStep(t.Context(), cfg)
	require.Error(t, err)
}

// The step of GPT-2 124M at 8 x 1,024 tokens on a card of 10 TFLOP/s is several submits, none of which is expected to take longer than the limit, and no
// more than that needs.
func TestSubmitsOfGPT2OnACard(t *testing.T) {
	c := planCmd{Step: true, runFlags: runFlags{Set: []string{
		"model.layers=12", "model.heads=12", "model.width=768", "model.context=1024", "model.vocab=50257", "train.batch=8", "data.text=absent.txt",
	}}}
	cfg, err := c.load()
	require.NoError(t, err)
	planned, err := setup.Plan(cfg, io.Discard)
	require.NoError(t, err)
	const limit = time.Second / 2
	p, err := stepOf(t.Context(), planned.State, card{}.adapter(false), limit, []card{{Name: "ten", Speed: gpu.Speed{BytesPerSecond: 360e9, FLOPS: 10e12}}})
	require.NoError(t, err)
	on := p.Cards[0]
	assert.Empty(t, on.TooLong)
	assert.LessOrEqual(t, on.LongestSubmit, limit.Seconds())
	fewest := on.Seconds / ofLimits / limit.Seconds()
	assert.Greater(t, fewest, 2.0)
	assert.GreaterOrEqual(t, float64(on.Submits), fewest)
	assert.Less(t, float64(on.Submits), 2*fewest+1, "two that follow each other are longer than the limit")

	p.Cards[0].plannedSubmits = summed([]gpu.Planned{{Takes: 2 * limit, Longest: "matmul", LongestTakes: 2 * limit}}, limit)
	var out bytes.Buffer
	require.NoError(t, p.write(&out))
	assertPage(t, out.String())
	assert.Contains(t, strings.ReplaceAll(out.String(), "\n", " "), "on ten matmul is expected to take 1 s, wanted at most 0.5 s (device.submit_limit), and is not to be cut: lower train.batch")
}

// The shares of a card's limits that kernels are expected to reach are those of the page of the H100, as long as that is of these kernels: whoever
// measures anew writes what this test logs into reaches.
func TestReached(t *testing.T) {
	raw, err := os.ReadFile("../../docs/cards/nvidia-h100-vulkan.json")
	require.NoError(t, err)
	var page bench.Card
	require.NoError(t, json.Unmarshal(raw, &page))
	h100, ok := namedCard("H100 80GB")
	require.True(t, ok)
	for _, m := range page.Models {
		if !strings.HasPrefix(m.Name, "GPT-2 124M") {
			continue
		}
		units := strings.HasSuffix(m.Name, "f16")
		c := planCmd{Step: true, Memory: h100.Name, runFlags: runFlags{Set: append(m.Set, "data.text=absent.txt")}}
		cfg, err := c.load()
		require.NoError(t, err)
		p, err := c.planStep(t.Context(), cfg)
		require.NoError(t, err)
		limits, took, dispatches := map[string]float64{}, map[string]float64{}, 0
		for _, w := range p.Work {
			limits[w.Group] += h100.Seconds(w.Work.Work)
			dispatches += w.Dispatches
		}
		for _, o := range m.Operations {
			switch _, known := reaches[o.Name]; {
			case known:
				took[o.Name] += o.Seconds
			case o.Name == "update and sums":
				took["optimizer"] += o.Seconds
			default:
				took[compile.Rest] += o.Seconds
			}
		}
		if dispatches != m.Dispatches {
			t.Logf("%s: the page is of other kernels: %d dispatches, planned %d", m.Name, m.Dispatches, dispatches)
		}
		for group, r := range reaches {
			said := r.f32
			if units {
				said = r.units
			}
			found := limits[group] / took[group]
			t.Logf("%s: %s: %.2f", m.Name, group, found)
			if dispatches == m.Dispatches {
				assert.InEpsilon(t, found, said, 0.1, "%s: %s", m.Name, group)
			}
		}
	}
}
