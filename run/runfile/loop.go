package runfile

import (
	"fmt"
	"iter"
	"math"
	"reflect"
)

// Loop says how a run goes: the keys of the section train that the loop itself reads. A run file has it as it stands, and train.Config embeds it
// as train.Options.
type Loop struct {
	Steps          int64     `yaml:"steps" default:"1600" range:"1.." resume:"reschedule" doc:"optimizer updates"`
	EvalEvery      int64     `yaml:"eval_every" default:"400" range:"0.." doc:"updates between evaluations, with one at the end; 0: none at all"`
	EvalTokens     int64     `yaml:"eval_tokens" default:"32768" range:"0.." doc:"most validation tokens that an evaluation reads; 0: all of them. By default fewer in a short run: all evaluations together read at most half of what training reads"`
	Patience       int64     `yaml:"patience" range:"0.." resume:"free" doc:"evaluations in a row that are no better than the best one, by a lower loss or a higher reward, after which the run ends early; 0: it never does"`
	SaveEvery      Intervals `yaml:"save_every" default:"200" resume:"free" doc:"updates between permanent checkpoints: a number, or a list such as [{every: 100, until: 1000}, {every: 1000}]; 0: only at the end"`
	SaveInterval   duration  `yaml:"save_interval" range:"duration" resume:"free" doc:"time between temporary checkpoints, such as 15m. Each is removed once there is a newer one. Empty: none"`
	SaveAsync      bool      `yaml:"save_async" default:"true" resume:"free" doc:"keep training while a checkpoint is written, from a copy in host memory where there is room for one; false: training waits, and no copy is taken"`
	Keep           int       `yaml:"keep" default:"3" range:"1.." resume:"free" doc:"permanent checkpoints to keep, besides the best"`
	KeepBest       int       `yaml:"keep_best" default:"1" range:"1.." resume:"free" doc:"checkpoints with the lowest validation losses to keep as well"`
	SampleEvery    int64     `yaml:"sample_every" range:"0.." resume:"free" doc:"updates between samples; 0: only at the end. A run from a model also has one before its first update"`
	Sample         Sample    `yaml:",inline"`
	Ask            []string  `yaml:"ask" resume:"free" doc:"questions that are put to the model at evaluations and at the end, each in a conversation of its own, written by the chat template; of a run from a model also before its first update. Answers are drawn as samples are, and have at most train.sample_tokens"`
	AskSystem      string    `yaml:"ask_system" resume:"free" doc:"message of the system that precedes each question of train.ask; empty: none"`
	HistogramEvery int64     `yaml:"histogram_every" range:"0.." resume:"free" doc:"updates between histograms of parameters and gradients, computed on the device and written to histograms.jsonl; 0: none"`
	HistogramMatch []string  `yaml:"histogram_match" range:"pattern" resume:"free" doc:"regular expressions on params/PATH and grads/PATH that get histograms; empty: all"`
	LogEvery       int64     `yaml:"log_every" default:"1" range:"1.." resume:"free" doc:"updates between lines of metrics.jsonl"`
	NaNPatience    int64     `yaml:"nan_patience" default:"3" range:"1.." resume:"free" doc:"consecutive updates with a non-finite loss or gradient after which the run stops as diverged"`
	Spikes         Spikes    `yaml:",inline"`
	TimeLimit      duration  `yaml:"time_limit" range:"duration" resume:"free" doc:"time after which the run stops and saves, such as 1d2h30m, counted from the start of the command. The same command resumes it. Empty: none"`
}

// Sample says how text is drawn from a model.
type Sample struct {
	Tokens            int     `yaml:"sample_tokens" default:"240" range:"0.." resume:"free" doc:"tokens in a sample"`
	Prompt            string  `yaml:"prompt" resume:"free" doc:"text that a sample begins with; empty: a question of the conversations with all that its template writes, held out if one is; else what the text has"`
	Temperature       float64 `yaml:"temperature" default:"0.8" range:"0..100" resume:"free" doc:"temperature of sampling; 0: always the likeliest token"`
	TopK              int     `yaml:"top_k" default:"40" range:"0.." resume:"free" doc:"sample among the k likeliest tokens; 0: all"`
	TopP              float64 `yaml:"top_p" default:"1" range:"0..1" resume:"free" doc:"of those, sample among the likeliest tokens that together have this share, at least one; 0 or 1: all"`
	MinP              float64 `yaml:"min_p" range:"0..1" resume:"free" doc:"sample among tokens that are at least this share as probable as the likeliest one; 0: all"`
	RepetitionPenalty float64 `yaml:"repetition_penalty" default:"1" range:">0" resume:"free" doc:"penalty on tokens already in the sample: it divides their positive logits and multiplies negative ones; 1: none"`
	Begin             []int32 `yaml:"-"` // tokens that a sample begins with, if any: Prompt then is how people see them
	Stop              []int32 `yaml:"-"` // tokens that end the text
	Seed              uint64  `yaml:"-"`
}

// Spikes says which updates are left out because they are beyond the usual. Loss, GradNorm and UpdateNorm are scores: how many standard
// deviations above its mean over the last Window updates made a number may be; 0 is no limit. There is none either before Window updates are
// made. A standard deviation counts as at least a hundredth of the mean, so that nothing is beyond limits by being steady.
type Spikes struct {
	Loss       float64 `yaml:"spike_loss" range:"0..1e6" doc:"skip an update whose loss is this many standard deviations above the mean of the last updates; 0: off"`
	GradNorm   float64 `yaml:"spike_grad_norm" range:"0..1e6" doc:"the same for the gradient norm"`
	UpdateNorm float64 `yaml:"spike_update_norm" range:"0..1e6" doc:"the same for the norm of the update itself, at the cost of one more pass over the optimizer's state"`
	Window     int     `yaml:"spike_window" default:"128" range:"2..1048576" doc:"updates that the mean and the standard deviation cover; no update is skipped before that many were made"`
	Patience   int64   `yaml:"spike_patience" default:"10" range:"1.." resume:"free" doc:"consecutive updates skipped as spikes after which the run stops as diverged"`
}

// Validate reports the first value that is not what its key wants.
func (l Loop) Validate() error {
	b := l.SaveEvery.breach()
	for _, f := range keysOf(reflect.TypeFor[Loop]()) {
		key := section + keyOf(f)
		if b == nil {
			b = breachOf(key, key, reflect.ValueOf(l).FieldByIndex(f.Index))
		}
	}
	if b != nil {
		return fmt.Errorf("%s: found %v, wanted %s", b.at, b.found, b.wanted)
	}
	return nil
}

// section begins the keys of a Loop.
const section = "train."

// Filled is a loop with the defaults of the run file in the place of zeros that its keys do not take, such as the Window of spikes.
func Filled(l Loop) Loop {
	kept := reflect.ValueOf(Default().Train.Loop)
	into := reflect.ValueOf(&l).Elem()
	for _, f := range keysOf(reflect.TypeFor[Loop]()) {
		key, v := section+keyOf(f), into.FieldByIndex(f.Index)
		if v.IsZero() && breachOf(key, key, v) != nil {
			v.Set(kept.FieldByIndex(f.Index))
		}
	}
	return l
}

// LoopValues yields the keys of a loop with their values, in the order of the file.
func LoopValues(l Loop) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, f := range keysOf(reflect.TypeFor[Loop]()) {
			if !yield(section+keyOf(f), reflect.ValueOf(l).FieldByIndex(f.Index).Interface()) {
				return
			}
		}
	}
}

// Validate reports the first value that cannot be meant.
func (s Sample) Validate() error {
	switch {
	case s.Prompt == "" && len(s.Begin) == 0:
		return fmt.Errorf("train: sample: prompt: empty, want at least one token")
	case s.Tokens < 1:
		return fmt.Errorf("train: sample: tokens: %d, want at least 1", s.Tokens)
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 1):
		return fmt.Errorf("train: sample: temperature: %v, want 0 or more", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("train: sample: top_k: %d, want 0 or more", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("train: sample: top_p: %v, want 0 to 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return fmt.Errorf("train: sample: min_p: %v, want 0 to 1", s.MinP)
	case !(s.RepetitionPenalty >= 0) || math.IsInf(s.RepetitionPenalty, 1):
		return fmt.Errorf("train: sample: repetition_penalty: %v, want 0 or more", s.RepetitionPenalty)
	}
	return nil
}
