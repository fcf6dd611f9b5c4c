package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
)

// drawnByHand is a modelRun of the equations of losses of drawn completions and of their slopes, with what may be wrong about them.
type drawnByHand struct {
	*byHand
	d     *drawnCase
	wrong string
	old   func(row int, lp []float64) []float64 // what old_logps are taken for; nil: those of the case
}

func newDrawnByHand(t *testing.T, d *drawnCase, wrong string) *drawnByHand {
	return &drawnByHand{byHand: newByHand(t, &preferenceCase{loraCase: d.loraCase}), d: d, wrong: wrong}
}

// softmaxOf are the logarithms of a row's softmax of logits/temperature.
func softmaxOf(logits *graph.Array, i int, temperature float64) []float64 {
	v, sum := logits.Shape[1], 0.0
	out := slices.Clone(logits.Data[i*v : (i+1)*v])
	for j := range out {
		out[j] /= temperature
		sum += math.Exp(out[j])
	}
	for j := range out {
		out[j] -= math.Log(sum)
	}
	return out
}

func (h *drawnByHand) learn(b data.Batch) (map[string][]float32, error) {
	d, step := h.d, h.done
	h.done++
	feeds := h.byHand.feeds(b.Tokens)
	base, err := graph.Eval(h.base.Graph, feeds, h.base.Logits)
	require.NoError(h.t, err)
	policy, err := graph.Eval(h.policy.Graph, feeds, h.policy.Logits)
	require.NoError(h.t, err)
	logits, slopes := policy[0], graph.NewArray(policy[0].Shape)
	of, reference := d.Temperature, d.Temperature
	switch h.wrong {
	case "no temperature":
		of, reference = 1, 1
	case "a reference without temperature":
		reference = 1
	}
	loss, name := 0.0, d.learned.Loss
	found := map[string][]float32{}
	note := func(name string, i int, x float64) {
		if found[name] == nil {
			found[name] = make([]float32, len(b.Labels))
			if d.learned.Loss == "gspo" && strings.HasPrefix(name, "clip_") {
				found[name] = make([]float32, d.Batch)
			}
		}
		found[name][i] = float32(x)
	}
	high := map[bool]float64{true: d.Epsilon}[d.EpsilonHigh == nil]
	if d.EpsilonHigh != nil {
		high = *d.EpsilonHigh
	}
	delta := math.Inf(1)
	if d.Delta != nil {
		delta = *d.Delta
	}
	masked := func(row drawn) bool {
		return d.Mask && !slices.Contains(d.StopIDs, row.Completion[len(row.Completion)-1]) && h.wrong != "nothing masked"
	}
	tokens, count := 0.0, 0.0
	for _, row := range d.of(step) {
		if !masked(row) {
			tokens += float64(len(row.Completion))
		}
		if !masked(row) || h.wrong != "masked rows are none" {
			count++
		}
	}
	for r, row := range d.of(step) {
		n, a := float64(len(row.Completion)), d.gained[step].Of[r]
		if h.wrong == "deviations over all" { // not one less
			g := float64(d.Generations)
			a *= math.Sqrt(g / (g - 1))
		}
		weight := 1 / (n * count)
		switch by := name; {
		case h.wrong == "the other divisor" && (by == "grpo" || by == "gspo"), h.wrong != "the other divisor" && slices.Contains([]string{"dapo", "bnpo", "cispo"}, by):
			weight = 1 / tokens
		case by == "dr_grpo":
			weight = 1 / (count * d.Longest)
		case h.wrong == "a row's own tokens":
			weight = 1 / n
		}
		if masked(row) {
			weight = 0
		}
		from := r*d.SeqLen + len(row.Prompt) - 1
		lp, ref, old := make([]float64, len(row.Completion)), make([]float64, len(row.Completion)), make([]float64, len(row.Completion))
		mean := 0.0
		for i, id := range row.Completion {
			all := softmaxOf(logits, from+i, of)
			lp[i], old[i] = all[id], float64(row.Old[i])
			note("logps", from+i, all[id])
			entropy := 0.0
			for _, l := range all {
				entropy -= math.Exp(l) * l
			}
			note("entropy", from+i, entropy)
			if ref[i] = softmaxOf(base[0], from+i, reference)[id]; d.reference != nil {
				ref[i] = float64(d.reference[step*len(b.Labels)+from+i])
			}
			if d.Beta > 0 {
				note("reference_logps", from+i, ref[i])
			}
		}
		if h.old != nil {
			old = h.old(step*d.Batch+r, lp)
		}
		for i := range lp {
			mean += (lp[i] - old[i]) / n
		}
		for i, id := range row.Completion {
			ratio := math.Exp(lp[i] - old[i])
			switch {
			case name == "gspo":
				ratio = math.Exp(mean)
			case h.wrong == "the ratio upside down":
				ratio = 1 / ratio
			}
			v, slope := 0.0, 0.0
			if name == "cispo" {
				w := min(ratio, high)
				v, slope = -w*a*lp[i], -w*a
				if h.wrong == "a gradient of the weight" && ratio < high {
					slope += -w * a * lp[i]
				}
				note("cispo_clip", from+i, number(ratio > high && a > 0 && !masked(row)))
			} else {
				clipped := max(1-d.Epsilon, min(ratio, 1+high))
				v, slope = -min(min(ratio, delta)*a, clipped*a), -a*ratio
				low, above := ratio < 1-d.Epsilon && a < 0, ratio > 1+high && a > 0
				if (low || above || ratio > delta && a < 0) && h.wrong != "a gradient where it is clipped" {
					slope = 0
				}
				if h.wrong == "shares without signs" {
					low, above = ratio < 1-d.Epsilon, ratio > 1+high
				}
				at := from + i
				if name == "gspo" {
					at = r
				}
				note("clip_low", at, number(low && !masked(row)))
				note("clip_high", at, number(above && !masked(row)))
			}
			if d.Beta > 0 {
				q := ref[i] - lp[i]
				if h.wrong == "k upside down" {
					q = -q
				}
				k, dk := math.Exp(q)-q-1, 1-math.Exp(q)
				switch h.wrong {
				case "k upside down":
					dk = -dk
				case "k times the ratio":
					k, dk = k*ratio, dk*ratio+k*ratio
				}
				note("kl", from+i, k*number(!masked(row)))
				v, slope = v+d.Beta*k, slope+d.Beta*dk
			}
			if name == "gspo" && d.Beta == 0 { // every token moves the ratio of all: n times a share of 1/n
				assert.InDelta(h.t, mean, math.Log(ratio), 1e-12)
			}
			loss += weight * v
			slope *= weight / of
			if h.wrong == "a slope without temperature" {
				slope *= of
			}
			at, width := from+i, logits.Shape[1]
			for j, l := range softmaxOf(logits, at, of) {
				slopes.Data[at*width+j] -= slope * math.Exp(l)
			}
			slopes.Data[at*width+int(id)] += slope
		}
	}
	found["loss"] = []float32{float32(loss)}
	feeds["slopes"] = slopes
	grads, err := graph.Eval(h.policy.Graph, feeds, h.grads...)
	require.NoError(h.t, err)
	h.last = nil
	for i, p := range h.m.initial {
		h.last = append(h.last, buffers.Host{Path: p.Path, Shape: p.Shape, Data: narrowed(grads[i])})
	}
	return found, h.optimizer.Update(h.last)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func openDrawn(t *testing.T, name string) (*goldenCase, *drawnCase) {
	return opened(t, "grpo", name, loadDrawn)
}

// TestTwinFollowsDrawn holds the graph of a loss of drawn completions against a case, in float64, and the equations of this file too; and what a case must
// catch, of the equations and of what is fed.
func TestTwinFollowsDrawn(t *testing.T) {
	const name = "grpo_qwen2_grpo_kl"
	for _, wrong := range []string{
		"", "no temperature", "a reference without temperature", "a slope without temperature", "nothing masked", "masked rows are none", "deviations over all",
		"the other divisor", "a row's own tokens", "the ratio upside down", "a gradient where it is clipped", "shares without signs", "k upside down", "k times the ratio",
	} {
		t.Run("by hand "+wrong, func(t *testing.T) {
			c, d := openDrawn(t, name)
			seen, err := d.train(c, newDrawnByHand(t, d, wrong))
			require.NoError(t, err)
			assertPassed(t, wrong == "", seen)
		})
	}
	set := func(of string, to float64) func(d *drawnCase) {
		return func(d *drawnCase) { d.learned.Numbers[of] = to }
	}
	for what, spoil := range map[string]func(d *drawnCase){
		"": func(*drawnCase) {}, "another beta": set("beta", 0.201), "another temperature": set("temperature", 0.701), "another epsilon": set("epsilon", 0.25),
		"a wider bound": set("epsilon_high", 0.3), "a cap": set("delta", 1.05), "nothing masked": set("mask_truncated_completions", 0),
		"tokens": func(d *drawnCase) { d.learned.Loss = "dapo" }, "ratios of rows": func(d *drawnCase) { d.learned.Loss = "gspo" },
		"a token of a prompt": func(d *drawnCase) { d.rows[5].Prompt[0] ^= 1 },
		"prompts learn": func(d *drawnCase) {
			for i, row := range d.rows {
				if last := len(row.Prompt) - 1; last > 0 {
					d.rows[i].Completion = slices.Concat(row.Prompt[last:], row.Completion)
					d.rows[i].Prompt, d.rows[i].Old = row.Prompt[:last], slices.Concat([]float32{-4}, row.Old)
				}
			}
		},
		"an old number": func(d *drawnCase) { d.rows[0].Old[0] += 0.01; d.rows[4].Old[0] += 0.01; d.rows[8].Old[0] += 0.01 },
		"an advantage":  func(d *drawnCase) { d.gained[1].Of[3] += 0.001 },
		"a reward":      func(d *drawnCase) { d.Metrics[2]["reward_means"][1] += 0.001 },
		"an entropy":    func(d *drawnCase) { d.Metrics[2]["entropy"][0] += 0.001 },
		"a share":       func(d *drawnCase) { d.Metrics[0]["clip_high_max"][0] += 0.001 },
	} {
		t.Run("twin "+what, func(t *testing.T) {
			c, d := openDrawn(t, name)
			spoil(d)
			seen, err := d.train(c, newTwinModel(t, &d.modelCase))
			if what == "prompts learn" && err != nil {
				return // other tensors
			}
			require.NoError(t, err)
			assertPassed(t, what == "", seen)
		})
	}
}

// drawnSetting is a setting of a made case.
type drawnSetting struct {
	name  string
	def   model.Definition
	whole bool // all parameters are trained, and the reference is given
	once  bool // the ratios are those of an update that drew the completions itself
	set   func(d *drawnCase)
}

// madeDrawn is a case of which drawnByHand tells all that is expected.
func madeDrawn(t *testing.T, s drawnSetting) (*goldenCase, *drawnCase) {
	random := rand.New(rand.NewPCG(71, 72))
	d := &drawnCase{Temperature: 1, Epsilon: 0.2, Longest: 9, StopIDs: []int32{2, 3}}
	d.rewarding = rewarding{Generations: 4, Scale: "group", Weights: []float64{1, 0.5}}
	d.Trained, d.def, d.Steps, d.Batch = "whole", s.def, 2, 8
	s.set(d)
	require.NoError(t, d.objective())
	noise := 0.25
	if s.once {
		d.learned.Numbers["on_policy"], noise = 1, 0
	}
	d.Optimizer, d.WeightDecay = "adamw", 0.1
	d.Config = json.RawMessage(`{"b1":0.9,"b2":0.999,"eps":1e-5,"eps_root":0,"mu_dtype":null}`)
	d.Schedule = optim.ScheduleConfig{Type: "constant", LearningRate: 0.003}
	vocab := int32(d.def.Vocab())
	ids := func(n int) (ids []int32) {
		for range 1 + random.IntN(n) {
			ids = append(ids, 4+random.Int32N(vocab-4))
		}
		return ids
	}
	var prompt []int32
	for i := range d.Steps * d.Batch {
		if i%d.Generations == 0 {
			prompt = ids(3)
		}
		row := drawn{completion: completion{prompt, ids(5)}}
		if random.IntN(3) > 0 {
			row.Completion = append(row.Completion, 2+random.Int32N(2))
		}
		for range d.Weights {
			x := math.Round(random.NormFloat64()*8) / 8
			if random.IntN(5) == 0 {
				x = math.NaN()
			}
			row.Rewards = append(row.Rewards, x)
		}
		row.Old = make([]float32, len(row.Completion))
		d.rows = append(d.rows, row)
		d.SeqLen = max(d.SeqLen, len(row.Prompt)+len(row.Completion)-1)
	}
	own := model.AdapterParams(d.def)
	for _, h := range model.Init(d.def, 12) {
		for i := range h.Data {
			h.Data[i] += float32(0.3 * random.NormFloat64())
		}
		if s.whole || slices.Contains(own, h.Path) {
			d.initial = append(d.initial, h)
			d.Params = append(d.Params, paramSpec{Name: h.Path, Shape: h.Shape})
		} else {
			d.frozen = append(d.frozen, h)
		}
	}
	for step := range d.Steps {
		var rewards []numbers
		for _, row := range d.of(step) {
			rewards = append(rewards, row.Rewards)
		}
		gained, err := d.advantages(rewards)
		require.NoError(t, err)
		d.gained = append(d.gained, gained)
	}
	if s.whole && d.Beta > 0 {
		for range d.Steps * d.Batch * d.SeqLen {
			d.reference = append(d.reference, float32(-3+0.3*random.NormFloat64()))
		}
	}
	hand := newDrawnByHand(t, d, "")
	hand.old = func(row int, lp []float64) (old []float64) {
		for i, x := range lp {
			d.rows[row].Old[i] = float32(x + noise*random.NormFloat64())
			old = append(old, float64(d.rows[row].Old[i]))
		}
		return old
	}
	var tensors []safetensors.Tensor
	d.Tolerances.Metrics, d.Tolerances.First = map[string]tolerance{}, map[string]tolerance{}
	for step := range d.Steps {
		found, err := hand.learn(d.batch(step))
		require.NoError(t, err)
		metrics, first, err := d.figures(step, found)
		require.NoError(t, err)
		for name := range metrics {
			d.Tolerances.Metrics[name] = tolerance{RTol: 1e-5, ATol: 2e-5}
		}
		metrics["loss"], metrics["grad_norm"] = numbers{float64(found["loss"][0])}, numbers{norm(hand.last)}
		d.Metrics, d.Losses = append(d.Metrics, metrics), append(d.Losses, metrics["loss"][0])
		if step > 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(first)) {
			d.Tolerances.First[name] = tolerance{RTol: 2e-5, ATol: 5e-5}
			tensors = append(tensors, safetensors.Float32s("expect/0/"+name, []int{len(first[name])}, first[name]))
		}
		for _, h := range hand.last {
			tensors = append(tensors, safetensors.Float32s("expect/0/grads/"+h.Path, h.Shape, h.Data))
		}
	}
	for _, h := range hand.optimizer.Params() {
		tensors = append(tensors, safetensors.Float32s("expect/final/params/"+h.Path, h.Shape, h.Data))
	}
	d.Tolerance.Loss = tolerance{RTol: 1e-5, ATol: 2e-5}
	d.Tolerance.Grads, d.Tolerance.FinalParams = tolerance{RTol: 1e-4, ATol: 1e-8, ATolRelMax: 5e-5}, tolerance{RTol: 1e-5, ATol: 2e-4}
	d.Tolerances.GradNorm = tolerance{RTol: 1e-4, ATol: 1e-7}
	file, err := safetensors.Parse(stored(t, tensors))
	require.NoError(t, err)
	return &goldenCase{tensors: file}, d
}

// drawnSettings are those that no case has.
func drawnSettings(t *testing.T) []drawnSetting {
	plain, err := model.NewLlama(model.LlamaConfig{Layers: 1, Heads: 4, KVHeads: 1, Width: 18, HeadDim: 6, Vocab: 29, Context: 12, Intermediate: 21})
	require.NoError(t, err)
	config, err := os.ReadFile(filepath.Join(families, "models", "gemma2_small", "config.json"))
	require.NoError(t, err)
	capped, err := model.ParseConfig(config)
	require.NoError(t, err)
	adapted := func(def model.Definition, l model.LoRA) model.Definition {
		def, err := model.WithLoRA(def, l)
		require.NoError(t, err)
		return def
	}
	llama := adapted(plain, model.LoRA{Rank: 2, Save: []string{"lm_head"}})
	number := func(x float64) *float64 { return &x }
	return []drawnSetting{
		{"bnpo", llama, false, false, func(d *drawnCase) {
			d.LossType, d.Mask, d.Temperature, d.Delta, d.Beta = "bnpo", true, 1.3, number(1.35), 0.1
		}},
		{"dapo of rewards apart", llama, false, false, func(d *drawnCase) {
			d.LossType, d.EpsilonHigh, d.Generations, d.Aggregation = "dapo", number(0.28), 2, "normalize_then_sum"
		}},
		{"grpo whole", plain, true, false, func(d *drawnCase) {
			d.LossType, d.Mask, d.Beta, d.Temperature, d.Scale = "grpo", true, 0.3, 0.8, "batch"
		}},
		{"gspo", llama, false, false, func(d *drawnCase) {
			d.LossType, d.Level, d.Mask, d.Beta, d.Temperature = "grpo", "sequence", true, 0.2, 0.6
			d.Epsilon, d.EpsilonHigh, d.Delta = 0.05, number(0.06), number(1.1)
		}},
		{"dr_grpo", adapted(plain, model.LoRA{Rank: 2, Target: []string{"lm_head", "q_proj"}}), false, false, func(d *drawnCase) {
			d.LossType, d.Mask, d.Beta, d.Temperature, d.Scale = "dr_grpo", true, 0.1, 0.9, "none"
		}},
		{"cispo", llama, false, false, func(d *drawnCase) {
			d.LossType, d.Mask, d.Temperature, d.EpsilonHigh = "cispo", true, 0.8, number(1.1)
		}},
		{"gspo once", llama, false, true, func(d *drawnCase) { d.LossType, d.Mask, d.Beta = "gspo", true, 0.1 }},
		{"dapo once", llama, false, true, func(d *drawnCase) { d.LossType, d.Temperature = "dapo", 1.2 }},
		{"capped logits", adapted(capped, model.LoRA{Rank: 2, Target: []string{"q_proj", "down_proj"}}), false, false, func(d *drawnCase) {
			d.LossType, d.Temperature, d.Beta = "dapo", 0.7, 0.15
		}},
	}
}

func TestDrawnOfOtherSettings(t *testing.T) {
	settings := drawnSettings(t)
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			c, d := madeDrawn(t, s)
			seen, err := d.train(c, newTwinModel(t, &d.modelCase))
			require.NoError(t, err)
			assertPassed(t, true, seen)
			assert.Less(t, seen.ratio, 0.2, "float64 throughout, but for what is stored")
		})
	}
	for what, spoil := range map[string]func(d *drawnCase){
		"a cap that is less": func(d *drawnCase) { d.learned.Numbers["epsilon_high"] = 1.05 },
		"the other divisor": func(d *drawnCase) {
			d.learned.Loss, d.learned.Numbers = "dapo", map[string]float64{"temperature": 0.8, "epsilon_high": 0.1}
		},
	} {
		t.Run("cispo "+what, func(t *testing.T) {
			c, d := madeDrawn(t, settings[5])
			spoil(d)
			seen, err := d.train(c, newTwinModel(t, &d.modelCase))
			if err == nil {
				assertPassed(t, false, seen)
			}
		})
	}
	c, d := madeDrawn(t, settings[5])
	seen, err := d.train(c, newDrawnByHand(t, d, "a gradient of the weight"))
	require.NoError(t, err)
	assertPassed(t, false, seen)
}

// TestDrawnOnDevice runs made cases on a device, whole and in parts that cut groups, and on two stages.
func TestDrawnOnDevice(t *testing.T) {
	settings := drawnSettings(t)
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, s := range gputest.Some(t, dev, settings) {
			c, d := madeDrawn(t, s)
			run, err := newDeviceModel(t.Context(), dev, &d.modelCase)
			require.NoError(t, err)
			seen, err := d.train(c, run)
			run.release()
			require.NoError(t, err)
			assertPassed(t, true, seen)
		}
	})
	for _, devices := range [][]*gpu.Device{{gputest.Device(t)}, gputest.Several(t, 2)} {
		for _, micro := range []int{1, 2, 4} {
			for _, s := range []drawnSetting{settings[micro%2], settings[2+micro%2], settings[4+micro%2]} {
				t.Run(fmt.Sprint(s.name, micro, len(devices)), func(t *testing.T) {
					c, d := madeDrawn(t, s)
					d.micro = micro
					run, err := newStagedModel(t.Context(), devices, &d.modelCase)
					require.NoError(t, err)
					defer run.release()
					_, err = run.state.Rehearse(t.Context(), 1)
					require.NoError(t, err)
					seen, err := d.train(c, run)
					require.NoError(t, err)
					assertPassed(t, true, seen)
				})
			}
		}
	}
}

// TestDrawnRefused has what is wrong with cases of drawn completions, and with their rows.
func TestDrawnRefused(t *testing.T) {
	for want, edit := range map[string][3]string{
		"row 2: found a prompt or a completion without tokens":              {"rows.jsonl", `"completion":[`, `"completion":[],"was":[`},
		"row 2: found 0 old_logps, wanted one of each of":                   {"rows.jsonl", `"old_logps":[`, `"old_logps":[],"was":[`},
		"step 0: model: advantages: row 2: found 0 rewards, wanted one of":  {"rows.jsonl", `"rewards":[`, `"rewards":[],"was":[`},
		"row 2: function 0: found the reward 1e+200":                        {"rows.jsonl", `"rewards":[`, `"rewards":[1e200,1],"was":[`},
		`found "grpa", wanted one of`:                                       {"case.json", `"loss_type": "grpo"`, `"loss_type": "grpa"`},
		`importance_sampling_level: found "word", wanted "token"`:           {"case.json", `"importance_sampling_level": "token"`, `"importance_sampling_level": "word"`},
		"temperature: found 0, wanted a number above 0":                     {"case.json", `"temperature": 0.7`, `"temperature": 0`},
		"wanted whole groups of 5":                                          {"case.json", `"num_generations": 4`, `"num_generations": 5`},
		"wanted at least 2 completions of a prompt":                         {"case.json", `"num_generations": 4`, `"num_generations": 1`},
		`scale: found "rows", wanted one of ["group" "batch" "none"]`:       {"case.json", `"scale_rewards": "group"`, `"scale_rewards": "rows"`},
		`multi_objective_aggregation: found "later", wanted sum_then_norma`: {"case.json", `"sum_then_normalize"`, `"later"`},
	} {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(families, "grpo", "grpo_qwen2_grpo_kl"))))
		path := filepath.Join(dir, edit[0])
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		lines := strings.SplitAfter(string(raw), "\n")
		for i := range lines {
			if edit[0] == "case.json" || i == 2 {
				lines[i] = strings.Replace(lines[i], edit[1], edit[2], 1)
			}
		}
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
		c, err := loadCase(folder(dir))
		require.NoError(t, err)
		_, err = loadDrawn(c, folder(dir))
		require.ErrorContains(t, err, want)
	}
}

// TestAdvantageTables passes the tables of a case, and none with another number.
func TestAdvantageTables(t *testing.T) {
	dir := folder(filepath.Join(families, "grpo", "advantages"))
	c, err := loadCase(dir)
	require.NoError(t, err)
	for from, to := range map[string]string{
		"": "", `"zero_std_share": 0.25`: `"zero_std_share": 0.24`, `"num_generations": 4`: `"num_generations": 8`, `"group"`: `"batch"`, `"batch"`: `"group"`, `"none"`: `"group"`,
		"-1.1153767463583983": "-1.1153", `"normalize_then_sum"`: `"sum_then_normalize"`, `"reward": 0.5915`: `"reward": 0.4929`,
	} {
		spoiled := *c
		spoiled.raw = []byte(strings.Replace(string(c.raw), from, to, 1))
		require.Equal(t, from == to, string(spoiled.raw) == string(c.raw), from)
		seen, err := runAdvantages(t.Context(), nil, &spoiled)
		require.NoError(t, err)
		assertPassed(t, from == "", seen)
	}
}
