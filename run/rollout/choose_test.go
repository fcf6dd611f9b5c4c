package rollout

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func choose(logits []float32, c Chooser, u float32) (int32, error) {
	c.ByWeight = true
	return c.Choose(logits, u)
}

func TestChoose(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Log(5)), 0}
	draw := func(c Chooser, u float32) int32 {
		token, err := choose(logits, c, u)
		require.NoError(t, err)
		return token
	}
	one := Chooser{Temperature: 1}
	assert.EqualValues(t, 2, draw(Chooser{}, .99))
	// Shares at temperature 1: token 2 has 5/9, token 1 has 2/9, tokens 0 and 3 have 1/9 each, in this order.
	for _, c := range []struct {
		u    float32
		want int32
	}{{0, 2}, {.55, 2}, {.56, 1}, {.77, 1}, {.78, 0}, {.88, 0}, {.89, 3}, {.999999, 3}} {
		assert.Equal(t, c.want, draw(one, c.u), "u %v", c.u)
	}
	// Of the best two: 5/7, 2/7.
	two := Chooser{Temperature: 1, TopK: 2}
	assert.EqualValues(t, 2, draw(two, .71))
	assert.EqualValues(t, 1, draw(two, .72))
	assert.EqualValues(t, 1, draw(two, .9999999))
	// Temperature 1/2 squares the odds: 25, 4, 1, 1.
	assert.EqualValues(t, 2, draw(Chooser{Temperature: .5}, .80))
	assert.EqualValues(t, 1, draw(Chooser{Temperature: .5}, .81))
	const last = .9999999
	for _, c := range []struct {
		c    Chooser
		want int32
	}{
		{Chooser{TopP: .55}, 2},                      // token 2 alone has more
		{Chooser{TopP: .56}, 1},                      // it has not, so the next one is there too
		{Chooser{TopP: .8}, 0},                       // and the first of two equal ones
		{Chooser{TopP: .89}, 3},                      // 8/9 is not enough
		{Chooser{TopP: .71, TopK: 2}, 2},             // of the best two: 5/7
		{Chooser{MinP: .41}, 2},                      // 2/5 as probable as the best
		{Chooser{MinP: .39}, 1},                      // both
		{Chooser{MinP: .3, TopP: .3}, 2},             // the fewest hold
		{Chooser{TopP: 1e-9, TopK: 4, MinP: .01}, 2}, // at least one
		{Chooser{TopP: 1, TopK: 9}, 3},               // all
	} {
		c.c.Temperature = 1
		assert.Equal(t, c.want, draw(c.c, last), "%+v", c.c)
	}
	// In the order of the ids: 1/9, 2/9, 5/9, 1/9.
	for _, c := range []struct {
		u    float32
		want int32
	}{{0, 0}, {.11, 0}, {.12, 1}, {.33, 1}, {.34, 2}, {.88, 2}, {.89, 3}, {.999999, 3}} {
		token, err := one.Choose(logits, c.u)
		require.NoError(t, err)
		assert.Equal(t, c.want, token, "u %v", c.u)
	}
	logits[3] = float32(math.NaN())
	_, err := choose(logits, one, .5)
	assert.ErrorContains(t, err, "logit 3: NaN")
	logits[3] = float32(math.Inf(-1))
	_, err = choose(logits, one, .5)
	assert.ErrorContains(t, err, "logit 3: -Inf")
}

// sorted is the definition of choose: all tokens in order, and sums in that order.
func sorted(logits []float32, c Chooser, u float32) int32 {
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	if c.Temperature == 0 {
		return order[0]
	}
	if c.TopK > 0 {
		order = order[:min(c.TopK, len(order))]
	}
	exponents, weights := make([]float64, len(order)), make([]float64, len(order))
	for i, token := range order {
		exponents[i] = (float64(logits[token]) - float64(logits[order[0]])) / c.Temperature
		weights[i] = math.Exp(exponents[i])
	}
	total := func() (sum float64) {
		for _, w := range weights {
			sum += w
		}
		return sum
	}
	if c.TopP > 0 && c.TopP < 1 {
		rest := c.TopP * total()
		for i, w := range weights {
			if rest -= w; rest <= 0 {
				weights = weights[:i+1]
				break
			}
		}
	}
	for i := range weights {
		if c.MinP > 0 && exponents[i] < math.Log(c.MinP) {
			weights = weights[:i]
			break
		}
	}
	if order = order[:len(weights)]; !c.ByWeight {
		of := map[int32]float64{}
		for i, token := range order {
			of[token] = weights[i]
		}
		slices.Sort(order)
		for i, token := range order {
			weights[i] = of[token]
		}
	}
	rest, last := float64(u)*total(), 0
	for i, w := range weights {
		if w == 0 && !c.ByWeight {
			continue
		}
		last = i
		if rest -= w; rest < 0 {
			break
		}
	}
	return order[last]
}

// randomDraw is a case for choose: of few tokens or many, of equal ones, of one, of more probable ones than fit a float64.
func randomDraw(r *rand.Rand) (logits []float32, c Chooser, u float32) {
	logits = make([]float32, []int{1, 2, few - 1, few, few + 1, 257, 1 + r.IntN(3000)}[r.IntN(7)])
	spread, steps := math.Exp(8*r.Float64()-4), math.Exp(6*r.Float64())
	for i := range logits {
		l := spread * r.NormFloat64()
		if r.IntN(2) == 0 {
			l = math.Round(l*steps) / steps // equal ones
		}
		logits[i] = float32(l)
	}
	pick := func(values ...float64) float64 { return values[r.IntN(len(values))] }
	c = Chooser{
		Temperature: pick(0, 1e-3, .5, 1, 1, 7, 1e6), TopK: []int{0, 0, 1, 40, 100, 1 << 30}[r.IntN(6)],
		TopP: pick(0, 0, 1e-12, .25, .5, .9, 1, r.Float64()), MinP: pick(0, 0, 0, .5, 1e-3, 1), ByWeight: r.IntN(2) == 0,
	}
	return logits, c, float32(pick(0, .25, .5, 1-0x1p-24, float64(float32(r.IntN(1<<24))*0x1p-24)))
}

// What is drawn is what the definition draws.
func TestChooseAsDefined(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 3))
	var one Chooser // keeps nothing of a token for the next one
	for n := range 1000 {
		logits, c, u := randomDraw(r)
		c.candidates, c.weights = one.candidates, one.weights
		one = c
		before := slices.Clone(logits)
		found, err := one.Choose(logits, u)
		require.NoError(t, err)
		require.Equal(t, sorted(logits, c, u), found, "case %d: %d logits, %+v, u %v", n, len(logits), c, u)
		require.Equal(t, before, logits)
	}
	// Where a share ends within the roundings of its sums, their order decides.
	for n := range 200 {
		logits := make([]float32, 400)
		c := Chooser{Temperature: 1, TopP: border(r, logits), ByWeight: true}
		found, err := choose(logits, c, 1-0x1p-24)
		require.NoError(t, err)
		require.Equal(t, sorted(logits, c, 1-0x1p-24), found, "case %d: %+v", n, c)
	}
}

// border fills logits, and is the share of the weights of some of them, the likeliest.
func border(r *rand.Rand, logits []float32) float64 {
	for i := range logits {
		logits[i] = float32(r.NormFloat64())
	}
	order := slices.Clone(logits)
	slices.Sort(order)
	slices.Reverse(order)
	part, total, end := 0.0, 0.0, r.IntN(len(logits))
	for i, l := range order {
		w := math.Exp(float64(l) - float64(order[0]))
		if total += w; i <= end {
			part = total
		}
	}
	return part / total
}

func FuzzChoose(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		logits, c, u := randomDraw(rand.New(rand.NewPCG(a, b)))
		found, err := c.Choose(logits, u)
		require.NoError(t, err)
		require.Equal(t, sorted(logits, c, u), found)
	})
}

// A token of a large vocabulary takes no sort of all of them.
func TestChooseWithoutSorting(t *testing.T) {
	logits := vocabulary()
	for _, one := range []Chooser{{Temperature: 1}, {Temperature: 1, TopK: 40}, {Temperature: 1, TopP: .9}} {
		one.ByWeight = true
		_, err := one.Choose(logits, .7)
		require.NoError(t, err)
		disordered := 0 // half of all neighbours where nothing was done, none after a sort
		for i := range one.candidates[1:] {
			if byLogit(one.candidates[i], one.candidates[i+1]) > 0 {
				disordered++
			}
		}
		assert.Greater(t, disordered, len(logits)/3, "%+v", one)
	}
	unsure := 0
	one := Chooser{Temperature: 1, ByWeight: true}
	for i := range 10 {
		_, err := one.Choose(logits, float32(i)/10)
		require.NoError(t, err)
		if _, sure := seek(one.candidates, float64(i)/10, func(rest float64) bool { return rest < 0 }); !sure {
			unsure++
		}
	}
	assert.LessOrEqual(t, unsure, 1)
}

// vocabulary are logits of as many tokens as Qwen 3 has.
func vocabulary() []float32 {
	r := rand.New(rand.NewPCG(7, 7))
	logits := make([]float32, 151936)
	for i := range logits {
		logits[i] = float32(3 * r.NormFloat64())
	}
	return logits
}

func BenchmarkChoose(b *testing.B) {
	logits := vocabulary()
	for name, c := range map[string]Chooser{
		"all": {Temperature: .8}, "all by weight": {Temperature: .8, ByWeight: true}, "top_k": {Temperature: .8, TopK: 40}, "top_p": {Temperature: .8, TopP: .95}, "both": {Temperature: .8, TopK: 40, TopP: .95},
	} {
		b.Run(name, func(b *testing.B) {
			one := c
			for b.Loop() {
				_, err := one.Choose(logits, .7)
				require.NoError(b, err)
			}
		})
		b.Run(name+" sorted", func(b *testing.B) {
			for b.Loop() {
				sorted(logits, c, .7)
			}
		})
	}
}
