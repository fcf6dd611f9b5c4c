package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph/compile"

	"gputrain/gpu"
)

// plannedWith plans for a card that is not here.
func plannedWith(t *testing.T, memory string, set ...string) *planned {
	t.Helper()
	c := planCmd{runFlags: runFlags{Set: set}, Memory: memory}
	cfg, err := c.load()
	require.NoError(t, err)
	p, err := c.plan(t.Context(), cfg)
	require.NoError(t, err)
	return p
}

// A name or a size stands for a card; an unknown name lists what is known.
func TestWantedCard(t *testing.T) {
	for text, want := range map[string]struct {
		bytes uint64
		kind  string
	}{
		"24GiB": {24 << 30, "discrete"}, "rtx 3060": {12 << 30 / 16 * 15, "discrete"}, "RX7900XTX": {24 << 30 / 16 * 15, "discrete"},
		"arc b580": {12 << 30 / 16 * 15, "discrete"}, "m1": {8 << 30 / 3 * 2, "integrated"},
	} {
		a, bytes, err := wantedCard(text, false)
		require.NoError(t, err, text)
		assert.Equal(t, want.bytes, bytes, text)
		assert.Equal(t, want.kind, a.Type, text)
		assert.EqualValues(t, 2<<30, a.Limits.BindingBytes, text)
	}
	for _, none := range []string{"0", "0GiB", "0.2"} {
		_, _, err := wantedCard(none, false)
		assert.ErrorContains(t, err, fmt.Sprintf("--memory: found %q, wanted more than no memory", none))
		assert.Equal(t, 2, exitCode(err))
	}
	_, _, err := wantedCard("rtx 3061", false)
	assert.ErrorContains(t, err, `--memory: found "rtx 3061", did you mean "rtx 3060"?: wanted bytes, such as 24GiB, or one of `)
	assert.ErrorContains(t, err, "arc b580 (12.00 GiB)")
	assert.Equal(t, 2, exitCode(err))
}

// A plan of memory and one of a step choose kernels for the same card: with its multiprocessors, and with matrix units where it has some and the run asks.
func TestCardOfPlans(t *testing.T) {
	set := []string{"model.width=512", "model.layers=2", "model.context=512", "train.batch=4", "data.text=absent.txt", "train.products=f16"}
	for text, want := range map[string]struct {
		units                      bool
		multiprocessors, registers int
	}{"rtx 3060": {true, 28, 255}, "rx 6600": {false, 28, 256}, "arc b580": {false, 20, 128}, "m2": {false, 10, 128}, "24GiB": {true, 0, 128}} {
		var activations [2]uint64
		for i, matrix := range []string{"off", "auto"} {
			c := planCmd{Step: true, Memory: text, runFlags: runFlags{Set: append(set, "device.matrix="+matrix)}}
			cfg, err := c.load()
			require.NoError(t, err)
			devices, err := devicesOn(cfg, text)
			require.NoError(t, err)
			l := devices[0].Limits()
			assert.Equal(t, want.units && matrix == "auto", compile.UnitsOf(l) != "", "%s %s", text, matrix)
			assert.Equal(t, want.multiprocessors, l.Multiprocessors, text)
			assert.Equal(t, want.registers, l.Registers.Budget, text)
			step, err := c.planStep(t.Context(), cfg)
			require.NoError(t, err)
			assert.Equal(t, devices[0].Adapter().Name, step.Kernels)
			units := 0.0
			for _, w := range step.Work {
				units += w.Units
			}
			assert.Equal(t, want.units && matrix == "auto", units > 0, "%s %s", text, matrix)
			activations[i] = plannedWith(t, text, c.Set...).Choices[0].Activations
		}
		assert.Equal(t, want.units, activations[0] != activations[1], "%s: what is in f16 for units has another size", text)
	}
	a, _, err := wantedCard("24GiB", true)
	require.NoError(t, err)
	assert.Equal(t, "a card with 24.00 GiB, multiprocessors unknown, matrix units: 16x16x16 by 32 invocations", a.Name)
	a, _, err = wantedCard("m2", true)
	require.NoError(t, err)
	assert.Equal(t, "Apple M2 with 8.00 GiB, matrix units: none", a.Name)
}

// A plan for cards that are not here takes no adapter, gives each stage one, and cuts for what they have.
func TestPlanForMemoryThatIsNotHere(t *testing.T) {
	t.Setenv("GPUTRAIN_ADAPTER", "none of these")
	set := []string{"model.width=64", "model.layers=4", "data.text=absent.txt"}
	p := plannedWith(t, "1GiB", set...)
	require.NoError(t, p.refused)
	assert.Empty(t, p.Advice)
	assert.EqualValues(t, 1<<30, *p.Stages[0].Available)
	assert.Contains(t, p.Stages[0].Adapter, "a card with 1.00 GiB, multiprocessors unknown, not here")
	p = plannedWith(t, "1GiB", append(set, "train.memory_limit=512MiB")...)
	assert.EqualValues(t, 512<<20, *p.Stages[0].Available)
	staged := plannedWith(t, gpuSize(plannedWith(t, "1GiB", append(set, "train.recompute=none")...).Stages[0].Planned-1), append(set, "pipeline.stages=2", "train.recompute=none")...)
	require.NoError(t, staged.refused, "two cards have twice the memory of one")
	assert.NotEqual(t, staged.Stages[0].Index, staged.Stages[1].Index)
}

// gpuSize is bytes as a size of a run file.
func gpuSize(bytes uint64) string { return gpu.SizeText(bytes / (1 << 20) * (1 << 20)) }

// What is advised where nothing fits takes what a plan with those settings says, and what fits so fits.
func TestAdviceHolds(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
		"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4096,
		"max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": true}`), 0o644))
	set := []string{"model.from=" + dir, "data.text=absent.txt", "train.batch=1", "model.context=128", "train.recompute=layers"}
	for _, memory := range []string{"60MiB", "115MiB"} {
		if testing.Short() && memory == "60MiB" {
			continue
		}
		p := plannedWith(t, memory, set...)
		require.Error(t, p.refused)
		assert.Equal(t, 5, exitCode(p.refused))
		found := map[string]bool{}
		for _, a := range p.Advice {
			found[a.means] = a.Fits
			other := plannedWith(t, memory, append(set[:len(set):len(set)], a.Set...)...)
			most := uint64(0)
			for _, s := range other.Stages {
				most = max(most, s.Planned)
			}
			assert.Equal(t, most, a.Planned, a.means)
			assert.Equal(t, other.refused == nil, a.Fits, a.means)
		}
		for _, means := range []string{"state of the optimizer in bf16", "state of the optimizer in eight bits", "one moment a parameter", "all but two layers frozen, in bf16", "adapters, beside a base in nf4", "adapters, beside a base in nf4-nested", "no samples"} {
			assert.Contains(t, found, means)
		}
		assert.True(t, found["adapters, beside a base in nf4"])
		assert.Equal(t, "the smallest cards of the list of --memory that hold it have 8.00 GiB: Apple M2, AMD RX 5700 XT, and 7 more", p.Card)
		assert.Equal(t, memory == "115MiB", found["one moment a parameter"], "%s", memory)
		var out bytes.Buffer
		require.NoError(t, p.write(&out))
		assertPage(t, out.String())
		assert.Contains(t, out.String(), "optimizer.name=lion")
	}
	assert.Contains(t, plannedWith(t, "115MiB", append(set, "model.base=bf16", "lora.rank=8", "train.batch=16000", "train.recompute=none")...).Card, "no card of the list")
	p := plannedWith(t, "160MiB", append(set, "train.batch=64")...)
	require.Error(t, p.refused)
	var means []string
	for _, a := range p.Advice {
		means = append(means, a.means)
	}
	assert.Contains(t, means, "one sequence at once", "where only activations are too large")
	assert.NotContains(t, strings.Join(means, "\n"), "one sequence at once\none sequence at once")
}
