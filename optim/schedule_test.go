package optim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func rates(s Schedule, updates ...int64) []float64 {
	out := make([]float64, len(updates))
	for i, u := range updates {
		out[i] = s(u)
	}
	return out
}

func TestSchedulesByHand(t *testing.T) {
	for name, c := range map[string]struct {
		schedule Schedule
		at       []int64
		want     []float64
	}{
		"constant":          {Constant(3), []int64{-1, 0, 1 << 40}, []float64{3, 3, 3}},
		"linear":            {Linear(1, 0, 4), []int64{-2, 0, 1, 3, 4, 9}, []float64{1, 1, 0.75, 0.25, 0, 0}},
		"linear up":         {Linear(0, 2, 2), []int64{0, 1, 2}, []float64{0, 1, 2}},
		"no steps":          {Linear(5, 1, 0), []int64{0, 7}, []float64{5, 5}},
		"polynomial":        {Polynomial(1, 0, 2, 4, 0), []int64{0, 1, 2, 4, 5}, []float64{1, 0.5625, 0.25, 0, 0}},
		"polynomial delay":  {Polynomial(1, 0, 1, 4, 10), []int64{0, 10, 11, 14, 15}, []float64{1, 1, 0.75, 0, 0}},
		"power":             {Power(3, 1, 2, 4, 10), []int64{0, 6, 7, 8, 10, 11}, []float64{3, 3, 2.125, 1.5, 1, 1}},
		"cosine":            {Cosine(2, 4, 0.5, 1), []int64{-1, 0, 2, 4, 100}, []float64{2, 2, 1.5, 1, 1}},
		"cosine exponent":   {Cosine(1, 4, 0, 3), []int64{0, 2, 4}, []float64{1, 0.125, 0}},
		"warm-up cosine":    {WarmupCosine(0, 1, 2, 6, 0.5, 1), []int64{0, 1, 2, 4, 6, 7}, []float64{0, 0.5, 1, 0.75, 0.5, 0.5}},
		"peak 0":            {WarmupCosine(0, 0, 2, 6, 0, 1), []int64{0, 3, 9}, []float64{0, 0, 0}},
		"warm-up linear":    {warmupLinear(0, 1, 2, 6, 0), []int64{0, 1, 2, 3, 6, 8}, []float64{0, 0.5, 1, 0.75, 0, 0}},
		"join, later holds": {Join([]Schedule{Constant(1), Linear(2, 0, 2), Constant(9)}, []int64{3, 5}), []int64{2, 3, 4, 5, 6}, []float64{1, 2, 1, 9, 9}},
	} {
		assert.InDeltaSlice(t, c.want, rates(c.schedule, c.at...), 1e-15, name)
	}
	assert.Panics(t, func() { Join([]Schedule{Constant(1)}, []int64{1}) })
}

func TestScheduleConfigNumerics(t *testing.T) {
	build := func(c ScheduleConfig, n Numerics) Schedule {
		s, err := c.Build(n)
		require.NoError(t, err)
		return s
	}
	cosine := ScheduleConfig{Type: "cosine", LearningRate: 1, Steps: 4, Exponent: 2}
	assert.InDelta(t, 0.25, build(cosine, Stable)(2), 1e-15, "stable honours the exponent")
	assert.InDelta(t, 0.5, build(cosine, EFormer)(2), 1e-15, "eformer drops it without a warm-up")
	cosine.WarmupSteps, cosine.Steps = 2, 6
	for _, n := range []Numerics{Stable, EFormer} {
		assert.InDelta(t, 0.25, build(cosine, n)(4), 1e-15, "and has it with one")
		assert.InDelta(t, 1e-8, build(cosine, n)(0), 1e-15)
	}
	flat := ScheduleConfig{LearningRate: 2, WarmupSteps: 2}
	assert.InDeltaSlice(t, []float64{1e-8, 1, 2, 2, 2}, rates(build(flat, Stable), 0, 1, 2, 3, 1000), 1e-7)
	_, err := flat.Build(EFormer)
	assert.ErrorContains(t, err, "warmup_steps 2")
	cooled := ScheduleConfig{Type: "power", LearningRate: 1, WarmupSteps: 2, Steps: 6, Exponent: 2, CooldownSteps: new(int64(2))}
	assert.InDeltaSlice(t, []float64{1e-8, 1, 1, 1, 0.25, 0, 0}, rates(build(cooled, Stable), 0, 2, 3, 4, 5, 6, 7), 1e-15)
	cooled.CooldownSteps = new(int64(100))
	assert.InDeltaSlice(t, []float64{1, 0.5625, 0}, rates(build(cooled, Stable), 2, 3, 6), 1e-15, "never more than what follows the warm-up")
	power := ScheduleConfig{Type: "polynomial", LearningRate: 1, WarmupSteps: 2, Steps: 6, Exponent: 2}
	assert.InDeltaSlice(t, []float64{1e-8, 1, 0.5625, 0, 0}, rates(build(power, Stable), 0, 2, 3, 6, 7), 1e-15)
}

func TestScheduleConfigRefuses(t *testing.T) {
	for want, c := range map[string]ScheduleConfig{
		`found "cosin", wanted one of constant, cosine, linear, polynomial, power`: {Type: "cosin"},
		"cooldown_steps: found 2 with type constant, wanted":                       {CooldownSteps: new(int64(2))},
		"cooldown_steps: found 0 with type power, wanted":                          {Type: "power", LearningRate: 1, Steps: 4, CooldownSteps: new(int64(0))},
		`did you mean "cosine"?`:                                                   {Type: "cosin"},
		"steps: found 10, wanted more than warmup_steps 10":                        {Type: "linear", Steps: 10, WarmupSteps: 10},
		"steps: found 0, wanted more than warmup_steps 0":                          {Type: "cosine"},
		"learning_rate: found -1":                                                  {LearningRate: -1},
		"learning_rate_end: found NaN":                                             {LearningRateEnd: new(math.NaN())},
		"exponent: found +Inf":                                                     {Exponent: math.Inf(1)},
		"steps -1":                                                                 {Type: "linear", Steps: -1},
		"linear: learning_rate_end: found none, wanted one":                        {Type: "linear", LearningRate: 1, Steps: 4},
		"cosine: learning_rate: found 0, wanted more":                              {Type: "cosine", Steps: 4},
		"polynomial: learning_rate: found 0, wanted more":                          {Type: "polynomial", Steps: 4, LearningRateEnd: new(0.1)},
	} {
		assert.ErrorContains(t, c.Validate(), want)
		_, err := c.Build(Stable)
		assert.ErrorContains(t, err, want)
	}
	assert.NoError(t, ScheduleConfig{}.Validate())
	assert.NoError(t, ScheduleConfig{Type: "linear", LearningRate: 1, LearningRateEnd: new(0.0), Steps: 4}.Validate(), "an end of 0 that is said")
	assert.NoError(t, ScheduleConfig{Type: "cosine", LearningRateEnd: new(0.0), Steps: 4}.Validate(), "a run that is to stand still")
}

func TestRegisterSchedule(t *testing.T) {
	half := func(c ScheduleConfig, _ Numerics) (Schedule, error) {
		return Constant(c.LearningRate / 2), nil
	}
	require.NoError(t, RegisterSchedule("test-half", half))
	assert.ErrorContains(t, RegisterSchedule("test-half", half), "not yet taken")
	assert.ErrorContains(t, RegisterSchedule("constant", half), "not yet taken")
	s, err := ScheduleConfig{Type: "test-half", LearningRate: 3, Steps: 1}.Build("")
	require.NoError(t, err)
	assert.Equal(t, 1.5, s(0))
	assert.Contains(t, ScheduleNames(), "test-half")
}
