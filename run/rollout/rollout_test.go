package rollout

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/prng"
	"gputrain/state"
)

const vocab = 50

// fake is a model whose logits are a function of what it has seen, of which it keeps a key for each position.
type fake struct {
	window int
	logits func(cell) []float32
	paging state.Paging
	last   cell
	pool   []cell // by block and position in it
	passes []string
	drawn  int // by itself
}

// cell is what a model keeps of a position.
type cell struct {
	key   prng.Key // of all tokens up to it
	token int32
}

var first = cell{key: prng.NewKey(5)}

func (c cell) next(token int32) cell { return cell{c.key.FoldIn(uint32(token)), token} }

func (f *fake) Window() int          { return f.window }
func (f *fake) Paging() state.Paging { return f.paging }

func (f *fake) Logits(_ context.Context, window []int32) ([]float32, error) {
	f.last = first
	for _, token := range window {
		f.last = f.last.next(token)
	}
	return f.logits(f.last), nil
}

func (f *fake) Decode(_ context.Context, token int32) ([]float32, error) {
	f.last = f.last.next(token)
	return f.logits(f.last), nil
}

func (f *fake) Fill(_ context.Context, p state.Places) error {
	f.passes = append(f.passes, fmt.Sprintf("fill %d", f.take(p)))
	return nil
}

func (f *fake) Advance(_ context.Context, p state.Places) (out []float32, _ error) {
	f.passes = append(f.passes, fmt.Sprintf("step %d", f.take(p)))
	for i, row := range p.Rows {
		logits := make([]float32, vocab)
		if row >= 0 {
			logits = f.logits(*f.at(p.Table, row, p.Positions[i]))
		}
		out = append(out, logits...)
	}
	return out, nil
}

func (f *fake) Draw(ctx context.Context, p state.Places) (tokens []int32, logProbs []float32, _ error) {
	logits, _ := f.Advance(ctx, p)
	f.drawn++
	for i := range p.Rows {
		own := logits[i*vocab:][:vocab]
		token, err := (&Chooser{Temperature: float64(p.Temperatures[i])}).Choose(own, p.Uniforms[i])
		lp := float32(math.NaN())
		if of, wrong := sharesOf(own, float64(p.Temperatures[i])); err == nil && wrong == nil {
			lp = of.logProb(own[token])
		}
		tokens, logProbs = append(tokens, token), append(logProbs, lp)
	}
	return tokens, logProbs, nil
}

// at is where a position of a row lies.
func (f *fake) at(table []int32, row, position int32) *cell {
	size := int32(f.paging.Size)
	return &f.pool[table[row*int32(f.paging.Entries)+position/size]*size+position%size]
}

// take writes tokens, those of earlier positions first: later ones see them.
func (f *fake) take(p state.Places) (taken int) {
	if f.pool == nil {
		f.pool = make([]cell, f.paging.Blocks*f.paging.Size)
	}
	written := map[*cell]bool{}
	for at := range int32(f.window) {
		for i, position := range p.Positions {
			if row := p.Rows[i]; position == at && row >= 0 {
				before, to := first, f.at(p.Table, row, at)
				if at > 0 {
					before = *f.at(p.Table, row, at-1)
				}
				if written[to] {
					panic("a place is written twice")
				}
				*to, written[to] = before.next(p.Tokens[i]), true
				taken++
			}
		}
	}
	return taken
}

// counting continues n with n+1.
func counting(c cell) []float32 {
	out := make([]float32, vocab)
	out[(c.token+1)%vocab] = 20
	return out
}

// wild has logits of all that it has seen.
func wild(c cell) []float32 {
	out := make([]float32, vocab)
	for i := range out {
		out[i] = 2 * c.key.Normal(uint64(i))
	}
	return out
}

// pagings are of a model that continues one text at a time, of one whose rows all wait for one another, and of one with room for all.
var pagings = map[string]state.Paging{
	"one":   {},
	"short": {Rows: 4, Blocks: 9, Size: 4, Entries: 8, Fill: 5},
	"few":   {Rows: 3, Blocks: 24, Size: 4, Entries: 8, Fill: 7},
	"many":  {Rows: 16, Blocks: 128, Size: 2, Entries: 16, Fill: 64},
}

func TestDraw(t *testing.T) {
	c := Config{Tokens: 4, Rows: 8, Stop: []int32{9, 30}, Ends: func(tokens []int32) bool { return tokens[len(tokens)-1] == 25 }}
	prompts := []Prompt{{[]int32{3, 4}, 7, 2}, {[]int32{6, 7}, 8, 1}, {[]int32{23}, 9, 1}, {[]int32{1, 1, 1, 1, 1, 11}, 10, 1}}
	want := []Completion{
		{Prompt: 0, Tokens: []int32{5, 6, 7, 8}, Truncated: true},
		{Prompt: 0, Sample: 1, Tokens: []int32{5, 6, 7, 8}, Truncated: true},
		{Prompt: 1, Tokens: []int32{8, 9}},
		{Prompt: 2, Tokens: []int32{24, 25}},
		{Prompt: 3, Tokens: []int32{12, 13}, Truncated: true}, // the window is full
	}
	for i, w := range want {
		for range w.Tokens {
			want[i].LogProbs = append(want[i].LogProbs, float32(-math.Log(1+(vocab-1)*math.Exp(-20))))
		}
	}
	for name, paging := range pagings {
		var told []Completion
		all, err := Draw(t.Context(), c, &fake{window: 8, logits: counting, paging: paging}, prompts, func(done Completion) { told = append(told, done) })
		require.NoError(t, err, name)
		assert.Equal(t, want, all, name)
		assert.ElementsMatch(t, want, told, name)
	}
}

// A row is a function of its own numbers.
func TestDrawnAlone(t *testing.T) {
	c := Config{Tokens: 6, Rows: 3, Temperature: 1, TopK: 40, TopP: .95, MinP: .01, Seed: 1 << 40, Generation: 2, Stop: []int32{3}}
	long := []int32{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 9, 8, 7}
	prompts := []Prompt{{[]int32{1, 2}, 5, 3}, {[]int32{1, 2}, 6, 2}, {[]int32{4}, 7, 1}, {long, 8, 5}, {long[:9], 1 << 33, 4}, {long[:8], 9, 3}}
	paging := pagings["one"]
	draw := func(c Config, prompts ...Prompt) []Completion {
		all, err := Draw(t.Context(), c, &fake{window: 30, logits: wild, paging: paging}, prompts, nil)
		require.NoError(t, err)
		return all
	}
	all := draw(c, prompts...)
	for name, p := range pagings {
		for _, rows := range []int{1, 3, 64} {
			paging, c.Rows = p, rows
			assert.Equal(t, all, draw(c, prompts...), "%s, %d", name, rows)
		}
	}
	for i, p := range prompts {
		var own []Completion
		for _, found := range all {
			if found.Prompt == i {
				found.Prompt = 0
				own = append(own, found)
			}
		}
		require.Len(t, own, p.Samples)
		assert.Equal(t, own, draw(c, p))
	}
	assert.NotEqual(t, all[0].Tokens, all[1].Tokens)
	for _, change := range []func(c *Config, p *Prompt){
		func(c *Config, _ *Prompt) { c.Seed++ },
		func(c *Config, _ *Prompt) { c.Seed = 0 },
		func(c *Config, _ *Prompt) { c.Generation++ },
		func(_ *Config, p *Prompt) { p.Number++ },
	} {
		other, p := c, prompts[0]
		change(&other, &p)
		assert.NotEqual(t, all[:3], draw(other, p))
	}
}

// Log-probabilities are those of the temperature, and of all that the model has.
func TestLogProbs(t *testing.T) {
	for _, temperature := range []float64{0, .5, 1, 2} {
		c := Config{Tokens: 5, Rows: 1, Temperature: temperature, TopK: 2, TopP: .9, Vocab: 20}
		all, err := Draw(t.Context(), c, &fake{window: 30, logits: wild}, []Prompt{{[]int32{1}, 0, 4}}, nil)
		require.NoError(t, err)
		for _, found := range all {
			seen := first.next(1)
			for i, token := range found.Tokens {
				logits, sum := wild(seen), 0.0
				if temperature == 0 {
					temperature = 1
					require.EqualValues(t, slices.Index(logits[:20], slices.Max(logits[:20])), token)
				}
				for _, l := range logits {
					sum += math.Exp(float64(l) / temperature)
				}
				require.InDelta(t, float64(logits[token])/temperature-math.Log(sum), found.LogProbs[i], 1e-6)
				require.Less(t, token, int32(20))
				seen, temperature = seen.next(token), c.Temperature
			}
		}
	}
}

// The model draws where all tokens may come, and what may not come is drawn again.
func TestModelDraws(t *testing.T) {
	prompts := []Prompt{{[]int32{1, 2}, 5, 3}, {[]int32{4}, 7, 6}}
	for says, c := range map[string]struct {
		Config
		itself bool
	}{
		"all":               {Config{Temperature: .75}, true},
		"likeliest":         {Config{}, true},
		"some":              {Config{Temperature: 1.5, Vocab: 20}, true},
		"top k":             {Config{Temperature: 1, TopK: 3}, false},
		"likeliest of some": {Config{Vocab: 20}, false},
		"cold":              {Config{Temperature: 1e-9}, false},
	} {
		c.Tokens, c.Rows = 7, 16
		m := &fake{window: 30, logits: wild, paging: pagings["many"]}
		all, err := Draw(t.Context(), c.Config, m, prompts, nil)
		require.NoError(t, err)
		assert.Equal(t, c.itself, m.drawn > 0, says)
		for _, one := range all {
			if c.Vocab > 0 {
				assert.Less(t, slices.Max(one.Tokens), int32(c.Vocab), says)
			}
		}
		few := &fake{window: 30, logits: wild, paging: pagings["few"]}
		again, err := Draw(t.Context(), c.Config, few, prompts, nil)
		require.NoError(t, err)
		assert.Equal(t, all, again, says)
		if c.Vocab == 0 || !c.itself {
			want, err := Draw(t.Context(), c.Config, &fake{window: 30, logits: wild}, prompts, nil)
			require.NoError(t, err)
			assert.Equal(t, want, all, says)
		} else {
			assert.Greater(t, m.drawn, c.Tokens, "some were drawn again")
		}
	}
	_, err := Draw(t.Context(), Config{Tokens: 1, Rows: 1, Temperature: 1, Vocab: 1}, &fake{window: 30, logits: counting, paging: pagings["few"]}, prompts, nil)
	require.ErrorContains(t, err, "drawn 100 times, wanted one below 1")
}

// What a group shares is taken in once, ended rows give way to those that wait, and few tokens of prompts wait for more.
func TestPasses(t *testing.T) {
	m := &fake{window: 30, logits: counting, paging: state.Paging{Rows: 4, Blocks: 20, Size: 4, Entries: 8, Fill: 8}}
	prompts := []Prompt{{[]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0, 4}, {[]int32{1, 2, 3}, 1, 3}}
	c := Config{Tokens: 3, Rows: 9, Stop: []int32{12}, Ends: nil}
	_, err := Draw(t.Context(), c, m, prompts, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"fill 8", "fill 4", // blocks of four, and a token of each row; the last one is of a step
		"step 4", "step 4",
		"fill 6", // both tokens of three rows
		"step 3", "step 3", "step 3",
	}, m.passes)
	m = &fake{window: 30, logits: wild, paging: state.Paging{Rows: 4, Blocks: 20, Size: 4, Entries: 8, Fill: 8}}
	_, err = Draw(t.Context(), Config{Tokens: 9, Rows: 4, Temperature: 1, Stop: []int32{0, 1, 2, 3, 4}}, m, []Prompt{{[]int32{1, 2}, 0, 40}}, nil)
	require.NoError(t, err)
	alone, steps := 0, 0
	for _, p := range m.passes {
		steps += strings.Count(p, "step")
		alone += strings.Count(p, "fill 1")
	}
	assert.Less(t, steps, 40*9/4, "rows are refilled")
	assert.Less(t, alone, 20)
}

func TestDrawRefuses(t *testing.T) {
	good := Config{Tokens: 3, Rows: 2, Temperature: 1}
	one := []Prompt{{[]int32{1}, 0, 1}}
	short := state.Paging{Rows: 2, Blocks: 1, Size: 2, Entries: 4, Fill: 2}
	for says, try := range map[string]struct {
		c Config
		p []Prompt
		state.Paging
	}{
		"tokens 0":              {Config{Rows: 1}, one, short},
		"rows 0":                {Config{Tokens: 1}, one, short},
		"top-p 2":               {Config{Tokens: 1, Rows: 1, TopP: 2}, one, short},
		"temperature NaN":       {Config{Tokens: 1, Rows: 1, Temperature: math.NaN()}, one, short},
		"prompt 1: 8 tokens":    {good, []Prompt{one[0], {make([]int32, 8), 1, 1}}, short},
		"prompt 0: 0 tokens":    {good, []Prompt{{nil, 1, 1}}, short},
		"prompt 0: 0 samples":   {good, []Prompt{{[]int32{1}, 1, 0}}, short},
		"prompt 2, sample 0, t": {good, []Prompt{one[0], one[0], {[]int32{46}, 0, 1}}, state.Paging{}},
		"prompt 1, sample 0, token 2: logit 7: NaN":                    {Config{Tokens: 3, Rows: 2, Temperature: 1, TopK: 9}, []Prompt{one[0], {[]int32{46}, 0, 1}}, pagings["few"]},
		"prompt 1, sample 0, token 2: log-probability NaN: not finite": {good, []Prompt{one[0], {[]int32{46}, 0, 1}}, pagings["few"]},
		"prompt 0: 3 positions, want at most the 2":                    {good, one, short},
	} {
		m := &fake{window: 8, paging: try.Paging, logits: func(c cell) []float32 {
			out := counting(c)
			if c.token == 48 {
				out[7] = float32(math.NaN())
			}
			return out
		}}
		_, err := Draw(t.Context(), try.c, m, try.p, nil)
		require.ErrorContains(t, err, says)
	}
	for _, paging := range pagings {
		over, stop := context.WithCancel(t.Context())
		m := &fake{window: 8, paging: paging, logits: func(c cell) []float32 {
			stop()
			return counting(c)
		}}
		_, err := Draw(over, good, m, one, nil)
		require.ErrorIs(t, err, context.Canceled)
	}
}
