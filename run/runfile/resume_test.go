package runfile

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a run computes may not change when it goes on; where it is computed, and what is told of it besides, may.
func TestResumeOfKeys(t *testing.T) {
	for key, want := range map[string]resume{
		"pipeline.stages": Free, "pipeline.adapters": Free, "pipeline.rules": Free, "device.texels": Free, "device.submit_limit": Free, "train.keep": Free, "data.prefetch": Free,
		"pipeline.microbatches": fixed, "train.batch": fixed, "train.accumulate": fixed, "train.seed": fixed, "train.eval_every": fixed,
		"train.sample_every": Free, "train.sample_tokens": Free, "train.prompt": Free, "train.ask": Free, "train.ask_system": Free, "train.temperature": Free, "train.top_k": Free, "train.top_p": Free, "train.min_p": Free, "train.repetition_penalty": Free,
		"train.steps": Scheduled, "optimizer.schedule.type": Scheduled, "data.text": ByContent, "model.from": ByPlace, "optimizer.parameters.b1": fixed,
	} {
		assert.Equal(t, want, ResumeOf(key), key)
	}
}

// A tag that says nothing that is known is a bug, which the first start of the program shows.
func TestWrongTags(t *testing.T) {
	field := func(of any) reflect.StructField { return reflect.TypeOf(of).Field(0) }
	assert.PanicsWithValue(t, `runfile: key k: resume: found "fre", wanted free, reschedule, content, directory or none`, func() {
		resumeOf("k", field(struct {
			K int `resume:"fre"`
		}{}))
	})
	assert.Panics(t, func() {
		plainDefault("k", field(struct {
			K int `default:"1.5"`
		}{}))
	})
	for tag, typ := range map[string]reflect.Type{"1..x": reflect.TypeFor[int](), "durations": reflect.TypeFor[string](), "1..2": reflect.TypeFor[float64](), "0..x": reflect.TypeFor[float64]()} {
		_, err := parseRange(tag, typ)
		assert.Error(t, err, tag)
	}
}
