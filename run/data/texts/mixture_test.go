package texts

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// three is a mixture of a text of 7 windows, documents of 5 windows and a text of 400 windows, of 4 tokens each; a window's first token
// tells the source: below 1000, from 100000 on, or between.
func three(t *testing.T, end string, weights ...float64) *data.Mixture {
	t.Helper()
	far := count(2000+4*400+1).Slice(2000, 2000+4*400+1)
	var lengths []int
	for range 105 {
		lengths = append(lengths, 0)
	}
	m, err := data.NewMixture([]data.Source{count(29), numbered(data.Layout{Packing: data.PackNone}, append(lengths, 5, 4, 3, 5, 2)...), far}, weights, end)
	require.NoError(t, err)
	return m
}

func sourceOf(first int32) int {
	switch {
	case first < 1000:
		return 0
	case first >= 100000:
		return 1
	}
	return 2
}

// firsts are the first tokens of the windows of a walk.
func firsts(t *testing.T, source data.Source, seed uint64, from data.State, n int) (out []int32, after data.State) {
	t.Helper()
	l, err := data.NewLoader(source, data.LoaderConfig{Context: 4, Batch: 1, Seed: seed, State: from})
	require.NoError(t, err)
	defer l.Close()
	for range n {
		b, err := l.Next(t.Context())
		require.NoError(t, err)
		out = append(out, b.Tokens[0])
	}
	return out, l.State()
}

func TestMixtureKeepsItsWeights(t *testing.T) {
	got, _ := firsts(t, three(t, "restart", 0.5, 0.3, 0.2), 1, data.State{}, 3000)
	for block := range 3 {
		count := [3]int{}
		for _, first := range got[1000*block : 1000*block+1000] {
			count[sourceOf(first)]++
		}
		assert.Equal(t, [3]int{500, 300, 200}, count, "exact in every thousand")
	}
	// Within a block they are mixed: no source stands at one end.
	count := [3]int{}
	for _, first := range got[:100] {
		count[sourceOf(first)]++
	}
	for source, want := range []float64{50, 30, 20} {
		assert.InDelta(t, want, float64(count[source]), 5*math.Sqrt(want*(1-want/100)), "five standard deviations")
	}
	var first, second []int
	for i := range 1000 {
		first, second = append(first, sourceOf(got[i])), append(second, sourceOf(got[1000+i]))
	}
	assert.NotEqual(t, first, second, "every thousand has an order of its own")
	other, _ := firsts(t, three(t, "restart", 0.5, 0.3, 0.2), 2, data.State{}, 1000)
	assert.NotEqual(t, got[:1000], other, "as every seed has")
}

// Each source gives all its windows before one comes again.
func TestSourcesOfAMixtureAreExhaustedInTurn(t *testing.T) {
	got, _ := firsts(t, three(t, "restart", 0.5, 0.3, 0.2), 9, data.State{}, 4000)
	var of [3][]int32
	for _, first := range got {
		of[sourceOf(first)] = append(of[sourceOf(first)], first)
	}
	for source, windows := range map[int]int{1: 5, 2: 400} { // the windows of a text begin elsewhere in later epochs
		for epoch := 0; (epoch+1)*windows <= len(of[source]); epoch++ {
			seen := map[int32]bool{}
			for _, first := range of[source][epoch*windows : (epoch+1)*windows] {
				if source == 2 && epoch > 0 {
					first = (first - 2000) / 4
				}
				seen[first] = true
			}
			require.GreaterOrEqual(t, len(seen), windows-1, "source %d, epoch %d", source, epoch) // the last one of a text is moved
		}
	}
}

// An epoch ends with the first or the last source that is used up, and the next one is another.
func TestEndsOfAMixture(t *testing.T) {
	windows := []int{7, 5, 400}
	for _, end := range []string{"first_exhausted", "all_exhausted"} {
		m := three(t, end, 1, 2, 2)
		got, after := firsts(t, m, 4, data.State{}, 3000)
		w, err := m.Walk(4, 4)
		require.NoError(t, err)
		size := int(w.Length(0))
		seen, done := [3]int{}, 0
		for i, first := range got {
			source := sourceOf(first)
			if seen[source]++; seen[source] == windows[source] {
				done++
			}
			if end == "first_exhausted" && done == 1 || done == 3 {
				assert.Equal(t, i+1, size, end)
				break
			}
		}
		require.Less(t, size, 3000)
		assert.NotEqual(t, got[:size], got[size:2*size], "another order")
		position := 3000
		for epoch := uint64(0); epoch < after.Epoch; epoch++ {
			position -= int(w.Length(epoch))
		}
		assert.Equal(t, uint64(position), after.Position, end)
	}
	endless := three(t, "restart", 1, 1, 1)
	assert.Equal(t, uint64(math.MaxUint64), must(endless.Walk(4, 1)).Length(0))
	for _, b := range batches(t, endless, data.LoaderConfig{Context: 4, Batch: 50, Seed: 1}, 3) {
		assert.Zero(t, b.Epochs)
	}
}

func must(w data.Walk, err error) data.Walk {
	if err != nil {
		panic(err)
	}
	return w
}

// A run that stops twice within an epoch goes on to the same windows, whatever the depth of prefetching, and so do two loaders that are
// read in turn: no state is shared, nothing is drawn from a common generator.
func TestEverySourceResumesAnywhere(t *testing.T) {
	for name, source := range map[string]data.Source{
		"text":            count(29),
		"documents":       numbered(data.Layout{}, 3, 6, 2, 1, 2, 9, 30, 4),
		"mixture":         three(t, "restart", 3, 2, 1),
		"mixture, first":  three(t, "first_exhausted", 3, 2, 1),
		"mixture, all":    three(t, "all_exhausted", 3, 2, 1),
		"mixture of long": three(t, "all_exhausted", 1, 1, 500),
	} {
		t.Run(name, func(t *testing.T) {
			c := data.LoaderConfig{Context: 4, Batch: 3, Seed: 5}
			whole := batches(t, source, c, 60)
			for _, stops := range [][2]int{{1, 2}, {7, 30}, {30, 59}} {
				resumed := c
				resumed.State, resumed.Prefetch = whole[stops[0]-1].State, 1
				require.Equal(t, whole[stops[0]:stops[1]], batches(t, source, resumed, stops[1]-stops[0]))
				resumed.State, resumed.Prefetch = whole[stops[1]-1].State, 7
				require.Equal(t, whole[stops[1]:], batches(t, source, resumed, 60-stops[1]))
			}
			a, err := data.NewLoader(source, c)
			require.NoError(t, err)
			defer a.Close()
			other := c
			other.Seed = 6
			b, err := data.NewLoader(source, other)
			require.NoError(t, err)
			defer b.Close()
			for i := range 60 {
				one, err := a.Next(t.Context())
				require.NoError(t, err)
				require.Equal(t, whole[i], one)
				_, err = b.Next(t.Context())
				require.NoError(t, err)
			}
		})
	}
}

// Going on far into the data costs what going on at its beginning does: the windows of the batch are read and nothing else.
func TestSeekingReadsOnlyTheBatch(t *testing.T) {
	text, documents, mixture, reads := countedSources(t)
	for name, c := range map[string]struct {
		source data.Source
		at     data.State
	}{
		"text":      {text, data.State{Epoch: 1 << 40, Position: 12345}},
		"documents": {documents, data.State{Epoch: 1 << 40, Position: 3}},
		"mixture":   {mixture, data.State{Position: 1 << 50}},
	} {
		before := reads()
		batches(t, c.source, data.LoaderConfig{Context: 4, Batch: 8, State: c.at}, 1)
		assert.Equal(t, 8, reads()-before, name)
	}
}

func TestOpenMixture(t *testing.T) {
	root := tree(t, map[string]string{
		"a.txt": string(make([]byte, 400)), "b.jsonl": `{"text": "hello"}` + "\n" + `{"text": "there"}` + "\n" + `{"text": "again"}`, "ids.jsonl": `{"input_ids": [7, 8, 300]}`,
	})
	c := Config{Context: 8, Vocab: 400, Mixture: []Part{{Text: []string{root + "/a.txt"}, Weight: 3}, {JSONL: []string{root + "/b.jsonl"}, Weight: 1}}}
	corpus := open(t, c)
	assert.Equal(t, 2, corpus.Files)
	assert.Equal(t, "bytes", corpus.Tokens)
	assert.Equal(t, 256, corpus.Train.Vocab())
	assert.Nil(t, corpus.Validation)
	assert.Equal(t, filepath.ToSlash(root)+"/a.txt + "+root+"/b.jsonl", corpus.Name)
	again := c
	again.Mixture = []Part{c.Mixture[0], {JSONL: c.Mixture[1].JSONL, Weight: 2}}
	assert.NotEqual(t, corpus.Fingerprint, open(t, again).Fingerprint, "weights")
	again = c
	again.MixtureEnd = "all_exhausted"
	assert.NotEqual(t, corpus.Fingerprint, open(t, again).Fingerprint, "end")

	c.Validation = 0.5
	corpus = open(t, c)
	e, err := data.NewEvaluation(corpus.Validation, 8, 3, 0)
	require.NoError(t, err)
	count := 0
	for i := range e.Batches() {
		b, err := e.Batch(i)
		require.NoError(t, err)
		count += b.Count
	}
	assert.Equal(t, 199+5, count, "200 bytes of text, and one document with its end")

	c.Mixture[1].JSONL = []string{root + "/ids.jsonl"}
	c.Validation = 0
	corpus = open(t, c)
	assert.Equal(t, "ids", corpus.Tokens)
	assert.Equal(t, 400, corpus.Train.Vocab())
	steps, err := data.Steps(corpus.Train, 8, 4, 1, 1)
	require.ErrorContains(t, err, `want "first_exhausted" or "all_exhausted"`, "%d", steps)

	for want, parts := range map[string][]Part{
		"source 1: text [], jsonl []: want one of them":           {c.Mixture[0], {Weight: 1}},
		"source 0: data: text":                                    {{Text: []string{root + "/absent"}, Weight: 1}},
		"data: mixture: source 0: weight 0":                       {{Text: []string{root + "/a.txt"}}},
		`source 0: data: jsonl "` + root + `/a.txt": line 1: inv`: {{JSONL: []string{root + "/a.txt"}, Weight: 1}},
	} {
		c.Mixture = parts
		_, err := Open(t.Context(), c)
		require.ErrorContains(t, err, want)
	}
}

func TestStepsOfEpochs(t *testing.T) {
	for _, c := range []struct {
		source        data.Source
		batch, epochs int
		want          int64
	}{
		{count(29), 1, 1, 7},
		{count(29), 2, 1, 4},
		{count(29), 2, 4, 14},
		{numbered(data.Layout{Packing: data.PackNone}, 5, 3, 2), 2, 3, 5},
	} {
		got, err := data.Steps(c.source, 4, c.batch, 0, c.epochs)
		require.NoError(t, err)
		assert.Equal(t, c.want, got, fmt.Sprintf("%+v", c))
	}
	m := three(t, "all_exhausted", 1, 1, 3)
	w, err := m.Walk(4, 8)
	require.NoError(t, err)
	got, err := data.Steps(m, 4, 1, 8, 2)
	require.NoError(t, err)
	assert.Equal(t, int64(w.Length(0)+w.Length(1)), got)
	_, err = data.Steps(count(3), 4, 1, 0, 1)
	require.ErrorContains(t, err, "data: epochs: 3 tokens found")
}
