package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
	"gputrain/run/runfile"
)

func specOf(t *testing.T, sets ...string) *runfile.Config {
	spec, err := runfile.ReadAll(nil, nil, append([]string{"model.layers=1", "model.heads=1", "model.width=8", "model.context=16"}, sets...))
	require.NoError(t, err)
	return spec
}

// The same arguments give the same plan, and are as they were.
func TestResolveIsPure(t *testing.T) {
	spec := specOf(t, "data.epochs=3", "train.batch=2")
	before := spec.Clone()
	w := World{Tokens: Tokens{Kind: ByteTokens}, Text: &Text{Steps: 8, Ends: []int32{3}}}
	p, err := Resolve(spec, w)
	require.NoError(t, err)
	assert.Equal(t, before, spec)
	again, err := Resolve(spec, w)
	require.NoError(t, err)
	assert.Equal(t, p.Spec, again.Spec)
	assert.Equal(t, p.Told, again.Told)

	assert.EqualValues(t, 8, p.Spec.Train.Steps)
	assert.Equal(t, "train.steps (data.epochs)", p.Spec.At("train.steps"))
	assert.EqualValues(t, 8, p.State.Optimizer.Options.Schedule.Steps, "the rate ends with the run")
	assert.Equal(t, ByteTokens, p.Spec.Data.Tokens)
	assert.Equal(t, 256, p.State.Definition.Vocab())
	assert.Equal(t, []int32{3}, p.State.Ends)
	assert.Equal(t, 16, p.State.Sequence)
}

// A reference of completions that no text has, and one that was adapters, is a copy beside what is trained.
func TestReferenceBeside(t *testing.T) {
	for _, row := range []struct {
		sets   []string
		copied bool
	}{
		{[]string{"preference.loss=sigmoid"}, false},
		{[]string{"preference.loss=bco"}, false},
		{[]string{"preference.loss=kto"}, true},
	} {
		p, err := Resolve(specOf(t, append(row.sets, "data.jsonl=[a]", "train.batch=2")...), World{Tokens: Tokens{Kind: ByteTokens}})
		require.NoError(t, err)
		assert.Equal(t, row.copied, len(p.State.Frozen) > 0)
		assert.Equal(t, row.copied, len(p.State.Definition.Params()) > len(model.Student(p.State.Definition).Params()))
		assert.Equal(t, row.copied, strings.HasPrefix(p.Told[0], "kto: the reference is a copy of "), p.Told)
	}
}

// What the text says comes late: before, a run has the steps of its run file, and after it none other than the text's.
func TestStepsOfEpochs(t *testing.T) {
	w := World{Tokens: Tokens{Kind: ByteTokens}}
	p, err := Resolve(specOf(t, "data.epochs=3"), w)
	require.NoError(t, err)
	assert.Equal(t, specOf(t).Train.Steps, p.Spec.Train.Steps)
	w.Text = &Text{Steps: 8}
	_, err = Resolve(specOf(t, "data.epochs=3", "train.steps=9"), w)
	assert.EqualError(t, err, "run file: train.steps (--set): found 9, wanted nothing beside data.epochs (--set): 3 epochs are 8 steps")
	_, err = Resolve(specOf(t, "data.epochs=3", "train.steps=8"), w)
	assert.NoError(t, err)
}

// Nothing waits for evaluations that there are none of.
func TestPatienceWantsEvaluations(t *testing.T) {
	w := World{Tokens: Tokens{Kind: ByteTokens}}
	for set, refused := range map[string]bool{"train.eval_every=0": true, "data.validation=0": true, "train.eval_every=3": false} {
		_, err := Resolve(specOf(t, "train.patience=3", set), w)
		if refused {
			assert.EqualError(t, err, "run file: train.patience (--set): found 3, wanted 0 without evaluations (train.eval_every, data.validation)")
		} else {
			assert.NoError(t, err)
		}
	}
}

// A window has as many tokens as the run file says, at most those of the model that was read, and what is frozen is left to that where it has it.
func TestModelThatWasRead(t *testing.T) {
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 1, Width: 8, Vocab: 256, Context: 64, RopeTheta: 1e4})
	require.NoError(t, err)
	w := World{Model: &Model{Dir: "/base", Definition: def}, Tokens: Tokens{Kind: ByteTokens}}
	resolve := func(sets ...string) (*Plan, error) {
		spec, err := runfile.ReadAll(nil, nil, append([]string{"model.from=/base"}, sets...))
		require.NoError(t, err)
		return Resolve(spec, w)
	}
	for context, sets := range map[int][]string{16: {"model.context=16"}, 64: nil} {
		p, err := resolve(sets...)
		require.NoError(t, err)
		assert.Equal(t, context, p.State.Sequence)
		assert.Empty(t, p.State.Base, "all is trained")
	}
	_, err = resolve("model.context=65")
	assert.EqualError(t, err, "run file: model.context (--set): found 65, wanted at most 64, the context of /base")

	adapters := []string{"lora.rank=2"}
	p, err := resolve(adapters...)
	require.NoError(t, err)
	assert.Equal(t, "/base", p.State.Base)
	assert.Len(t, p.State.Frozen, len(def.Params()))
	w.Model.Lacks = []string{def.Params()[0].Path}
	_, err = resolve(adapters...)
	assert.ErrorContains(t, err, "train.save_frozen (default): found false, and \""+def.Params()[0].Path+"\" frozen, which model.from lacks")
}

// Whose tokenizer reads a text.
func TestTokensOf(t *testing.T) {
	for _, c := range []struct {
		own  string
		sets []string
		want Tokens
	}{
		{"", nil, Tokens{Kind: ByteTokens}},
		{"m", nil, Tokens{Kind: TokenizerTokens, Path: "m", Own: true}},
		{"m", []string{"data.tokenizer=other"}, Tokens{Kind: TokenizerTokens, Path: "other"}},
		{"m", []string{"data.tokens=bytes"}, Tokens{Kind: ByteTokens, Path: "m", Own: true}},
		{"", []string{"data.tokens=u16", "data.text=a"}, Tokens{Kind: "u16"}},
	} {
		got, err := TokensOf(specOf(t, c.sets...), c.own)
		require.NoError(t, err)
		assert.Equal(t, c.want, got, c.sets)
	}
	_, err := TokensOf(specOf(t, "data.tokens=tokenizer", "data.tokenizer=x"), "")
	assert.NoError(t, err)
}
