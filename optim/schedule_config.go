package optim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"gputrain/internal/suggest"
)

// warmupBegin is the rate of update 0 where there is a warm-up, as eformer's factory has it.
const warmupBegin = 1e-8

// ScheduleConfig describes a schedule in numbers. The zero Type is "constant"; null in JSON is the zero value.
type ScheduleConfig struct {
	Type            string   `json:"type" doc:"constant, linear, cosine, polynomial or power"`
	LearningRate    float64  `json:"learning_rate" doc:"peak rate"`
	LearningRateEnd *float64 `json:"learning_rate_end" doc:"rate at the end and after it; null = 0, which a linear one wants said"`
	WarmupSteps     int64    `json:"warmup_steps" doc:"updates from almost 0 to the peak; 0 = none"`
	Steps           int64    `json:"steps" doc:"updates until the end, including the warm-up"`
	Exponent        float64  `json:"exponent" doc:"exponent of cosine, polynomial and power; 0 = 1"`
	CooldownSteps   *int64   `json:"cooldown_steps,omitempty" doc:"power: updates from the peak to the end; null = all after the warm-up"`
}

type scheduleBuilder = func(c ScheduleConfig, n Numerics) (Schedule, error)

var schedules = struct {
	sync.RWMutex
	byName map[string]scheduleBuilder
}{byName: map[string]scheduleBuilder{
	"constant": buildConstant, "linear": buildLinear, "cosine": buildCosine, "polynomial": buildPolynomial,
	"power": buildPower,
}}

// RegisterSchedule adds a type of schedule under a name that is not yet taken, with what makes it of a validated configuration.
func RegisterSchedule(name string, b func(ScheduleConfig, Numerics) (Schedule, error)) error {
	schedules.Lock()
	defer schedules.Unlock()
	if _, taken := schedules.byName[name]; taken || name == "" || b == nil {
		return fmt.Errorf("optim: register schedule: found %q, wanted a name not yet taken and a builder", name)
	}
	schedules.byName[name] = b
	return nil
}

// ScheduleNames lists the registered types of schedule in order.
func ScheduleNames() []string {
	schedules.RLock()
	defer schedules.RUnlock()
	return slices.Sorted(maps.Keys(schedules.byName))
}

// Validate checks what holds for every type: a known type, finite rates, and of those that are not constant steps beyond the warm-up, and a rate. A
// linear one names its end.
func (c ScheduleConfig) Validate() error {
	if _, err := c.builder(); err != nil {
		return err
	}
	for _, v := range []struct {
		name  string
		value float64
	}{{"learning_rate", c.LearningRate}, {"learning_rate_end", c.end()}, {"exponent", c.Exponent}} {
		if !(v.value >= 0) || math.IsInf(v.value, 0) {
			return fmt.Errorf("schedule: %s: found %g, wanted a finite number not below 0", v.name, v.value)
		}
	}
	if c.WarmupSteps < 0 || c.Steps < 0 {
		return fmt.Errorf("schedule: found steps %d and warmup_steps %d, wanted neither below 0", c.Steps, c.WarmupSteps)
	}
	if cool := c.CooldownSteps; cool != nil && (c.Type != "power" || *cool < 1) {
		return fmt.Errorf("schedule: cooldown_steps: found %d with type %s, wanted 1 or more with type power, or null", *cool, cmp.Or(c.Type, "constant"))
	}
	if c.Type == "" || c.Type == "constant" {
		return nil
	}
	if c.Steps <= c.WarmupSteps {
		return fmt.Errorf("schedule: %s: steps: found %d, wanted more than warmup_steps %d (steps counts the warm-up)", c.Type, c.Steps, c.WarmupSteps)
	}
	if c.Type == "linear" && c.LearningRateEnd == nil {
		return fmt.Errorf("schedule: linear: learning_rate_end: found none, wanted one, even if it is 0")
	}
	if still := c.LearningRateEnd != nil && c.end() == 0; c.LearningRate == 0 && !still {
		return fmt.Errorf("schedule: %s: learning_rate: found 0, wanted more, or a learning_rate_end of 0 too", c.Type)
	}
	return nil
}

// end is the rate at the end.
func (c ScheduleConfig) end() float64 {
	if c.LearningRateEnd == nil {
		return 0
	}
	return *c.LearningRateEnd
}

// Complete is the schedule with the end that it has where none is said; a linear one has none.
func (c ScheduleConfig) Complete() ScheduleConfig {
	if c.Type != "linear" {
		c.LearningRateEnd = new(c.end())
	}
	return c
}

// Build makes the schedule. In EFormer numerics a cosine without warm-up ignores its exponent, and a constant rate takes no warm-up.
func (c ScheduleConfig) Build(n Numerics) (Schedule, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("optim: %w", err)
	}
	build, err := c.builder()
	if err != nil {
		return nil, fmt.Errorf("optim: %w", err)
	}
	if c.Exponent == 0 {
		c.Exponent = 1
	}
	s, err := build(c, n)
	if err != nil {
		return nil, fmt.Errorf("optim: schedule: %s: %w", c.Type, err)
	}
	return s, nil
}

func (c ScheduleConfig) builder() (scheduleBuilder, error) {
	name := c.Type
	if name == "" {
		name = "constant"
	}
	schedules.RLock()
	b, ok := schedules.byName[name]
	schedules.RUnlock()
	if !ok {
		return nil, fmt.Errorf("schedule: type: found %q, wanted one of %s%s", name, strings.Join(ScheduleNames(), ", "), suggest.DidYouMean(name, ScheduleNames()))
	}
	return b, nil
}

func buildConstant(c ScheduleConfig, n Numerics) (Schedule, error) {
	if c.WarmupSteps == 0 {
		return Constant(c.LearningRate), nil
	}
	if !n.rules().constantWarmup {
		return nil, fmt.Errorf("found warmup_steps %d, wanted none in eformer numerics", c.WarmupSteps)
	}
	return warmupLinear(warmupBegin, c.LearningRate, c.WarmupSteps, c.WarmupSteps+1, c.LearningRate), nil
}

func buildLinear(c ScheduleConfig, _ Numerics) (Schedule, error) {
	if c.WarmupSteps == 0 {
		return Linear(c.LearningRate, c.end(), c.Steps), nil
	}
	return warmupLinear(warmupBegin, c.LearningRate, c.WarmupSteps, c.Steps, c.end()), nil
}

func buildCosine(c ScheduleConfig, n Numerics) (Schedule, error) {
	if c.WarmupSteps > 0 {
		return WarmupCosine(warmupBegin, c.LearningRate, c.WarmupSteps, c.Steps, c.end(), c.Exponent), nil
	}
	if !n.rules().cosineExponent {
		c.Exponent = 1
	}
	return WarmupCosine(c.LearningRate, c.LearningRate, 0, c.Steps, c.end(), c.Exponent), nil
}

func buildPolynomial(c ScheduleConfig, _ Numerics) (Schedule, error) {
	decay := Polynomial(c.LearningRate, c.end(), c.Exponent, c.Steps-c.WarmupSteps, 0)
	if c.WarmupSteps == 0 {
		return decay, nil
	}
	return Join([]Schedule{Linear(warmupBegin, c.LearningRate, c.WarmupSteps), decay}, []int64{c.WarmupSteps}), nil
}

func buildPower(c ScheduleConfig, _ Numerics) (Schedule, error) {
	cooldown := c.Steps - c.WarmupSteps
	if c.CooldownSteps != nil {
		cooldown = min(cooldown, *c.CooldownSteps)
	}
	decay := Power(c.LearningRate, c.end(), c.Exponent, cooldown, c.Steps-c.WarmupSteps)
	if c.WarmupSteps == 0 {
		return decay, nil
	}
	return Join([]Schedule{Linear(warmupBegin, c.LearningRate, c.WarmupSteps), decay}, []int64{c.WarmupSteps}), nil
}
