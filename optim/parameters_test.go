package optim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		interval string
		in, out  []float64
		wanted   string
	}{
		{"[0,1)", []float64{0, 0.5}, []float64{-0.1, 1, math.NaN()}, "wanted 0 to less than 1"},
		{"(0,1]", []float64{0.5, 1}, []float64{0, 1.1}, "wanted more than 0, at most 1"},
		{"[1,100]", []float64{1, 100}, []float64{0, 101}, "wanted 1 to 100"},
		{"[0,inf)", []float64{0, 1e300}, []float64{-1, math.Inf(1), math.NaN()}, "wanted 0 or more"},
		{"(0,inf)", []float64{1e-300}, []float64{0, math.Inf(1)}, "wanted more than 0"},
		{"(-inf,0]", []float64{0, -5}, []float64{1, math.Inf(-1)}, "wanted at most 0"},
	} {
		for _, x := range c.in {
			assert.NoError(t, inInterval("x", x, c.interval), "%g in %s", x, c.interval)
		}
		for _, x := range c.out {
			assert.ErrorContains(t, inInterval("x", x, c.interval), c.wanted, "%g in %s", x, c.interval)
		}
	}
	assert.Panics(t, func() { _ = inInterval("x", 0, "0 to 1") })
}

func TestTagsOfParameters(t *testing.T) {
	type embedded struct {
		A float64 `json:"a" default:"0.5" range:"[0,1)"`
	}
	type all struct {
		embedded
		B    *float64 `json:"b" default:"2" range:"(0,inf)"`
		C    int      `json:"c" range:"[0,9]"`
		D    string   `json:"d" default:"bf16" range:"f32|bf16|"`
		E    []string `json:"e"`
		mine int
	}
	p := &all{C: 3, mine: 1}
	setDefaults(p, Options{})
	two := 2.0
	assert.Equal(t, &all{embedded: embedded{0.5}, B: &two, C: 3, D: "bf16", mine: 1}, p)
	assert.NoError(t, checkRanges(p))
	for want, change := range map[string]func(*all){
		"a: found 1, wanted 0 to less than 1":                       func(p *all) { p.A = 1 },
		"b: found 0, wanted more than 0":                            func(p *all) { p.B = new(float64) },
		"c: found 10, wanted 0 to 9":                                func(p *all) { p.C = 10 },
		`d: found "bf61", wanted f32 or bf16, did you mean "bf16"?`: func(p *all) { p.D = "bf61" },
	} {
		wrong := *p
		change(&wrong)
		assert.EqualError(t, checkRanges(&wrong), want)
	}
	assert.NoError(t, checkRanges(&all{D: ""}), "null and no word")
}
