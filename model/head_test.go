package model

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// transparent is a network of each family whose head is the identity: its logits are the outputs of its last norm.
func transparent(t *testing.T) (defs []Definition) {
	t.Helper()
	for _, kind := range Kinds() {
		k := smallKeys
		k.Vocab = k.Width
		def, err := New(kind, k)
		require.NoError(t, err)
		raw, err := ConfigJSON(def, "F32")
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(raw, &fields))
		fields["final_logit_softcapping"], fields["logits_scaling"], fields["tie_word_embeddings"] = nil, nil, false
		for _, key := range []string{"embd_pdrop", "resid_pdrop", "attn_pdrop"} {
			if _, there := fields[key]; there {
				fields[key] = 0
			}
		}
		raw, err = json.Marshal(fields)
		require.NoError(t, err)
		def, err = ParseConfig(raw)
		require.NoError(t, err)
		defs = append(defs, def)
	}
	require.Len(t, defs, 20)
	return defs
}

// headCase is a loss on some rows, and what it comes to as its equation says.
type headCase struct {
	name    string
	head    Head
	learned Objective
	labels  []int32              // of rows; graph.IgnoreLabel: the row is not there
	beside  map[string][]float32 // see Rows.Beside
	// loss is that of scores or vectors [rows][..], and its slopes by them.
	loss func(y [][]float64) (loss float64, slopes [][]float64)
}

const none = int32(graph.IgnoreLabel)

func zeros(rows, width int) (out [][]float64) {
	for range rows {
		out = append(out, make([]float64, width))
	}
	return out
}

func dotted(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// crossEntropy is that of logits, and its slopes.
func crossEntropy(logits []float64, label int) (loss float64, slopes []float64) {
	sum := 0.0
	for _, z := range logits {
		sum += math.Exp(z)
	}
	for _, z := range logits {
		slopes = append(slopes, math.Exp(z)/sum)
	}
	slopes[label]--
	return math.Log(sum) - logits[label], slopes
}

// rewarded is the equation of reward, of pairs that count.
func rewarded(k float64, margins []float64, pairs ...int) func(y [][]float64) (float64, [][]float64) {
	return func(y [][]float64) (loss float64, slopes [][]float64) {
		slopes = zeros(len(y), 1)
		n := float64(len(pairs))
		for i, pair := range pairs {
			c, r := y[2*pair][0], y[2*pair+1][0]
			s := 1 / (1 + math.Exp(c-r-margins[i])) // S(-(c - r - margin))
			loss += (-math.Log(1-s) + k*(c+r)*(c+r)) / n
			slopes[2*pair][0], slopes[2*pair+1][0] = (-s+2*k*(c+r))/n, (s+2*k*(c+r))/n
		}
		return loss, slopes
	}
}

// classed is the equation of classes.
func classed(labels []int32) func(y [][]float64) (float64, [][]float64) {
	return func(y [][]float64) (loss float64, slopes [][]float64) {
		n := 0.0
		for _, label := range labels {
			if label != none {
				n++
			}
		}
		slopes = zeros(len(y), len(y[0]))
		for i, label := range labels {
			if label == none {
				continue
			}
			one, d := crossEntropy(y[i], int(label))
			loss += one / n
			for j := range d {
				slopes[i][j] = d[j] / n
			}
		}
		return loss, slopes
	}
}

// embedded is the equation of embed: of the rows of queries, positives and negatives that are there.
func embedded(temperature float64, queries, positives, negatives []int) func(y [][]float64) (float64, [][]float64) {
	return func(y [][]float64) (loss float64, slopes [][]float64) {
		slopes = zeros(len(y), len(y[0]))
		candidates := slices.Concat(positives, negatives)
		for i, q := range queries {
			var logits []float64
			for _, c := range candidates {
				logits = append(logits, dotted(y[q], y[c])/temperature)
			}
			one, d := crossEntropy(logits, i)
			loss += one / float64(len(queries))
			for k, c := range candidates {
				for j := range y[q] {
					slopes[q][j] += d[k] * y[c][j] / temperature / float64(len(queries))
					slopes[c][j] += d[k] * y[q][j] / temperature / float64(len(queries))
				}
			}
		}
		return loss, slopes
	}
}

func headCases() []headCase {
	reward := func(k float64) Objective {
		return Objective{Loss: "reward", Numbers: map[string]float64{"center_rewards_coefficient": k}}
	}
	embed := func(temperature, negatives float64) Objective {
		return Objective{Loss: "embed", Numbers: map[string]float64{"temperature": temperature, "negatives": negatives}}
	}
	pairs, scores := []int32{0, 0, 0, 0, 0, 0}, Head{Kind: HeadScores, Labels: 1}
	classes := []int32{2, 0, 3, 1, 2, 2}
	return []headCase{
		{"reward", scores, reward(0), pairs, nil, rewarded(0, []float64{0, 0, 0}, 0, 1, 2)},
		{"reward with margins, centred", scores, reward(0.07), pairs, map[string][]float32{"margin": {0.5, 0.5, 0, 0, 1.25, 1.25}}, rewarded(0.07, []float64{0.5, 0, 1.25}, 0, 1, 2)},
		{"reward, a row missing", scores, reward(0.3), []int32{0, 0, 0, none, 0, 0}, map[string][]float32{"margin": {1, 1, 2, 2, 3, 3}}, rewarded(0.3, []float64{1, 3}, 0, 2)},
		{"classes", Head{Kind: HeadScores, Labels: 4}, Objective{Loss: "classes"}, classes, nil, classed(classes)},
		{"classes, a label missing", Head{Kind: HeadScores, Labels: 5}, Objective{Loss: "classes"}, []int32{4, none, 0, 1, 1, 3}, nil, classed([]int32{4, none, 0, 1, 1, 3})},
		{"embed last", Head{Kind: HeadVectors}, embed(0.3, 1), pairs, nil, embedded(0.3, []int{0, 3}, []int{1, 4}, []int{2, 5})},
		{"embed mean", Head{Kind: HeadVectors, Pooling: PoolingMean}, embed(0.15, 0), pairs, nil, embedded(0.15, []int{0, 2, 4}, []int{1, 3, 5}, nil)},
		{"embed mean, a negative missing", Head{Kind: HeadVectors, Pooling: PoolingMean}, embed(0.5, 1), []int32{0, 0, none, 0, 0, 0}, nil, embedded(0.5, []int{0, 3}, []int{1, 4}, []int{5})},
	}
}

// rows are those of the case, of random tokens and lengths.
func (c headCase) rows(random *rand.Rand, vocab, seq int) (rows Rows, lengths []int) {
	rows = Rows{Count: len(c.labels), Tokens: make([]int32, len(c.labels)*seq), Labels: slices.Repeat([]int32{none}, len(c.labels)*seq), Beside: c.beside}
	for i, label := range c.labels {
		n := 1 + random.IntN(seq)
		for at := range n {
			rows.Tokens[i*seq+at] = random.Int32N(int32(vocab))
		}
		rows.Labels[i*seq+n-1] = label
		lengths = append(lengths, n)
	}
	return rows, lengths
}

// feedsOf are the inputs of a batch.
func feedsOf(o Objective, rows Rows, params map[string]*graph.Array) map[string]*graph.Array {
	in := o.Inputs(rows)
	feeds := map[string]*graph.Array{
		InputTokens: arrayOf([]int{rows.Count, len(rows.Tokens) / rows.Count}, in.Tokens), InputLabels: arrayOf([]int{len(in.Labels)}, in.Labels),
		InputRows: arrayOf([]int{len(in.Ends)}, in.Ends), InputLossScale: {Shape: []int{}, Data: []float64{1 / float64(in.Counts.Of)}},
	}
	for name, values := range in.Floats {
		feeds[name] = arrayOf([]int{len(values)}, values)
	}
	for name, values := range in.Ints {
		feeds[name] = arrayOf([]int{len(values)}, values)
	}
	for path, a := range params {
		feeds[path] = a
	}
	return feeds
}

// TestHeadsOfFamilies holds losses of heads, and their gradients, against their equations, with the outputs of the last norm that a transparent network of each
// family gives.
func TestHeadsOfFamilies(t *testing.T) {
	const seq = 5
	for i, base := range transparent(t) {
		for j, c := range headCases() {
			t.Run(base.Kind()+" "+c.name, func(t *testing.T) {
				def, err := WithHead(base, c.head)
				require.NoError(t, err)
				random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				rows, lengths := c.rows(random, base.Vocab(), seq)
				params := scattered(def)
				built, err := def.Build(rows.Count, seq, Options{Loss: true, Objective: c.learned, Training: true})
				require.NoError(t, err)
				grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
				require.NoError(t, err)
				got, err := graph.Eval(built.Graph, feedsOf(c.learned, rows, params), append([]*graph.Value{built.Loss}, grads...)...)
				require.NoError(t, err)

				plain, err := base.Build(rows.Count, seq, Options{Logits: true})
				require.NoError(t, err)
				width := base.Vocab()
				identity := graph.NewArray([]int{width, width})
				for i := range width {
					identity.Data[i*width+i] = 1
				}
				feeds := feedsOf(c.learned, rows, params)
				feeds["lm_head.weight"] = identity
				hidden, err := graph.Eval(plain.Graph, feeds, plain.Logits)
				require.NoError(t, err)
				loss, slopes, score := c.byHand(hidden[0], lengths, seq, params[scoreWeight])
				closeTo(t, "loss", []float64{loss}, got[0].Data)
				c.inParts(t, def, rows, params, got)
				feeds["slopes"] = slopes
				sum := plain.Graph.Sum(plain.Graph.Mul(plain.Logits, plain.Graph.Input("slopes", plain.Logits.Type())))
				wanted, err := graph.Gradients(plain.Graph, sum, plain.Params)
				require.NoError(t, err)
				want, err := graph.Eval(plain.Graph, feeds, wanted...)
				require.NoError(t, err)
				byPath := map[string][]float64{scoreWeight: score}
				for i, p := range base.Params() {
					byPath[p.Path] = want[i].Data
				}
				for i, p := range def.Params() {
					if !p.Fixed { // the last norm takes out the last of them
						closeTo(t, p.Path, byPath[p.Path], got[1+i].Data)
					}
				}
			})
		}
	}
}

// inParts compares an update of a batch for each group of rows, or of two, with one of all of them: loss, and gradients.
func (c headCase) inParts(t *testing.T, def Definition, rows Rows, params map[string]*graph.Array, want []*graph.Array) {
	if !c.learned.Row().Whole {
		return
	}
	ahead, _ := c.learned.parts().Ahead()
	seq, group := len(rows.Tokens)/rows.Count, c.learned.Row().Group
	look, err := def.Build(rows.Count, seq, Options{Loss: true, Objective: ahead})
	require.NoError(t, err)
	found, err := graph.Eval(look.Graph, feedsOf(ahead, rows, params), look.Rows)
	require.NoError(t, err)
	seen := Seen{Counts: make([]bool, rows.Count), Learning: true}
	for row := range slices.Chunk(found[0].Data, len(found[0].Data)/rows.Count) {
		seen.Rows = append(seen.Rows, nil)
		for _, x := range row {
			seen.Rows[len(seen.Rows)-1] = append(seen.Rows[len(seen.Rows)-1], float32(x))
		}
	}
	laid, _ := c.learned.parts().Row().Ahead.Lay(c.learned.Numbers, seen, nil)
	groups := rows.Count / group
	for _, n := range []int{1, groups} {
		var sum []*graph.Array
		for part := range n {
			from, to := part*rows.Count/n, (part+1)*rows.Count/n
			own := Rows{Count: to - from, Tokens: rows.Tokens[from*seq : to*seq], Labels: rows.Labels[from*seq : to*seq], Beside: map[string][]float32{}}
			for name, all := range laid {
				each := len(all) / rows.Count
				own.Beside[name] = all[from*each : to*each]
			}
			built, err := def.Build(own.Count, seq, Options{Loss: true, Objective: c.learned.parts(), Training: true})
			require.NoError(t, err)
			grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
			require.NoError(t, err)
			feeds := feedsOf(c.learned.parts(), own, params)
			feeds[InputLossScale].Data[0] = 1 / float64(c.learned.Inputs(rows).Counts.Of)
			got, err := graph.Eval(built.Graph, feeds, append([]*graph.Value{built.Loss}, grads...)...)
			require.NoError(t, err)
			for i, a := range got {
				if part == 0 {
					sum = got
					break
				}
				for j, x := range a.Data {
					sum[i].Data[j] += x
				}
			}
		}
		for i, a := range want {
			most := 0.0
			for _, x := range a.Data {
				most = max(most, math.Abs(x))
			}
			for j, x := range a.Data { // vectors are of f32 in between
				assert.InDelta(t, x, sum[i].Data[j], 2e-6*(most+1), "%d parts, output %d at %d", n, i, j)
			}
		}
	}
}

// parts is the objective of an update of several batches.
func (o Objective) parts() Objective {
	o.Parted = true
	return o
}

// byHand is the loss of the outputs of the last norm [rows*seq, width], its slopes by them, and by score.weight, if there is one.
func (c headCase) byHand(hidden *graph.Array, lengths []int, seq int, score *graph.Array) (loss float64, slopes *graph.Array, dScore []float64) {
	width := hidden.Shape[1]
	at := func(a *graph.Array, row, token int) []float64 { return a.Data[(row*seq+token)*width:][:width] }
	pooled, lengthsOf, y := zeros(len(lengths), width), make([]float64, len(lengths)), [][]float64{}
	for row, n := range lengths {
		for token := range n {
			for j, x := range at(hidden, row, token) {
				switch {
				case c.head.Pooling == PoolingMean:
					pooled[row][j] += x / float64(n)
				case token == n-1:
					pooled[row][j] = x
				}
			}
		}
		if score != nil {
			var s []float64
			for label := range score.Shape[0] {
				s = append(s, dotted(score.Data[label*width:][:width], pooled[row]))
			}
			y = append(y, s)
			continue
		}
		lengthsOf[row] = math.Sqrt(dotted(pooled[row], pooled[row]))
		v := slices.Clone(pooled[row])
		for j := range v {
			v[j] /= lengthsOf[row]
		}
		y = append(y, v)
	}
	loss, dy := c.loss(y)
	slopes = graph.NewArray(hidden.Shape)
	if score != nil {
		dScore = make([]float64, len(score.Data))
	}
	for row, n := range lengths {
		d := make([]float64, width)
		if score != nil {
			for label, s := range dy[row] {
				for j := range d {
					d[j] += s * score.Data[label*width+j]
					dScore[label*width+j] += s * pooled[row][j]
				}
			}
		} else {
			along := dotted(dy[row], y[row])
			for j := range d {
				d[j] = (dy[row][j] - along*y[row][j]) / lengthsOf[row]
			}
		}
		for token := range n {
			for j := range d {
				switch to := at(slopes, row, token); {
				case c.head.Pooling == PoolingMean:
					to[j] = d[j] / float64(n)
				case token == n-1:
					to[j] = d[j]
				}
			}
		}
	}
	return loss, slopes, dScore
}

// TestHeadsComeBack: a network of each family with each head is written as transformers has it, and read again.
func TestHeadsComeBack(t *testing.T) {
	classes := map[string]string{
		"gpt2": "GPT2", "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral", "gemma2": "Gemma2", "gemma3_text": "Gemma3Text", "gemma4_text": "Gemma4Text",
		"smollm3": "SmolLM3", "olmo2": "Olmo2", "phi3": "Phi3", "olmo3": "Olmo3", "granite": "Granite", "lfm2": "Lfm2", "qwen3_5_text": "Qwen3_5Text", "ministral3": "Ministral3",
		"granitemoehybrid": "GraniteMoeHybrid", "qwen3_moe": "Qwen3Moe", "gpt_oss": "GptOss", "qwen3_5_moe_text": "Qwen3_5MoeText",
	}
	for _, base := range transparent(t) {
		for _, c := range []struct {
			head   Head
			class  string
			labels any
		}{
			{Head{Kind: HeadScores, Labels: 1}, "ForSequenceClassification", map[string]any{"0": "LABEL_0"}},
			{Head{Kind: HeadScores, Labels: 2}, "ForSequenceClassification", nil},
			{Head{Kind: HeadScores, Labels: 3, Names: []string{"bad", "so so", "good"}}, "ForSequenceClassification", map[string]any{"0": "bad", "1": "so so", "2": "good"}},
			{Head{Kind: HeadVectors, Pooling: PoolingMean}, "Model", nil},
			{Head{Kind: HeadVectors, Pooling: PoolingLast}, "Model", nil},
		} {
			t.Run(fmt.Sprint(base.Kind(), c.head), func(t *testing.T) {
				def, err := WithHead(base, c.head)
				require.NoError(t, err)
				hosts := Init(def, 3)
				dir := filepath.Join(t.TempDir(), "model")
				require.NoError(t, writeHF(dir, def, hosts, "F32"))
				config := configIn(t, dir)
				assert.Equal(t, []any{classes[base.Kind()] + c.class}, config["architectures"])
				assert.Equal(t, c.labels, config["id2label"])
				names := tensorNames(t, dir)
				assert.NotContains(t, names, "lm_head.weight")
				assert.Equal(t, c.head.Kind == HeadScores, slices.Contains(names, "score.weight"))
				within := map[string]string{"gpt2": "transformer."}[base.Kind()]
				if within == "" {
					within = "model."
				}
				for _, name := range names {
					assert.Equal(t, c.head.Kind == HeadScores && name != "score.weight", strings.HasPrefix(name, within), name)
				}
				again, found, err := readHF(dir)
				require.NoError(t, err)
				assert.Equal(t, hosts, found)
				assert.Equal(t, c.head, HeadOf(again))
				assert.True(t, Same(def, again))
				like, err := openWeights(dir, again)
				require.NoError(t, err)
				twice := filepath.Join(t.TempDir(), "twice")
				require.NoError(t, Export(twice, again, like.Read, ExportOptions{Like: like}))
				assert.Equal(t, config, configIn(t, twice))
				assert.Equal(t, names, tensorNames(t, twice))
			})
		}
	}
}

// TestNamesAreWrittenAsRead: a directory of an embedding model may have names without what all paths begin with, or with it.
func TestNamesAreWrittenAsRead(t *testing.T) {
	for _, base := range transparent(t) {
		def, err := WithHead(base, Head{Kind: HeadVectors})
		require.NoError(t, err)
		root := families[base.Kind()].Root
		for _, begins := range []string{"", root} {
			var tensors []array.Tensor
			want := map[string]bool{}
			for _, h := range Init(def, 3) {
				name := begins + strings.TrimPrefix(h.Path, root)
				want[name] = true
				tensors = append(tensors, array.Tensor{Host: array.Host{Path: name, Shape: h.Shape, Read: h.Copy}, DType: "F32"})
			}
			s, err := Bind(def, "files", tensors)
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "model")
			require.NoError(t, Export(dir, def, s.Read, ExportOptions{Like: s}))
			names := map[string]bool{}
			for _, name := range tensorNames(t, dir) {
				names[name] = true
			}
			assert.Equal(t, want, names)
			// A language model's own head is passed over.
			_, err = Bind(def, "files", append(tensors, array.Tensor{Host: array.Host{Path: "lm_head.weight", Shape: []int{8, 8}}, DType: "F32"}))
			require.NoError(t, err)
		}
	}
}

// TestAdaptersOfHeads: adapters of a task are written as PEFT has them, and read upon a language model, or one with the head, and merged.
func TestAdaptersOfHeads(t *testing.T) {
	for _, base := range transparent(t) {
		for _, c := range []struct {
			head Head
			task string
			save any
			upon bool // the base has the head itself
		}{
			{head: Head{Kind: HeadScores, Labels: 1}, task: "SEQ_CLS", save: []any{"classifier", "score"}},
			{head: Head{Kind: HeadScores, Labels: 3}, task: "SEQ_CLS", save: []any{"classifier", "score"}, upon: true},
			{head: Head{Kind: HeadVectors, Pooling: PoolingLast}, task: "FEATURE_EXTRACTION"},
			{head: Head{Kind: HeadVectors, Pooling: PoolingLast}, task: "FEATURE_EXTRACTION", upon: true},
		} {
			t.Run(fmt.Sprint(base.Kind(), c), func(t *testing.T) {
				below, err := WithHead(base, c.head)
				require.NoError(t, err)
				def, err := WithLoRA(below, LoRA{Rank: 2, Target: []string{AllLinear}})
				require.NoError(t, err)
				if !c.upon {
					below = base
				}
				dir, beside := filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "base")
				require.NoError(t, writeHF(beside, below, Init(below, 5), "F32"))
				under, err := openWeights(beside, below)
				require.NoError(t, err)
				hosts, _ := under.ParamsOf(def, 9)
				for _, h := range hosts {
					if h.Path != peftPrefix+scoreWeight {
						continue
					}
					fresh := make([]float32, h.Elements())
					require.NoError(t, h.Copy(fresh, 0))
					if c.upon {
						want, err := under.Read(scoreWeight)
						require.NoError(t, err)
						assert.Equal(t, want, fresh, "it begins as the base's")
					} else {
						_, deviation := moments(fresh)
						assert.InDelta(t, 0.02, deviation, 0.012)
					}
				}
				read := func(path string) (data []float32, err error) {
					i := slices.IndexFunc(hosts, func(h array.Host) bool { return h.Path == path })
					data = make([]float32, hosts[i].Elements())
					return data, hosts[i].Copy(data, 0)
				}
				require.NoError(t, Export(dir, def, read, ExportOptions{Base: beside}))
				config := fieldsIn(t, filepath.Join(dir, AdapterConfigFile))
				assert.Equal(t, c.task, config["task_type"])
				assert.Equal(t, c.save, config["modules_to_save"])
				again, weights := openAdapters(t, dir, beside)
				assert.Equal(t, def.Params(), again.Params())
				assert.NotContains(t, paths(again), scoreWeight, "the adapters' is in its place")
				all, err := weights.All()
				require.NoError(t, err)
				for _, h := range all {
					want, err := read(h.Path)
					require.NoError(t, err)
					assert.Equal(t, want, h.Data, h.Path)
				}
				merged, err := Merged(again)
				require.NoError(t, err)
				out := filepath.Join(t.TempDir(), "merged")
				require.NoError(t, Export(out, merged, Merge(again, weights.Read), ExportOptions{Like: weights.Below()}))
				whole, _, err := readHF(out)
				require.NoError(t, err)
				assert.Equal(t, c.head.Kind, HeadOf(whole).Kind)
				assert.Equal(t, Labels(def), Labels(whole))
			})
		}
	}
}

func paths(def Definition) (out []string) {
	for _, p := range def.Params() {
		out = append(out, p.Path)
	}
	return out
}

func fieldsIn(t *testing.T, name string) (fields map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &fields))
	return fields
}

// Heads are refused where they cannot be meant.
func TestHeadsRefused(t *testing.T) {
	llama := transparent(t)[2]
	mlp, err := NewMLP(MLPConfig{Sizes: []int{3, 4, 2}})
	require.NoError(t, err)
	adapted, err := WithLoRA(llama, LoRA{})
	require.NoError(t, err)
	for want, c := range map[string]struct {
		def  Definition
		head Head
	}{
		"found none, wanted one":                      {nil, Head{}},
		"found a network with adapters":               {adapted, Head{Kind: HeadScores, Labels: 1}},
		"found a network of kind mlp":                 {mlp, Head{Kind: HeadScores, Labels: 1}},
		`found "score", wanted scores or vectors`:     {llama, Head{Kind: "score"}},
		"found 0 labels with 0 names":                 {llama, Head{Kind: HeadScores}},
		"found 2 labels with 1 names":                 {llama, Head{Kind: HeadScores, Labels: 2, Names: []string{"a"}}},
		`pooling: found "first", wanted last or mean`: {llama, Head{Kind: HeadVectors, Pooling: "first"}},
	} {
		_, err := WithHead(c.def, c.head)
		require.ErrorContains(t, err, want)
	}
	of := func(h Head) Definition {
		def, err := WithHead(llama, h)
		require.NoError(t, err)
		return def
	}
	reward, embed := Objective{Loss: "reward"}, Objective{Loss: "embed", Numbers: map[string]float64{"temperature": 1, "negatives": 1}}
	for want, build := range map[string]func() (*Built, error){
		"found a head of scores, wanted one of logits of tokens": func() (*Built, error) {
			return of(Head{Kind: HeadScores, Labels: 1}).Build(2, 2, Options{Loss: true})
		},
		"found a head of logits of tokens, wanted one of scores": func() (*Built, error) { return llama.Build(2, 2, Options{Loss: true, Objective: reward}) },
		"found a head of vectors, wanted one of scores": func() (*Built, error) {
			return of(Head{Kind: HeadVectors}).Build(2, 2, Options{Loss: true, Objective: reward})
		},
		"reward: found a head of 2 labels, wanted one": func() (*Built, error) {
			return of(Head{Kind: HeadScores, Labels: 2}).Build(2, 2, Options{Loss: true, Objective: reward})
		},
		"classes: found a head of one label": func() (*Built, error) {
			return of(Head{Kind: HeadScores, Labels: 1}).Build(2, 2, Options{Loss: true, Objective: Objective{Loss: "classes"}})
		},
		"found batch 4, wanted a multiple of 3: a row has 3 sequences": func() (*Built, error) {
			return of(Head{Kind: HeadVectors}).Build(4, 2, Options{Loss: true, Objective: embed})
		},
		"wanted whole sequences: its head gives vectors": func() (*Built, error) {
			return of(Head{Kind: HeadVectors}).Build(1, 2, Options{Logits: true, Window: 4})
		},
		"temperature: found 0, wanted a number above 0": func() (*Built, error) {
			return of(Head{Kind: HeadVectors}).Build(2, 2, Options{Loss: true, Objective: Objective{Loss: "embed"}})
		},
		"negatives: found 1.5, wanted a whole number": func() (*Built, error) {
			return of(Head{Kind: HeadVectors}).Build(3, 2, Options{Loss: true, Objective: Objective{Loss: "embed", Numbers: map[string]float64{"temperature": 1, "negatives": 1.5}}})
		},
	} {
		_, err := build()
		require.ErrorContains(t, err, want)
	}
	config, err := ConfigJSON(of(Head{Kind: HeadScores, Labels: 3}), "F32")
	require.NoError(t, err)
	for spoilt, want := range map[string]string{`"7"`: "id2label: ", `"x"`: "id2label: "} {
		_, err := ParseConfig([]byte(strings.Replace(string(config), `"2": "LABEL_2"`, spoilt+`: "LABEL_2"`, 1)))
		require.ErrorContains(t, err, want)
	}
	_, err = ParseConfig([]byte(strings.Replace(string(config), `"id2label": {`, `"id2label": 3, "label2id": {`, 1)))
	require.ErrorContains(t, err, "id2label: 3, want an object of names")
}

// A quantized network has heads as any other, and the text part of a model with images too.
func TestHeadsOfOthers(t *testing.T) {
	base := transparent(t)[0]
	q := Quantization{Mode: "affine", Bits: 4, Group: 4}
	whole, err := WithQuantization(base, q)
	require.NoError(t, err)
	first, err := WithHead(whole, Head{Kind: HeadScores, Labels: 3})
	require.NoError(t, err)
	then, err := WithHead(base, Head{Kind: HeadScores, Labels: 3})
	require.NoError(t, err)
	then, err = WithQuantization(then, q)
	require.NoError(t, err)
	assert.True(t, Same(first, then))
	assert.Equal(t, 3, Labels(first))
	raw, err := ConfigJSON(first, "F32")
	require.NoError(t, err)
	again, err := ParseConfig(raw)
	require.NoError(t, err)
	assert.True(t, Same(first, again))

	images, err := ParseConfig([]byte(`{"model_type": "gemma3", "architectures": ["Gemma3ForSequenceClassification"], "id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1},
		"text_config": {"hidden_size": 8, "intermediate_size": 16, "model_type": "gemma3_text", "num_hidden_layers": 1, "vocab_size": 9}, "vision_config": {}}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"no", "yes"}, HeadOf(images).Names)
	settings := images.Settings()
	assert.Equal(t, []string{"Gemma3TextForSequenceClassification"}, settings["architectures"])
	assert.Equal(t, map[string]string{"0": "no", "1": "yes"}, settings["id2label"])
	for name, path := range map[string]string{
		"model.language_model.norm.weight": "model.norm.weight", "language_model.model.norm.weight": "model.norm.weight", "score.weight": "score.weight",
	} {
		assert.Equal(t, path, PathOf(images, name))
	}
}

// Rows that a loss of heads cannot learn from are named.
func TestRowsOfHeadsRefused(t *testing.T) {
	embed := Objective{Loss: "embed", Numbers: map[string]float64{"negatives": 1}}
	for want, c := range map[string]struct {
		o      Objective
		labels []int32
	}{
		"batch: row 1: found 2 labels, wanted one, at its last token":                   {Objective{Loss: "reward"}, []int32{none, 0, 0, 0, none, 0, none, 0}},
		"batch: pair 1: found a row without a last token, wanted both rows to have one": {Objective{Loss: "reward"}, []int32{none, 0, 0, none, none, none, none, 0}},
		"batch: row 2: found no label, wanted one":                                      {Objective{Loss: "classes"}, []int32{none, 0, 0, none, none, none, none, 0}},
		"batch: row 1: found a query or a positive without tokens, wanted some in both": {embed, []int32{none, 0, 0, none, none, none, none, 0, none, none, 0, none}},
	} {
		in := c.o.Inputs(Rows{Tokens: make([]int32, len(c.labels)), Labels: c.labels, Count: len(c.labels) / 2})
		require.EqualError(t, in.Lacking, want)
	}
	def, err := ParseConfig([]byte(`{"model_type": "llama", "hidden_size": 12, "intermediate_size": 5, "vocab_size": 7, "num_attention_heads": 3, "num_key_value_heads": 1,
		"max_position_embeddings": 64, "num_hidden_layers": 1, "pad_token_id": 3, "architectures": ["LlamaForSequenceClassification"], "num_labels": 1}`))
	require.NoError(t, err)
	rows := Rows{Tokens: []int32{3, 2, 2, 3, 2, 2}, Labels: []int32{none, 0, none, 0, none, none}, Count: 2}
	require.ErrorContains(t, CheckEnds(def, rows), "batch: row 1: found the padding 3 as its last token")
	rows.Tokens[3] = 1
	require.NoError(t, CheckEnds(def, rows))
}

// Losses of heads on a device, with what they give and all gradients, follow the float64 evaluation of the same graph.
func TestDeviceFollowsHeads(t *testing.T) {
	const seq = 5
	dev := gputest.Device(t)
	for i, base := range transparent(t)[3:5] {
		for j, c := range headCases() {
			def, err := WithHead(base, c.head)
			require.NoError(t, err)
			rows, _ := c.rows(rand.New(rand.NewPCG(uint64(i), uint64(j))), base.Vocab(), seq)
			params := scattered(def)
			hosts := Init(def, 5)
			for i, h := range hosts {
				for k, x := range params[h.Path].Data {
					hosts[i].Data[k] = float32(x)
				}
			}
			built, err := def.Build(rows.Count, seq, Options{Loss: true, Logits: true, Objective: c.learned, Training: true})
			require.NoError(t, err)
			followsReference(t, dev, def, built, hosts, feedsOf(c.learned, rows, params))
		}
	}
}
