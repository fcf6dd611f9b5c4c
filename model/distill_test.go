package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// apartByHand is the divergence of two rows of logits; of the teacher's, where k is above 0, by its k likeliest tokens. A change makes a wrong one.
func apartByHand(z, u []float64, beta, temperature float64, k int, bucket bool, change string) (sum float64) {
	shares := func(z []float64, temperature float64) (p []float64) {
		total := 0.0
		for _, x := range z {
			p = append(p, math.Exp(x/temperature))
			total += p[len(p)-1]
		}
		for i := range p {
			p[i] /= total
		}
		return p
	}
	of := temperature
	if change == "temperature of the student alone" {
		of = 1
	}
	s, t := shares(z, temperature), shares(u, of)
	if k > 0 {
		order := make([]int, len(t))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return int(math.Copysign(1, t[j]-t[i])) })
		var own, given []float64
		left, most := 1.0, 1.0
		for _, i := range order[:k] {
			own, given = append(own, s[i]), append(given, t[i])
			left, most = left-s[i], most-t[i]
		}
		if bucket && k < len(t) {
			own, given = append(own, left), append(given, most)
		} else {
			for i := range given {
				given[i] /= 1 - most
			}
		}
		if change == "both renormalised" {
			for i := range own {
				own[i] /= 1 - left
			}
		}
		s, t = own, given
	}
	if change == "the other way" {
		beta = 1 - beta
	}
	for i := range s {
		m := (1-beta)*s[i] + beta*t[i]
		switch beta {
		case 0:
			sum += t[i] * math.Log(t[i]/s[i])
		case 1:
			sum += s[i] * math.Log(s[i]/t[i])
		default:
			sum += beta*t[i]*math.Log(t[i]/m) + (1-beta)*s[i]*math.Log(s[i]/m)
		}
	}
	if change == "times temperature squared" {
		sum *= temperature * temperature
	}
	return sum
}

// listOf is what a teacher says in a file, of its k likeliest tokens.
func listOf(u []float64, temperature float64, k int) (ids []int32, logs []float64) {
	order := make([]int32, len(u))
	total := 0.0
	for i, x := range u {
		order[i] = int32(i)
		total += math.Exp(x / temperature)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return int(math.Copysign(1, u[j]-u[i])) })
	for _, id := range order[:k] {
		logs = append(logs, u[id]/temperature-math.Log(total))
	}
	return order[:k], logs
}

// TestDistillByHand holds the loss against the equations, of networks with and without caps and adapters, at settings of every kind, with a teacher in the graph and
// with its lists; and sees that other equations come to other numbers.
func TestDistillByHand(t *testing.T) {
	const batch, seq = 2, 6
	random := rand.New(rand.NewPCG(81, 82))
	student, err := NewGPT2(GPT2Config{Layers: 1, Heads: 2, Width: 12, Vocab: 23, Context: 9})
	require.NoError(t, err)
	lora, err := WithLoRA(student, LoRA{Rank: 2, Target: []string{"c_attn", "lm_head"}})
	require.NoError(t, err)
	teacher, err := NewLlama(LlamaConfig{Layers: 2, Heads: 2, KVHeads: 1, Width: 16, HeadDim: 8, Vocab: 23, Context: 8, Intermediate: 20})
	require.NoError(t, err)
	feeds := map[string]*graph.Array{InputTokens: graph.NewArray([]int{batch, seq}), InputLabels: graph.NewArray([]int{batch * seq})}
	var labels []int32
	for i := range batch * seq {
		feeds[InputTokens].Data[i] = float64(random.IntN(23))
		label := int32(random.IntN(23))
		if i%5 < 2 {
			label = graph.IgnoreLabel
		}
		labels = append(labels, label)
		feeds[InputLabels].Data[i] = float64(label)
	}
	counted := nextToken.inputs(Objective{}, Rows{Labels: labels}).Counts.Of
	feeds[InputLossScale] = &graph.Array{Shape: []int{}, Data: []float64{1 / float64(counted)}}
	for _, def := range []Definition{student, lora} {
		both, err := WithTeacher(def, teacher)
		require.NoError(t, err)
		assert.Equal(t, AdapterParams(def), AdapterParams(both))
		for _, p := range both.Params() {
			feeds[p.Path] = graph.NewArray(p.Shape)
			for i := range feeds[p.Path].Data {
				feeds[p.Path].Data[i] = 0.6 * random.NormFloat64()
			}
			if Teaches(p.Path) { // as the teacher's own graph calls it
				feeds[p.Path[len(TeacherPrefix):]+" alone"] = feeds[p.Path]
			}
		}
		own, err := def.Build(batch, seq, Options{Logits: true})
		require.NoError(t, err)
		z, err := graph.Eval(own.Graph, feeds, own.Logits)
		require.NoError(t, err)
		alone := map[string]*graph.Array{InputTokens: feeds[InputTokens]}
		for _, p := range teacher.Params() {
			alone[p.Path] = feeds[p.Path+" alone"]
		}
		other, err := teacher.Build(batch, seq, Options{Logits: true})
		require.NoError(t, err)
		u, err := graph.Eval(other.Graph, alone, other.Logits)
		require.NoError(t, err)
		for _, c := range []struct {
			beta, temperature float64
			k                 int
			bucket            bool
		}{{0, 1, 0, false}, {1, 0.8, 0, false}, {0.25, 1.4, 0, false}, {0.5, 0.9, 0, false}, {0, 1.3, 4, true}, {1, 0.7, 3, true}, {0.4, 1, 1, true}, {0, 1.2, 5, false}, {0, 1, 23, true}} {
			t.Run(fmt.Sprint(c), func(t *testing.T) {
				o := Objective{Loss: Distill, Numbers: map[string]float64{"beta": c.beta, "temperature": c.temperature, "top_k": float64(c.k)}}
				built, err := both.Build(batch, seq, Options{Loss: true, Objective: o})
				require.NoError(t, err)
				if c.k > 0 {
					into := TeacherInputs(batch*seq, c.k)
					for row := range batch {
						var l TeacherList
						for i := row * seq; i < (row+1)*seq; i++ {
							if labels[i] != graph.IgnoreLabel {
								ids, logs := listOf(u[0].Data[i*23:(i+1)*23], c.temperature, c.k)
								l.IDs, l.LogProbs = append(l.IDs, ids), append(l.LogProbs, logs)
							}
						}
						require.NoError(t, l.Fill(into, row*seq, labels[row*seq:(row+1)*seq], 23, c.bucket))
					}
					for name, values := range into {
						shape := []int{batch * seq, c.k}
						if name == inputTeacherRest {
							shape = shape[:1]
						}
						feeds[name] = arrayOf(shape, values)
					}
				}
				got, err := graph.Eval(built.Graph, feeds, built.Loss, built.Sums)
				require.NoError(t, err)
				mean := func(change string) (sum float64) {
					for i, label := range labels {
						if label != graph.IgnoreLabel {
							sum += apartByHand(z[0].Data[i*23:(i+1)*23], u[0].Data[i*23:(i+1)*23], c.beta, c.temperature, c.k, c.bucket, change)
						}
					}
					if change == "by rows" {
						return sum / batch
					}
					return sum / float64(counted)
				}
				want, nll := mean(""), 0.0
				for i, label := range labels {
					if label != graph.IgnoreLabel {
						_, logs := listOf(z[0].Data[i*23:(i+1)*23], 1, 23)
						ids, _ := listOf(z[0].Data[i*23:(i+1)*23], 1, 23)
						nll -= logs[slices.Index(ids, label)]
					}
				}
				assert.InDelta(t, want, got[0].Data[0], 1e-6*want, "lists are f32")
				assert.InDelta(t, nll, got[1].Data[0], 1e-9*nll)
				for _, change := range []string{"the other way", "times temperature squared", "temperature of the student alone", "both renormalised", "by rows"} {
					switch {
					case change == "the other way" && c.beta == 0.5, c.temperature == 1 && change[:4] == "temp", c.temperature == 1 && change[:4] == "time",
						change == "both renormalised" && (c.k == 0 || c.bucket), change == "both renormalised" && c.k == 23:
						continue
					}
					assert.Greater(t, math.Abs(mean(change)-want), 1e-3*want, change)
				}
			})
		}
	}
}

// TestDistillRefusals has what does not go with a teacher.
func TestDistillRefusals(t *testing.T) {
	student, err := NewGPT2(GPT2Config{Layers: 1, Heads: 2, Width: 12, Vocab: 23, Context: 9})
	require.NoError(t, err)
	other, err := NewGPT2(GPT2Config{Layers: 1, Heads: 2, Width: 12, Vocab: 24, Context: 9})
	require.NoError(t, err)
	_, err = WithTeacher(student, other)
	assert.EqualError(t, err, "model: teacher: found a vocabulary of 24 tokens, wanted the student's 23")
	o := Objective{Loss: Distill, Numbers: map[string]float64{"temperature": 1}}
	_, err = student.Build(1, 4, Options{Loss: true, Objective: o})
	assert.ErrorContains(t, err, "distill: found no teacher")
	o.Numbers["top_k"] = 24
	_, err = student.Build(1, 4, Options{Loss: true, Objective: o})
	assert.ErrorContains(t, err, "top_k: found 24, wanted at most the vocabulary of 23")
	assert.ErrorContains(t, Objective{Loss: Distill}.Validate(), "temperature: found 0, wanted a number above 0")
	labels := []int32{graph.IgnoreLabel, 3, 4}
	for wanted, l := range map[string]TeacherList{
		"found ids of 1 tokens and log-probabilities of 0":        {IDs: [][]int32{{1, 2}}},
		"found lists of 1 tokens, wanted one for each":            {IDs: [][]int32{{1, 2}}, LogProbs: [][]float64{{-1, -2}}},
		"found lists of 3 tokens, wanted 2":                       {IDs: [][]int32{{1, 2}, {1, 2}, {1, 2}}, LogProbs: [][]float64{{-1, -2}, {-1, -2}, {-1, -2}}},
		"token 1: found 1 ids and 2 log-probabilities, wanted 2":  {IDs: [][]int32{{1, 2}, {1}}, LogProbs: [][]float64{{-1, -2}, {-1, -2}}},
		"token 0: found id 23, wanted each once, from 0 to 22":    {IDs: [][]int32{{1, 23}, {1, 2}}, LogProbs: [][]float64{{-1, -2}, {-1, -2}}},
		"token 1: found id 2, wanted each once, from 0 to 22":     {IDs: [][]int32{{1, 2}, {2, 2}}, LogProbs: [][]float64{{-1, -2}, {-1, -2}}},
		"token 0: found the log-probability 0.5, wanted a finite": {IDs: [][]int32{{1, 2}, {1, 2}}, LogProbs: [][]float64{{0.5, -2}, {-1, -2}}},
		"token 0: found probabilities that add up to 1.21":        {IDs: [][]int32{{1, 2}, {1, 2}}, LogProbs: [][]float64{{-0.5, -0.5}, {-1, -2}}},
	} {
		assert.ErrorContains(t, l.Fill(TeacherInputs(3, 2), 0, labels, 23, true), wanted)
	}
}
