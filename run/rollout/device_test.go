package rollout

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/state"
)

// families are a small model of each family.
func families(t testing.TB) map[string]model.Definition {
	dirs, err := filepath.Glob("../../model/testdata/models/*")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	all := map[string]model.Definition{}
	for _, dir := range dirs {
		all[filepath.Base(dir)], err = hub.ReadConfig(dir)
		require.NoError(t, err)
	}
	return all
}

// opened is a model that continues so many texts at once; 0: one.
func opened(t testing.TB, dev *gpu.Device, def model.Definition, rows int) *state.Model {
	hosts := model.Init(def, 5)
	for _, h := range hosts { // large enough that every position counts
		for i := range h.Data {
			if len(h.Shape) > 1 {
				h.Data[i] *= 8
			}
		}
	}
	m, err := state.NewModel(dev, def, hosts)
	require.NoError(t, err)
	t.Cleanup(m.Release)
	if rows > 0 {
		require.NoError(t, m.Widen(rows))
	}
	return m
}

// text is a prompt of so many tokens.
func text(n, from, vocab int) (out []int32) {
	for i := range n {
		out = append(out, int32((from+i*i*7+i*3)%vocab))
	}
	return out
}

// The same row comes out of many, bit by bit, alone, among others, after others have ended and of fewer rows; its log-probabilities are those of the model
// that continues one text.
func TestRows(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		all := families(t)
		if testing.Short() || gputest.Again(t, dev) {
			all = map[string]model.Definition{"gemma3": all["gemma3_small"]}
		}
		for name, def := range all {
			t.Run(name, func(t *testing.T) {
				window, vocab := def.Context(), def.Vocab()
				c := Config{Tokens: 12, Rows: 8, Temperature: 1, Seed: 3, Stop: []int32{5, 6}}
				prompts := []Prompt{
					{text(min(38, window-6), 1, vocab), 0, 5}, {text(min(33, window-5), 2, vocab), 1, 3}, {text(1, 3, vocab), 2, 4}, {text(17, 3, vocab), 3, 2}, {text(16, 9, vocab), 4, 1},
				}
				draw := func(m Model, c Config, prompts ...Prompt) []Completion {
					all, err := Draw(t.Context(), c, m, prompts, nil)
					require.NoError(t, err)
					return all
				}
				m := opened(t, dev, def, 8)
				all := draw(m, c, prompts...)
				assert.Equal(t, all, draw(m, c, prompts...), "nothing is left of what came before")
				c.Rows = 3
				assert.Equal(t, all, draw(m, c, prompts...), "fewer at once")
				c.Rows = 8
				few := c
				few.TopK = 20 // drawn by the host
				chosen := draw(m, few, prompts...)
				assert.NotEqual(t, all, chosen)
				assert.Equal(t, chosen[:prompts[0].Samples], draw(m, few, prompts[0]))
				slices.Reverse(prompts)
				other := draw(m, c, prompts...)
				slices.Reverse(prompts)
				one, n := opened(t, dev, def, 0), 0
				for i, p := range prompts {
					own := slices.Clone(all[n:][:p.Samples])
					n += p.Samples
					var turned []Completion
					for _, found := range other {
						if found.Prompt == len(prompts)-1-i {
							turned = append(turned, Completion{i, found.Sample, found.Tokens, found.LogProbs, found.Truncated})
						}
					}
					assert.Equal(t, own, turned, "other neighbours, at other places")
					for j := range own {
						own[j].Prompt = 0
					}
					assert.Equal(t, own, draw(m, c, p), "alone")
					for _, found := range own {
						seen := slices.Clone(p.Tokens)
						for at, token := range found.Tokens {
							var logits []float32
							var err error
							if at == 0 {
								logits, err = one.Logits(t.Context(), seen)
							} else {
								logits, err = one.Decode(t.Context(), seen[len(seen)-1])
							}
							require.NoError(t, err)
							of, err := sharesOf(logits, 1)
							require.NoError(t, err)
							want := of.logProb(logits[token])
							largest := float64(max(slices.Max(logits), -slices.Min(logits)))
							require.InDelta(t, want, found.LogProbs[at], 4e-5*max(1, largest), "%d tokens", len(seen))
							seen = append(seen, token)
						}
					}
				}
				require.False(t, math.IsNaN(float64(all[0].LogProbs[0])))
			})
		}
	})
}

// Of 64 rows, by the kernels of processors and of graphics cards, each is as it is alone, where 63 places are empty. Keys and values in texels have the bits
// of those in buffers.
func TestAmongMany(t *testing.T) {
	software := gputest.Device(t)
	l := software.Limits()
	l.Software = false
	buffers := gputest.Device(t, func(o *gpu.Options) { o.Texels = gpu.TexelsOff })
	drawn := map[string][]Completion{}
	for name, dev := range map[string]*gpu.Device{"processor": software, "buffers": buffers, "card": gputest.Device(t, gputest.WithLimits(l))} {
		def := families(t)["qwen3_qknorm"]
		m := opened(t, dev, def, 64)
		prompt := text(19, 1, def.Vocab())
		for _, c := range []Config{{Temperature: 1}, {Temperature: 1, TopP: .9}} {
			c.Tokens, c.Rows = 8, 64
			all, err := Draw(t.Context(), c, m, []Prompt{{prompt, 0, 40}, {prompt[:7], 1, 30}}, nil)
			require.NoError(t, err, name)
			alone, err := Draw(t.Context(), c, m, []Prompt{{prompt, 0, 1}}, nil)
			require.NoError(t, err, name)
			assert.Equal(t, alone, all[:1], name)
			alone, err = Draw(t.Context(), c, m, []Prompt{{prompt[:7], 1, 30}}, nil)
			require.NoError(t, err, name)
			for i := range alone {
				alone[i].Prompt = 1
			}
			assert.Equal(t, alone, all[40:], name)
			drawn[name] = append(drawn[name], all...)
		}
	}
	assert.Equal(t, drawn["processor"], drawn["buffers"])
}

// scored are windows with one label each.
type scored struct {
	tokens [][]int32
	at     []int // of the label, in its window
}

func (s scored) Vocab() int                          { return 1 }
func (s scored) Walk(int, uint64) (data.Walk, error) { return nil, nil }
func (s scored) Shelf(int) (data.Shelf, error)       { return s, nil }
func (s scored) Windows() int64                      { return int64(len(s.tokens)) }
func (s scored) Fill(b *data.Batch, row int, i int64) error {
	width := len(b.Tokens) / b.Rows
	copy(b.Tokens[row*width:(row+1)*width], s.tokens[i])
	b.Labels[row*width+s.at[i]-1] = s.tokens[i][s.at[i]]
	return nil
}

// Stages draw what one device does.
func TestOnStages(t *testing.T) {
	dev, def := gputest.Device(t), families(t)["gemma2_small"]
	c := state.Config{Definition: def, Optimizer: optim.Config{Name: "sgd", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1, Steps: 1}}}, Batch: 1, Rows: 3, Seed: 7}
	whole, err := state.Create(t.Context(), dev, c)
	require.NoError(t, err)
	t.Cleanup(whole.Release)
	job, err := state.NewJob(c)
	require.NoError(t, err)
	built, err := job.Build()
	require.NoError(t, err)
	units, err := partition.Units(built)
	require.NoError(t, err)
	cut, err := partition.Auto(units, 2, 1, nil)
	require.NoError(t, err)
	staged, err := pipeline.Create(t.Context(), []*gpu.Device{dev, gputest.Device(t)}, pipeline.Config{State: c, Assignment: cut}, nil)
	require.NoError(t, err)
	t.Cleanup(staged.Release)
	prompts := []Prompt{{text(18, 3, def.Vocab()), 0, 4}, {text(5, 3, def.Vocab()), 1, 3}}
	for _, how := range []Config{{Tokens: 9, Rows: 3, Temperature: 1}, {Tokens: 9, Rows: 3, Temperature: 1, TopK: 9}, {Tokens: 9, Rows: 2}} {
		want, err := Draw(t.Context(), how, whole, prompts, nil)
		require.NoError(t, err)
		found, err := Draw(t.Context(), how, staged, prompts, nil)
		require.NoError(t, err)
		assert.Equal(t, want, found)
	}
}

// Log-probabilities of what is drawn are those that the forward pass of training has for it.
func TestAsTrained(t *testing.T) {
	dev := gputest.Device(t)
	all := families(t)
	var err error
	all["adapters"], err = model.WithLoRA(all["qwen3_qknorm"], model.LoRA{Rank: 3, Alpha: 6, DoRA: true})
	require.NoError(t, err)
	all["quantized"], err = model.WithQuantization(all["gemma3_small"], model.Quantization{Mode: "affine", Bits: 4, Group: 32})
	require.NoError(t, err)
	all["gpt2"], err = model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: 60, Context: 48})
	require.NoError(t, err)
	all["stored in bf16"] = all["qwen3_qknorm"]
	for name, def := range all {
		if testing.Short() && name != "gemma2_small" && name != "adapters" && name != "stored in bf16" {
			continue
		}
		storage, least, most := buffers.F32, 0.0, 2e-6 // a few roundings of a loss of about log(vocabulary)
		if name == "stored in bf16" {
			storage, least, most = buffers.BF16, 1e-5, 4e-3 // one rounding of keys and of values
		}
		const rows = 6
		c := state.Config{Definition: def, Optimizer: optim.Config{Name: "sgd", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1, Steps: 1}}}, Batch: 1, Evaluation: 1, Rows: rows, Seed: 7, Storage: storage}
		s, err := state.Create(t.Context(), dev, c)
		require.NoError(t, err, name)
		t.Cleanup(s.Release)
		width := s.Config().Sequence
		prompts := []Prompt{{text(width/2, 3, def.Vocab()), 0, 4}, {text(5, 3, def.Vocab()), 1, 3}}
		drawn, err := Draw(t.Context(), Config{Tokens: 16, Rows: rows, Temperature: 1}, s, prompts, nil)
		require.NoError(t, err, name)
		var with scored
		var found []float32
		for _, d := range drawn {
			all := slices.Concat(prompts[d.Prompt].Tokens, d.Tokens)
			for i, p := range d.LogProbs {
				with.tokens, with.at, found = append(with.tokens, all), append(with.at, len(all)-len(d.Tokens)+i), append(found, p)
			}
		}
		e, err := data.NewEvaluation(with, width, 1, 0)
		require.NoError(t, err)
		losses, err := s.BatchLosses(t.Context(), e)
		require.NoError(t, err)
		require.Len(t, losses, len(found))
		largest := 0.0
		for i, l := range losses {
			require.Equal(t, 1, l.Tokens)
			largest = max(largest, math.Abs(float64(-l.Sum-found[i])))
		}
		t.Logf("%s: %d tokens, the largest difference is %.2g", name, len(found), largest)
		assert.Less(t, largest, most, name)
		assert.GreaterOrEqual(t, largest, least, name)
	}
}
