package setup

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/fit"
	"gputrain/run/reward"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state"
)

// exported writes a model as it is drawn.
func exported(t *testing.T, head model.Head) string {
	t.Helper()
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 1, Width: 8, Vocab: 256, Context: 32, RopeTheta: 1e4})
	require.NoError(t, err)
	def, err = model.WithHead(def, head)
	require.NoError(t, err)
	values := map[string][]float32{}
	for _, h := range model.Init(def, 5) {
		for i := range h.Data {
			h.Data[i] *= 10
		}
		values[h.Path] = h.Data
	}
	dir := filepath.Join(t.TempDir(), "judge")
	require.NoError(t, model.Export(dir, def, func(path string) ([]float32, error) { return values[path], nil }, model.ExportOptions{}))
	return dir
}

// TestScorer scores the tokens of samples, and texts as rows of texts are read: with the token that ends them.
func TestScorer(t *testing.T) {
	dev := gputest.Device(t)
	s, err := openScorer(dev, exported(t, model.Head{Kind: model.HeadScores, Labels: 1}), "", 32, os.Stderr)
	require.NoError(t, err)
	want, err := s.scores(t.Context(), [][]int32{{'a', 'b', 'c', 0}, {'a', 0}})
	require.NoError(t, err)
	assert.NotEqual(t, want[0], want[1])
	texts := []reward.Sample{{Prompt: "ab", Completion: "c"}, {Prompt: "a"}}
	found, err := s.Rewards(t.Context(), texts)
	require.NoError(t, err)
	assert.Equal(t, want, found)
	found, err = s.Rewards(t.Context(), []reward.Sample{
		{Prompt: "other", PromptTokens: []int32{'a', 'b'}, Tokens: []int32{'c', 0}}, {Prompt: "other", PromptTokens: []int32{'a'}, Tokens: []int32{0}},
	})
	require.NoError(t, err)
	assert.Equal(t, want, found)
	s.policy = "of another tokenizer"
	texts[0].PromptTokens, texts[1].PromptTokens = []int32{1}, []int32{2}
	found, err = s.Rewards(t.Context(), texts)
	require.NoError(t, err)
	assert.Equal(t, want, found)
	_, err = s.Rewards(t.Context(), []reward.Sample{texts[0], {Prompt: "a much longer prompt than", Completion: "the window has"}})
	assert.ErrorContains(t, err, "line 2: found 40 tokens, wanted at most 32, the window")
	require.NoError(t, s.Close())

	for _, head := range []model.Head{{Kind: model.HeadScores, Labels: 2}, {Kind: model.HeadVectors}, {}} {
		_, err = openScorer(dev, exported(t, head), "", 32, os.Stderr)
		assert.ErrorContains(t, err, "found a model without one score a row, wanted a reward model")
	}
	_, err = openScorer(dev, t.TempDir(), "", 32, os.Stderr)
	assert.ErrorContains(t, err, "found neither config.json nor checkpoints")
}

// TestScorersArePlanned: what a reward model takes of the run's device is in its plan, within a tenth, for rows as long as the window and for longer ones; where
// there is no room for it the run is refused before it begins.
func TestScorersArePlanned(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dev, judge := gputest.Device(t), exported(t, model.Head{Kind: model.HeadScores, Labels: 1})
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(rows, []byte(strings.Repeat(`{"prompt": "1+1"}`+"\n", 8)), 0o666))
	sets := []string{
		"data.jsonl=" + rows, "model.layers=1", "model.heads=1", "model.width=8", "model.context=16", "rollout.loss=dapo", "rollout.samples=2", "rollout.tokens=8",
		"train.batch=4", "data.validation=0", "train.sample_tokens=0", "train.steps=1",
	}
	planned := func(more ...string) (state.Config, uint64) {
		p, err := Plan(configOf(t, append(more, sets...)...), io.Discard)
		require.NoError(t, err)
		memory, err := fit.On{Devices: []*gpu.Device{dev}}.Memory(t.Context(), state.Job{Config: p.State})
		require.NoError(t, err)
		return p.State, memory[0].Total()
	}
	_, without := planned("rewards=[{kind: length, buffer: 4}]")
	c, with := planned("rewards=[{kind: model, model: " + judge + "}]")
	more := float64(with - without)
	before := dev.Counters().LiveBytes
	s, err := openScorer(dev, judge, "", c.Sequence, io.Discard)
	require.NoError(t, err)
	defer s.Close()
	for _, long := range []int{16, 20, 31} {
		_, err = s.scores(t.Context(), slices.Repeat([][]int32{make([]int32, long), {1, 2}}, 16))
		require.NoError(t, err)
		assert.InEpsilon(t, more, float64(dev.Counters().LiveBytes-before), 0.1, "%d tokens", long)
	}

	limited := gputest.Device(t, gputest.WithMemoryLimit(with-uint64(more/2)))
	run, release, err := Train(t.Context(), configOf(t, append(sets, "rewards=[{kind: model, model: "+judge+"}]")...), io.Discard)
	require.NoError(t, err)
	defer release()
	run.Dir = t.TempDir()
	_, err = train.Run(t.Context(), limited, run)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	assert.ErrorContains(t, err, "reward models ")
	assert.NoFileExists(t, filepath.Join(run.Dir, "metrics.jsonl"))
}

// An answer to messages that were drawn is scored at the last token of rows of messages: behind what the template writes after the token that ends it.
func TestScorerReadsWholeAnswers(t *testing.T) {
	dir := modelDir(t, 640, "qwen2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(chatML), 0o666))
	files := hub.Open(dir)
	def, err := files.Definition()
	require.NoError(t, err)
	s := &scorer{}
	s.tokens, err = ModelTokens(files, def)
	require.NoError(t, err)
	s.from, _, err = ReadsAs(runfile.New(), dir, s.tokens, def, def.Context())
	require.NoError(t, err)
	s.from.Format, s.from.Group = "", 0
	require.NoError(t, s.findTail())
	encoded := func(text string) []int32 {
		ids, err := NewTokenizer(s.tokens.Tokenizer).Encode(text)
		require.NoError(t, err)
		return ids
	}
	const asked = "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n"
	for _, c := range []struct{ prompt, completion, behind string }{
		{asked, "c<|im_end|>", "\n"}, {asked, "c", ""}, {"1+1 =", " 2<|im_end|>", ""},
	} {
		assert.Equal(t, slices.Concat(encoded(c.prompt), encoded(c.completion), encoded(c.behind)),
			s.whole(reward.Sample{PromptTokens: encoded(c.prompt), Tokens: encoded(c.completion)}), c)
	}
}
