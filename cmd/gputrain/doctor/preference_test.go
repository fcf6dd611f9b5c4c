package doctor

import (
	"context"
	"encoding/json"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
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

// byHand is an modelRun of the equations themselves: log-probabilities of the logits of the network and of its base, and of the logits' gradients, which are
// written down here, those of the parameters.
type byHand struct {
	*twinModel
	p            *preferenceCase
	base, policy *model.Built
	grads        []*graph.Value
	done         int // steps
}

func newByHand(t *testing.T, p *preferenceCase) *byHand {
	h := &byHand{twinModel: newTwinModel(t, &p.modelCase), p: p}
	var err error
	h.base, err = model.BaseOf(p.def).Build(p.Batch, p.SeqLen, model.Options{Logits: true})
	require.NoError(t, err)
	h.policy, err = p.def.Build(p.Batch, p.SeqLen, model.Options{Logits: true})
	require.NoError(t, err)
	g := h.policy.Graph
	_, values := p.trained(h.policy)
	h.grads, err = graph.Gradients(g, g.Sum(g.Mul(h.policy.Logits, g.Input("slopes", h.policy.Logits.Type()))), values)
	require.NoError(t, err)
	return h
}

// logP is log softmax of row i of logits at id.
func logP(logits *graph.Array, i int, id int32) float64 {
	v := logits.Shape[1]
	sum := 0.0
	for _, z := range logits.Data[i*v : (i+1)*v] {
		sum += math.Exp(z)
	}
	return logits.Data[i*v+int(id)] - math.Log(sum)
}

func sigma(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// pairEquations are the losses of a pair and their slopes by the log-probabilities of the chosen and the rejected completion, as their papers have them: own
// are those of the network, net those less the reference's, n the tokens of completions.
var pairEquations = map[string]func(p *preferenceCase, own, net, n [2]float64) (loss, dc, dr float64){
	"sigmoid": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		return smoothed(p.Beta*(net[0]-net[1]), p.LabelSmoothing, p.Beta, p.Beta)
	},
	"cpo_sigmoid": func(p *preferenceCase, own, _, _ [2]float64) (loss, dc, dr float64) {
		return smoothed(p.Beta*(own[0]-own[1]), p.LabelSmoothing, p.Beta, p.Beta)
	},
	"hinge":     func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) { return hinged(p.Beta, net) },
	"cpo_hinge": func(p *preferenceCase, own, _, _ [2]float64) (loss, dc, dr float64) { return hinged(p.Beta, own) },
	"ipo": func(p *preferenceCase, _, net, n [2]float64) (loss, dc, dr float64) {
		u := net[0]/n[0] - net[1]/n[1] - 1/(2*p.Beta)
		return u * u, 2 * u / n[0], -2 * u / n[1]
	},
	"cpo_ipo": func(p *preferenceCase, own, _, _ [2]float64) (loss, dc, dr float64) { // own are means
		u := own[0] - own[1] - 1/(2*p.Beta)
		return u * u, 2 * u, -2 * u
	},
	"sigmoid_norm": func(p *preferenceCase, _, net, n [2]float64) (loss, dc, dr float64) {
		return smoothed(p.Beta*(net[0]/n[0]-net[1]/n[1]), 0, p.Beta/n[0], p.Beta/n[1])
	},
	"robust": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		z, e := p.Beta*(net[0]-net[1]), p.LabelSmoothing
		d := p.Beta * (-(1-e)*sigma(-z) - e*sigma(z)) / (1 - 2*e)
		return (-(1-e)*math.Log(sigma(z)) + e*math.Log(sigma(-z))) / (1 - 2*e), d, -d
	},
	"exo_pair": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		s, e := sigma(p.Beta*(net[0]-net[1])), p.LabelSmoothing
		d := p.Beta * s * (1 - s) * (math.Log(s/(1-e)) - math.Log((1-s)/e))
		return s*math.Log(s/(1-e)) + (1-s)*math.Log((1-s)/e), d, -d
	},
	"nca_pair": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		x, y := p.Beta*net[0], p.Beta*net[1]
		return -math.Log(sigma(x)) - math.Log(sigma(-x))/2 - math.Log(sigma(-y))/2, p.Beta * (-sigma(-x) + sigma(x)/2), p.Beta * sigma(y) / 2
	},
	"bco_pair": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		x, y := p.Beta*net[0], p.Beta*net[1]
		return -math.Log(sigma(x)) - math.Log(sigma(-y)), -p.Beta * sigma(-x), p.Beta * sigma(y)
	},
	"sppo_hard": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		u, v := net[0]-1/(2*p.Beta), net[1]+1/(2*p.Beta)
		return u*u + v*v, 2 * u, 2 * v
	},
	"apo_zero": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		x, y := sigma(p.Beta*net[0]), sigma(p.Beta*net[1])
		return 1 - x + y, -p.Beta * x * (1 - x), p.Beta * y * (1 - y)
	},
	"apo_down": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		x, z := sigma(p.Beta*net[0]), sigma(p.Beta*(net[0]-net[1]))
		return x + 1 - z, p.Beta * (x*(1-x) - z*(1-z)), p.Beta * z * (1 - z)
	},
	"discopop": func(p *preferenceCase, _, net, _ [2]float64) (loss, dc, dr float64) {
		z := p.Beta * (net[0] - net[1])
		g := sigma(z / p.Tau)
		d := p.Beta * (-(1-g)*sigma(-z) - g*math.Exp(-z) + g*(1-g)/p.Tau*(math.Exp(-z)+math.Log(sigma(z))))
		return -(1-g)*math.Log(sigma(z)) + g*math.Exp(-z), d, -d
	},
	"simpo": func(p *preferenceCase, own, _, _ [2]float64) (loss, dc, dr float64) { // own are means
		x, slopes := own, [2]float64{1, 1}
		if a := p.Alpha; a != 0 {
			for side := range x {
				x[side], slopes[side] = (1-math.Exp(-a*own[side]))/a, math.Exp(-a*own[side])
			}
		}
		return smoothed(p.Beta*(x[0]-x[1])-p.Gamma, p.LabelSmoothing, p.Beta*slopes[0], p.Beta*slopes[1])
	},
}

// aotEquation is aot's and aot_unpaired's, of pair i of all of an update, sorted by hand: the loss of the match of its chosen completion, or of the pair.
func aotEquation(p *preferenceCase, own, ref [][2]float64, i int) (loss, dc, dr float64) {
	rank := func(of []float64, i int) (n int) {
		for j, x := range of {
			if x < of[i] || x == of[i] && j < i {
				n++
			}
		}
		return n
	}
	at := func(of []float64, n int) float64 { return slices.Sorted(slices.Values(of))[n] }
	var a, b []float64
	for j := range own {
		if p.LossType == "aot" {
			a, b = append(a, own[j][0]-own[j][1]), append(b, ref[j][0]-ref[j][1])
		} else {
			a, b = append(a, own[j][0]-ref[j][0]), append(b, own[j][1]-ref[j][1])
		}
	}
	loss, dc, dr = smoothed(p.Beta*(a[i]-at(b, rank(a, i))), p.LabelSmoothing, p.Beta, p.Beta)
	if p.LossType == "aot_unpaired" {
		_, _, dr = smoothed(p.Beta*(at(a, rank(b, i))-b[i]), p.LabelSmoothing, p.Beta, p.Beta)
	}
	return loss, dc, dr
}

// smoothed is the loss of a reward that is z greater, and its slopes, with those of the two rewards.
func smoothed(z, e, dx, dy float64) (loss, dc, dr float64) {
	dz := -(1-e)*sigma(-z) + e*sigma(z)
	return -(1-e)*math.Log(sigma(z)) - e*math.Log(sigma(-z)), dx * dz, -dy * dz
}

func hinged(beta float64, of [2]float64) (loss, dc, dr float64) {
	if z := beta * (of[0] - of[1]); z < 1 {
		return 1 - z, -beta, beta
	}
	return 0, 0, 0
}

func (h *byHand) learn(b data.Batch) (map[string][]float32, error) {
	pairs := h.p.pairs[h.done*h.p.Batch/2 : (h.done+1)*h.p.Batch/2]
	h.done++
	feeds := h.feeds(b.Tokens)
	base, err := graph.Eval(h.base.Graph, feeds, h.base.Logits)
	require.NoError(h.t, err)
	policy, err := graph.Eval(h.policy.Graph, feeds, h.policy.Logits)
	require.NoError(h.t, err)
	logits, slopes, n := policy[0], graph.NewArray(policy[0].Shape), float64(len(pairs))
	learn := func(row, at int, ids []int32, slope float64) { // adds slope times the gradient of the log-probability of ids[at]
		i, v := row*h.p.SeqLen+at-1, logits.Shape[1]
		for id := range v {
			slopes.Data[i*v+id] -= slope * math.Exp(logP(logits, i, int32(id)))
		}
		slopes.Data[i*v+int(ids[at])] += slope
	}
	found, loss, nll, tokens := map[string][]float32{}, 0.0, 0.0, 0.0
	note := func(name string, x float64) { found[name] = append(found[name], float32(x)) }
	orpo := h.p.LossType == "orpo"
	for _, p := range pairs {
		if tokens += float64(len(p.Chosen)); orpo {
			tokens += float64(len(p.Prompt) - 1)
		}
	}
	ids, weights, owns, refs := make([][2][]int32, len(pairs)), make([][2]float64, len(pairs)), make([][2]float64, len(pairs)), make([][2]float64, len(pairs))
	for i, p := range pairs {
		ids, weight, own, ref := &ids[i], &weights[i], &owns[i], &refs[i]
		for side, completion := range [][]int32{p.Chosen, p.Rejected} {
			ids[side], weight[side] = slices.Concat(p.Prompt, completion), 1
			if h.p.LogPs == "mean" {
				weight[side] = 1 / float64(len(completion))
			}
			for at := len(p.Prompt); at < len(ids[side]); at++ {
				own[side] += weight[side] * logP(logits, (2*i+side)*h.p.SeqLen+at-1, ids[side][at])
				ref[side] += weight[side] * logP(base[0], (2*i+side)*h.p.SeqLen+at-1, ids[side][at])
			}
		}
	}
	for i, p := range pairs {
		ids, weight, own, ref := ids[i], weights[i], owns[i], refs[i]
		var reward, slope [2]float64 // of the loss by own
		c, r, beta := own[0], own[1], h.p.Beta
		if orpo {
			o := (c - r) - (math.Log(1-math.Exp(c)) - math.Log(1-math.Exp(r)))
			loss -= h.p.Lambda * math.Log(sigma(o)) / n
			reward = [2]float64{h.p.Lambda * c, h.p.Lambda * r}
			slope = [2]float64{-h.p.Lambda * sigma(-o) / n / (1 - math.Exp(c)), h.p.Lambda * sigma(-o) / n / (1 - math.Exp(r))}
			note("log_odds", o)
		} else {
			net := [2]float64{c - ref[0], r - ref[1]}
			var one, dc, dr float64
			if of := pairEquations[h.p.LossType]; of != nil {
				one, dc, dr = of(h.p, own, net, [2]float64{float64(len(p.Chosen)), float64(len(p.Rejected))})
			} else {
				one, dc, dr = aotEquation(h.p, owns, refs, i)
			}
			loss += one / n
			slope = [2]float64{dc / n, dr / n}
			reward = [2]float64{beta * c, beta * r}
			if h.p.learned.Row().Reference {
				reward = [2]float64{beta * net[0], beta * net[1]}
				note("reference_chosen", ref[0])
				note("reference_rejected", ref[1])
			}
			if a := h.p.Alpha; a != 0 {
				reward = [2]float64{beta * (1 - math.Exp(-a*c)) / a, beta * (1 - math.Exp(-a*r)) / a}
			}
		}
		from, weighed := len(p.Prompt), h.p.CPOAlpha // of the mean loss of tokens
		if orpo {
			from, weighed = 1, 1
		}
		for at := from; at < len(ids[0]); at++ {
			nll -= logP(logits, 2*i*h.p.SeqLen+at-1, ids[0][at]) / tokens
			learn(2*i, at, ids[0], -weighed/tokens)
		}
		for side := range 2 {
			for at := len(p.Prompt); at < len(ids[side]); at++ {
				learn(2*i+side, at, ids[side], slope[side]*weight[side])
			}
		}
		note("logps_chosen", c)
		note("logps_rejected", r)
		note("rewards_chosen", reward[0])
		note("rewards_rejected", reward[1])
	}
	if orpo {
		loss += nll
	} else {
		loss += h.p.CPOAlpha * nll
	}
	if orpo || h.p.CPOAlpha != 0 {
		note("nll", nll*n)
	}
	note("loss", loss)
	feeds["slopes"] = slopes
	grads, err := graph.Eval(h.policy.Graph, feeds, h.grads...)
	require.NoError(h.t, err)
	h.last = nil
	for i, p := range h.m.initial {
		h.last = append(h.last, buffers.Host{Path: p.Path, Shape: p.Shape, Data: narrowed(grads[i])})
	}
	return found, h.optimizer.Update(h.last)
}

// opened is a small case of a kind.
func opened[C any](t *testing.T, kind, name string, load func(c *goldenCase, dir fs.FS) (C, error)) (*goldenCase, C) {
	t.Helper()
	dir := folder(filepath.Join(families, kind, name))
	c, err := loadCase(dir)
	require.NoError(t, err)
	of, err := load(c, dir)
	require.NoError(t, err)
	return c, of
}

func openPairs(t *testing.T, name string) (*goldenCase, *preferenceCase) {
	return opened(t, "dpo", name, loadPairs)
}

// TestTwinFollowsPreferences holds the graph of the objectives against cases, in float64, and the equations of this file too; and what a case must catch.
func TestTwinFollowsPreferences(t *testing.T) {
	twin := func(t *testing.T, p *preferenceCase) modelRun { return newTwinModel(t, &p.modelCase) }
	hand := func(t *testing.T, p *preferenceCase) modelRun { return newByHand(t, p) }
	for _, row := range []struct {
		name, what string
		run        func(t *testing.T, p *preferenceCase) modelRun
		spoil      func(p *preferenceCase)
	}{
		{"dpo_llama_sigmoid", "", twin, func(*preferenceCase) {}},
		{"orpo_qwen2", "", twin, func(*preferenceCase) {}},
		{"dpo_llama_sigmoid", "", hand, func(*preferenceCase) {}},
		{"orpo_qwen2", "", hand, func(*preferenceCase) {}},
		{"dpo_llama_sigmoid", "another beta", twin, func(p *preferenceCase) { p.learned.Numbers["beta"] = 0.301 }},
		{"dpo_llama_sigmoid", "smoothed", twin, func(p *preferenceCase) { p.learned.Numbers["label_smoothing"] = 0.001 }},
		{"dpo_llama_sigmoid", "an accuracy", twin, func(p *preferenceCase) { p.Metrics[1]["accuracy"] = 0 }},
		{"dpo_llama_sigmoid", "a token of a prompt", twin, func(p *preferenceCase) { p.pairs[11].Prompt[0] ^= 1 }},
		{"orpo_qwen2", "another lambda", twin, func(p *preferenceCase) { p.learned.Numbers["orpo_lambda"] = 0.401 }},
		{"orpo_qwen2", "the odds", twin, func(p *preferenceCase) { p.Metrics[3]["log_odds"] += 0.001 }},
		{"orpo_qwen2", "the length of a gradient", twin, func(p *preferenceCase) { p.Metrics[2]["grad_norm"] *= 1.001 }},
	} {
		t.Run(row.name+" "+row.what, func(t *testing.T) {
			c, p := openPairs(t, row.name)
			row.spoil(p)
			seen, err := p.train(c, row.run(t, p))
			require.NoError(t, err)
			assertPassed(t, row.what == "", seen)
		})
	}
}

// madePairs is a case of which byHand tells all that is expected.
func madePairs(t *testing.T, def model.Definition, prefer model.Objective) (*goldenCase, *preferenceCase) {
	const steps, rows = 2, 3
	random := rand.New(rand.NewPCG(61, 62))
	p := &preferenceCase{LossType: prefer.Loss, LogPs: "sum", Beta: prefer.Numbers["beta"]}
	p.LabelSmoothing, p.Lambda, p.Gamma = prefer.Numbers["label_smoothing"], prefer.Numbers["orpo_lambda"], prefer.Numbers["simpo_gamma"]
	p.Alpha, p.CPOAlpha, p.Tau = prefer.Numbers["simpo_alpha"], prefer.Numbers["cpo_alpha"], prefer.Numbers["discopop_tau"]

	if prefer.Row().Mean {
		p.LogPs = "mean"
	}
	p.def, p.learned, p.Batch, p.Steps, p.SeqLen = def, prefer, 2*rows, steps, 9
	p.Optimizer, p.WeightDecay = "adamw", 0.1
	p.Config = json.RawMessage(`{"b1":0.9,"b2":0.999,"eps":1e-5,"eps_root":0,"mu_dtype":null}`)
	p.Schedule = optim.ScheduleConfig{Type: "constant", LearningRate: 0.003}
	for range steps * rows {
		ids := func(n int) (ids []int32) {
			for range 1 + random.IntN(n) {
				ids = append(ids, random.Int32N(int32(def.Vocab())))
			}
			return ids
		}
		p.pairs = append(p.pairs, pair{Prompt: ids(3), Chosen: ids(7), Rejected: ids(7)})
	}
	own := model.AdapterParams(def)
	for _, h := range model.Init(def, 12) {
		for i := range h.Data {
			h.Data[i] += float32(0.3 * random.NormFloat64())
		}
		if slices.Contains(own, h.Path) {
			p.initial = append(p.initial, h)
			p.Params = append(p.Params, paramSpec{Name: h.Path, Shape: h.Shape})
		} else {
			p.frozen = append(p.frozen, h)
		}
	}
	var tensors []safetensors.Tensor
	hand := newByHand(t, p)
	for step := range steps {
		pairs := p.pairs[step*rows : (step+1)*rows]
		b := batch(pairs, p.SeqLen)
		logits, err := hand.logits(b.Tokens)
		require.NoError(t, err)
		found, err := hand.learn(b)
		require.NoError(t, err)
		metrics := map[string]float64{"grad_norm": norm(hand.last), "accuracy": 0}
		for name, values := range found {
			for _, v := range values {
				metrics[name] += float64(v) / float64(len(values))
			}
		}
		metrics["nll"] /= rows
		metrics["margin"] = metrics["rewards_chosen"] - metrics["rewards_rejected"]
		for i, c := range found["rewards_chosen"] {
			if c > found["rewards_rejected"][i] {
				metrics["accuracy"] += 1.0 / rows
			}
		}
		for _, o := range found["log_odds"] {
			metrics["log_odds_ratio"] += math.Log(sigma(float64(o))) / rows
		}
		p.Metrics, p.Losses = append(p.Metrics, metrics), append(p.Losses, metrics["loss"])
		if step > 0 {
			continue
		}
		for side, name := range []string{"chosen", "rejected"} {
			v := def.Vocab()
			length := len(pairs[0].rows()[side]) - 1
			part := logits[side*p.SeqLen*v:][:length*v]
			tensors = append(tensors, safetensors.Float32s("expect/0/logits/"+name, []int{length, v}, part),
				safetensors.Float32s("expect/0/logps/"+name, []int{rows}, found["logps_"+name]))
			if reference, there := found["reference_"+name]; there {
				tensors = append(tensors, safetensors.Float32s("expect/0/reference_logps/"+name, []int{rows}, reference))
			}
		}
		for _, h := range hand.last {
			tensors = append(tensors, safetensors.Float32s("expect/0/grads/"+h.Path, h.Shape, h.Data))
		}
	}
	for _, h := range hand.optimizer.Params() {
		tensors = append(tensors, safetensors.Float32s("expect/final/params/"+h.Path, h.Shape, h.Data))
	}
	p.Tolerance.Loss, p.Tolerance.Logits = tolerance{RTol: 1e-5, ATol: 2e-5}, tolerance{RTol: 2e-5, ATol: 5e-5}
	p.Tolerance.Grads, p.Tolerance.FinalParams = tolerance{RTol: 1e-4, ATol: 1e-8, ATolRelMax: 5e-5}, tolerance{RTol: 1e-5, ATol: 2e-4}
	p.Tolerances.LogPs, p.Tolerances.Rewards = tolerance{RTol: 1e-5, ATol: 5e-5}, tolerance{RTol: 1e-5, ATol: 5e-5}
	p.Tolerances.Accuracy, p.Tolerances.GradNorm = tolerance{ATol: 1e-6}, tolerance{RTol: 1e-4, ATol: 1e-7}
	file, err := safetensors.Parse(stored(t, tensors))
	require.NoError(t, err)
	return &goldenCase{tensors: file}, p
}

// TestPreferencesOfOtherModels holds objectives that no case has, and networks of other kinds: a tied head with an adapter, a head and an embedding that are
// trained whole, products [in, out], capped logits.
func TestPreferencesOfOtherModels(t *testing.T) {
	adapted := func(def model.Definition, err error) func(l model.LoRA) model.Definition {
		require.NoError(t, err)
		return func(l model.LoRA) model.Definition {
			def, err := model.WithLoRA(def, l)
			require.NoError(t, err)
			return def
		}
	}
	gpt2 := adapted(model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 3, Width: 15, Vocab: 23, Context: 9}))
	llama := adapted(model.NewLlama(model.LlamaConfig{Layers: 1, Heads: 4, KVHeads: 1, Width: 18, HeadDim: 6, Vocab: 29, Context: 9, Intermediate: 21}))
	type preferCase struct {
		name   string
		def    model.Definition
		prefer model.Objective
	}
	cases := []preferCase{
		{"simpo smoothed", llama(model.LoRA{Rank: 2, Save: []string{"lm_head", "embed_tokens"}}), model.Objective{Loss: "simpo", Numbers: map[string]float64{"beta": 2, "simpo_gamma": 0.7, "label_smoothing": 0.2}}},
		{"sigmoid smoothed", gpt2(model.LoRA{Rank: 2, Target: []string{"c_attn", "lm_head"}}), model.Objective{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.2, "label_smoothing": 0.3}}},
		{"simpo", gpt2(model.LoRA{Rank: 1, DoRA: true, Target: []string{"c_fc"}}), model.Objective{Loss: "simpo", Numbers: map[string]float64{"beta": 1.5}}},
		{"sigmoid, copies", llama(model.LoRA{Rank: 3, Save: []string{"lm_head", "norm"}}), model.Objective{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.1}}},
		{"orpo", gpt2(model.LoRA{Rank: 2, Target: []string{"all-linear"}}), model.Objective{Loss: "orpo", Numbers: map[string]float64{"orpo_lambda": 0.7}}},
	}
	l := llama(model.LoRA{Rank: 2, Save: []string{"lm_head"}})
	for _, loss := range model.Objectives() {
		if pairEquations[loss] == nil && loss != "orpo" {
			continue
		}
		o := model.Objective{Loss: loss, Numbers: map[string]float64{}}
		if o.Row().Form != "pairs" || o.Row().Group != 2 {
			continue
		}
		for _, n := range o.Row().Numbers {
			o.Numbers[n.Name] = map[string]float64{
				"beta": 0.3, "label_smoothing": 0.2, "simpo_gamma": 0.4, "simpo_alpha": 0.25, "cpo_alpha": 0.6, "discopop_tau": 0.4, "orpo_lambda": 0.5,
			}[n.Name]
		}
		cases = append(cases, preferCase{loss, l, o})
	}
	for _, row := range cases {
		t.Run(row.name, func(t *testing.T) {
			c, p := madePairs(t, row.def, row.prefer)
			seen, err := p.train(c, newTwinModel(t, &p.modelCase))
			require.NoError(t, err)
			assertPassed(t, true, seen)
			assert.Less(t, seen.ratio, 0.2, "float64 throughout, but for what is stored")
		})
	}
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, row := range cases {
			if row.name != cases[0].name && row.prefer.Row().Ahead == nil {
				continue
			}
			c, p := madePairs(t, row.def, row.prefer)
			for _, devices := range [][]*gpu.Device{{dev}, {dev, dev}} {
				run, err := newModelRun(context.Background(), devices, &p.modelCase)
				require.NoError(t, err)
				seen, err := p.train(c, run)
				run.release()
				require.NoError(t, err)
				assertPassed(t, true, seen)
			}
		}
	})
}
