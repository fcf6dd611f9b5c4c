package doctor

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
)

// rowsByHand is a modelRun of the equations of good and bad completions themselves: see byHand.
type rowsByHand struct {
	*twinModel
	u            *unpairedCase
	base, policy *model.Built
	began        map[string]*graph.Array // the parameters of the reference
	grads        []*graph.Value
	done         int
	rewards      []float64 // of all rows so far
	wrong        string    // what is not as it should be
}

func newRowsByHand(t *testing.T, u *unpairedCase, wrong string) *rowsByHand {
	h := &rowsByHand{twinModel: newTwinModel(t, &u.modelCase), u: u, wrong: wrong}
	base := u.def
	if len(model.AdapterParams(u.def)) > 0 {
		base = model.BaseOf(u.def)
	}
	var err error
	h.base, err = base.Build(u.Batch, u.SeqLen, model.Options{Logits: true})
	require.NoError(t, err)
	h.policy, err = u.def.Build(u.Batch, u.SeqLen, model.Options{Logits: true})
	require.NoError(t, err)
	h.began = h.feeds(make([]int32, u.Batch*u.SeqLen))
	g := h.policy.Graph
	_, values := u.trained(h.policy)
	h.grads, err = graph.Gradients(g, g.Sum(g.Mul(h.policy.Logits, g.Input("slopes", h.policy.Logits.Type()))), values)
	require.NoError(t, err)
	return h
}

// sequences are prompts with completions, one a row.
type sequences [][2][]int32

func (h *rowsByHand) feedsOf(rows sequences, params map[string]*graph.Array) map[string]*graph.Array {
	tokens := make([]int32, h.u.Batch*h.u.SeqLen)
	for i, row := range rows {
		whole := slices.Concat(row[0], row[1])
		copy(tokens[i*h.u.SeqLen:], whole[:len(whole)-1])
	}
	feeds := h.feeds(tokens)
	for path, value := range params {
		if path != model.InputTokens {
			feeds[path] = value
		}
	}
	return feeds
}

// logps are the log-probabilities of completions, and of the gradient of weights times them the logits'.
func (h *rowsByHand) logps(built *model.Built, rows sequences, params map[string]*graph.Array) (sums []float64, slopes func(weights []float64) *graph.Array) {
	got, err := graph.Eval(built.Graph, h.feedsOf(rows, params), built.Logits)
	require.NoError(h.t, err)
	logits := got[0]
	each := func(do func(row, i int, id int32)) {
		for row, s := range rows {
			for j, id := range s[1] {
				do(row, row*h.u.SeqLen+len(s[0])-1+j, id)
			}
		}
	}
	sums = make([]float64, len(rows))
	each(func(row, i int, id int32) { sums[row] += logP(logits, i, id) })
	return sums, func(weights []float64) *graph.Array {
		out, v := graph.NewArray(logits.Shape), logits.Shape[1]
		each(func(row, i int, id int32) {
			for k := range v {
				out.Data[i*v+k] -= weights[row] * math.Exp(logP(logits, i, int32(k)))
			}
			out.Data[i*v+int(id)] += weights[row]
		})
		return out
	}
}

func (h *rowsByHand) gradientsOf(rows sequences, slopes *graph.Array) (all [][]float64) {
	feeds := h.feedsOf(rows, nil)
	feeds["slopes"] = slopes
	got, err := graph.Eval(h.policy.Graph, feeds, h.grads...)
	require.NoError(h.t, err)
	for _, g := range got {
		all = append(all, g.Data)
	}
	return all
}

func (h *rowsByHand) learn(data.Batch) (map[string][]float32, error) {
	rows := h.u.rows[h.done*h.u.Batch:][:h.u.Batch]
	h.done++
	numbers := h.u.learned.Numbers
	beta, n := numbers["beta"], len(rows)
	var own, other sequences
	for i, row := range rows {
		own = append(own, [2][]int32{row.Prompt, row.Completion})
		before := (i + n - 1) % n
		switch {
		case h.wrong == "the completion of the row after":
			before = (i + 1) % n
		case h.wrong == "z0 of the row itself":
			before = i
		case h.wrong == "z0 of each half" && i%(n/2) == 0:
			before = i + n/2 - 1
		}
		other = append(other, [2][]int32{row.Prompt, rows[before].Completion})
	}
	policy, slopesOf := h.logps(h.policy, own, nil)
	reference, _ := h.logps(h.base, own, h.began)
	shifted, shiftedSlopes := h.logps(h.policy, other, nil)
	shiftedReference, _ := h.logps(h.base, other, h.began)
	z0 := 0.0
	for i := range other {
		z0 += (shifted[i] - shiftedReference[i]) / float64(n)
	}
	if h.wrong != "z0 below 0" {
		z0 = max(0, z0)
	}
	if h.wrong == "delta of this step" {
		h.rewards = nil
	}
	delta := 0.0
	for i := range own {
		if h.wrong != "delta of the good" || rows[i].Label == true {
			h.rewards = append(h.rewards, beta*(policy[i]-reference[i]))
		}
	}
	for _, r := range h.rewards {
		delta += r / float64(len(h.rewards))
	}
	if h.wrong == "reference in the place of the policy" {
		policy, reference = reference, policy
	}
	loss, byZ0, weights := 0.0, 0.0, make([]float64, n)
	found := map[string][]float32{}
	note := func(name string, x float64) { found[name] = append(found[name], float32(x)) }
	by := float64(n)
	for i, row := range rows {
		good, _ := row.good()
		m, s, w := policy[i]-reference[i], float64(2*good-1), numbers["undesirable_weight"]
		if good == 1 {
			w = numbers["desirable_weight"]
		}
		if h.wrong == "weights the other way round" {
			w = numbers["desirable_weight"] + numbers["undesirable_weight"] - w
		}
		if h.wrong == "divided by the good" {
			by = 1
		}
		switch h.u.LossType {
		case "kto":
			p := sigma(s * beta * (m - z0))
			loss += w * (1 - p) / by
			weights[i] = -w * s * beta * p * (1 - p) / by
			byZ0 -= weights[i]
			note("kl", z0)
		case "apo_zero_unpaired":
			p := sigma(s * beta * m)
			loss += w * (1 - p) / by
			weights[i] = -w * s * beta * p * (1 - p) / by
		case "bco":
			p := sigma(s * (beta*m - delta))
			loss -= w * math.Log(p) / by
			weights[i] = -w * s * beta * (1 - p) / by
			note("delta", delta)
		}
		note("logps", policy[i])
		note("reference_logps", reference[i])
		note("rewards", beta*m)
		note(model.InputGood, float64(good))
	}
	note("loss", loss)
	grads := h.gradientsOf(own, slopesOf(weights))
	if h.wrong == "gradient through z0" && z0 > 0 {
		for i, more := range h.gradientsOf(other, shiftedSlopes(slices.Repeat([]float64{byZ0 / float64(n)}, n))) {
			for j, x := range more {
				grads[i][j] += x
			}
		}
	}
	h.last = nil
	for i, p := range h.m.initial {
		h.last = append(h.last, buffers.Host{Path: p.Path, Shape: p.Shape, Data: narrowed(&graph.Array{Data: grads[i]})})
	}
	return found, h.optimizer.Update(h.last)
}

func openUnpaired(t *testing.T, name string) (*goldenCase, *unpairedCase) {
	return opened(t, "kto", name, loadKTO)
}

// TestTwinFollowsUnpaired holds graph and equations against cases, in float64, and what these must catch.
func TestTwinFollowsUnpaired(t *testing.T) {
	for _, row := range []struct {
		name, wrong string // of the equations; "": none of them
		spoil       func(u *unpairedCase)
	}{
		{"kto_llama", "", nil},
		{"bco_qwen3", "", nil},
		{"kto_llama", "none", nil},
		{"bco_qwen3", "none", nil},
		{"kto_llama", "the completion of the row after", nil},
		{"kto_llama", "z0 of the row itself", nil},
		{"kto_llama", "z0 of each half", nil},
		{"kto_llama", "z0 below 0", nil},
		{"kto_llama", "gradient through z0", nil},
		{"kto_llama", "weights the other way round", nil},
		{"kto_llama", "divided by the good", nil},
		{"kto_llama", "reference in the place of the policy", nil},
		{"bco_qwen3", "delta of this step", nil},
		{"bco_qwen3", "delta of the good", nil},
		{"bco_qwen3", "reference in the place of the policy", nil},
		{"bco_qwen3", "", func(u *unpairedCase) { u.learned.Numbers["beta"] = 0.301 }},
		{"kto_llama", "", func(u *unpairedCase) { u.learned.Numbers["undesirable_weight"] = 1.401 }},
		{"kto_llama", "", func(u *unpairedCase) { u.rows[5].Prompt[0] ^= 1 }},
		{"kto_llama", "", func(u *unpairedCase) { u.rows[6].Label = true != (u.rows[6].Label == true) }},
		{"kto_llama", "", func(u *unpairedCase) { u.Metrics[1]["kl"][0] *= 1.001 }},
	} {
		t.Run(row.name+" "+row.wrong, func(t *testing.T) {
			c, u := openUnpaired(t, row.name)
			if row.spoil != nil {
				row.spoil(u)
			}
			var run modelRun = newTwinModel(t, &u.modelCase)
			if row.wrong != "" {
				run = newRowsByHand(t, u, row.wrong)
			}
			seen, err := u.train(c, run)
			require.NoError(t, err)
			assertPassed(t, row.spoil == nil && (row.wrong == "" || row.wrong == "none"), seen)
		})
	}
}

// TestUnpairedOfOtherModels holds the losses with settings that no case has, of an adapter and of a whole model: the graph against the equations.
func TestUnpairedOfOtherModels(t *testing.T) {
	for _, loss := range []string{"kto", "apo_zero_unpaired", "bco"} {
		for name, def := range unpairedNetworks(t) {
			t.Run(loss+" "+name, func(t *testing.T) {
				u := madeUnpaired(def, loss)
				hand := newRowsByHand(t, u, "none")
				hand.layReference()
				twin := newTwinModel(t, &u.modelCase)
				for step := range u.Steps {
					want, err := hand.learn(u.batch(step))
					require.NoError(t, err)
					got, err := twin.learn(u.batch(step))
					require.NoError(t, err)
					for name, values := range want {
						assert.InDeltaSlice(t, values, got[name], 1e-5, "step %d %s", step, name)
					}
					for i, g := range twin.last {
						assert.InDelta(t, norm(hand.last[i:i+1]), norm(twin.last[i:i+1]), 1e-5, g.Path)
						assert.InDeltaSlice(t, hand.last[i].Data, g.Data, 1e-5, "step %d %s", step, g.Path)
					}
				}
			})
		}
	}
}

// TestUnpairedOnDevices holds a device, and two stages, against the equations: losses and gradients of three steps of each loss, of an adapter and of a whole model.
func TestUnpairedOnDevices(t *testing.T) {
	devices := gputest.Several(t, 2)
	for _, loss := range []string{"kto", "apo_zero_unpaired", "bco"} {
		for name, def := range unpairedNetworks(t) {
			for stages := 1; stages <= 2; stages++ {
				u := madeUnpaired(def, loss)
				hand := newRowsByHand(t, u, "none")
				hand.layReference()
				run, err := newModelRun(t.Context(), devices[:stages], &u.modelCase)
				require.NoError(t, err)
				for step := range u.Steps {
					want, err := hand.learn(u.batch(step))
					require.NoError(t, err)
					got, err := run.learn(u.batch(step))
					require.NoError(t, err)
					assert.InDelta(t, want["loss"][0], got["loss"][0], 2e-5, "%s %s on %d, step %d", loss, name, stages, step)
					grads, err := run.gradients()
					require.NoError(t, err)
					assert.InEpsilon(t, norm(hand.last), norm(grads), 2e-4, "%s %s on %d, step %d", loss, name, stages, step)
				}
				run.release()
			}
		}
	}
}

func unpairedNetworks(t *testing.T) map[string]model.Definition {
	base, err := model.NewLlama(model.LlamaConfig{Layers: 2, Heads: 4, KVHeads: 1, Width: 18, HeadDim: 6, Vocab: 29, Context: 16, Intermediate: 21})
	require.NoError(t, err)
	lora, err := model.WithLoRA(base, model.LoRA{Rank: 2, Save: []string{"lm_head"}})
	require.NoError(t, err)
	return map[string]model.Definition{"adapter": lora, "whole": base}
}

// layReference lays beside the rows of a model that is trained whole what it says of them as it begins.
func (h *rowsByHand) layReference() {
	u := h.u
	if len(model.AdapterParams(u.def)) > 0 {
		return
	}
	u.reference = map[string][]float32{}
	for step := range u.Steps {
		var own, other sequences
		rows := u.rows[step*u.Batch:][:u.Batch]
		for i, row := range rows {
			own = append(own, [2][]int32{row.Prompt, row.Completion})
			other = append(other, [2][]int32{row.Prompt, rows[(i+len(rows)-1)%len(rows)].Completion})
		}
		for name, s := range map[string]sequences{model.InputReference: own, model.InputMismatched: other} {
			sums, _ := h.logps(h.base, s, h.began)
			u.reference[name] = append(u.reference[name], narrowed(&graph.Array{Data: sums})...)
		}
	}
}

func madeUnpaired(def model.Definition, loss string) *unpairedCase {
	random := rand.New(rand.NewPCG(71, 72))
	u := &unpairedCase{LossType: loss}
	u.def, u.Batch, u.Steps, u.SeqLen = def, 5, 3, 11
	u.learned = model.Objective{Loss: loss, Numbers: map[string]float64{"beta": 0.7, "desirable_weight": 0.6, "undesirable_weight": 1.7}}
	u.Optimizer, u.WeightDecay = "adamw", 0.1
	u.Config = json.RawMessage(`{"b1":0.9,"b2":0.999,"eps":1e-5,"eps_root":0,"mu_dtype":null}`)
	u.Schedule = optim.ScheduleConfig{Type: "constant", LearningRate: 0.02}
	ids := func(n int) (ids []int32) {
		for range 1 + random.IntN(n) {
			ids = append(ids, random.Int32N(int32(def.Vocab())))
		}
		return ids
	}
	for i := range u.Batch * u.Steps {
		u.rows = append(u.rows, unpairedRow{completion{ids(4), ids(7)}, []any{true, false, 1.0, 0.0}[(i*i+i/3)%4]})
	}
	own := model.AdapterParams(def)
	for _, h := range model.Init(def, 12) {
		for i := range h.Data {
			h.Data[i] += float32(0.3 * random.NormFloat64())
		}
		if len(own) == 0 || slices.Contains(own, h.Path) {
			u.initial = append(u.initial, h)
		} else {
			u.frozen = append(u.frozen, h)
		}
	}
	return u
}
