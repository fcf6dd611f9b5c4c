package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// rightOf is how many of the conversations in a file a model answers as they do, with another end.
func rightOf(t *testing.T, dir, file, end string) (right, of int) {
	t.Helper()
	m, err := state.LoadModel(gputest.Device(t), dir)
	require.NoError(t, err)
	defer m.Release()
	return answeredRight(t, dir, file, end, func(prompt, ends []int32) (answer []int32) {
		require.NoError(t, train.GenerateTokens(t.Context(), train.SampleConfig{Tokens: 24, Stop: ends}, prompt, m, func(token int32) bool {
			answer = append(answer, token)
			return true
		}))
		return answer
	})
}

// answeredRight is rightOf for whatever answers, with the tokenizer and the template of a model.
func answeredRight(t *testing.T, dir, file, end string, answer func(prompt, ends []int32) []int32) (right, of int) {
	t.Helper()
	tok := openTokenizer(t, dir)
	speaks, err := chat.OpenTemplate(hub.Open(dir), "")
	require.NoError(t, err)
	encoder, err := chat.NewEncoder(tok.Tokenizer, speaks, chat.Options{})
	require.NoError(t, err)
	for line := range strings.Lines(read(t, file)) {
		row, err := template.Decode([]byte(line))
		require.NoError(t, err)
		c, err := chat.FromRow(row.(*template.Object), "")
		require.NoError(t, err)
		answered, _ := c.Messages[1].Get("content")
		wanted := strings.Replace(answered.(string), ", sir.", end, 1)
		c.Messages = c.Messages[:1]
		prompt, err := encoder.Prompt(c)
		require.NoError(t, err)
		text, err := tok.Decode(answer(prompt, encoder.Ends()), true)
		require.NoError(t, err)
		if of++; text == wanted {
			right++
		}
	}
	return right, of
}

// The commands of docs/tuning.md teach a model that tells facts to tell them in another form. Facts that were never asked for in tuning are told so too, and
// are right: with adapters on their base, merged, and in a directory for other programs.
func TestTuningPage(t *testing.T) {
	gputest.Long(t, "TestARunOfAdapters")
	env := []string{"GPUTRAIN_ADAPTER=" + adapter(t), "GPUTRAIN_CACHE=" + workshop}
	p := runPage(t, "../docs/tuning.md", 15, func(dir string) {
		require.NoError(t, os.CopyFS(filepath.Join(dir, "docs", "tuning"), os.DirFS("../docs/tuning")))
	}, env...)
	page := func(name ...string) string { return p.path(append([]string{"page"}, name...)...) }
	newest, err := setup.Checkpoints(page("runs", "ours-chats")).Newest()
	require.NoError(t, err)
	right, of := rightOf(t, page("runs", "ours"), "../docs/tuning/held.jsonl", ".")
	assert.GreaterOrEqual(t, 10*right, 9*of, "the base: %d of %d", right, of)
	for _, dir := range []string{newest.Path, page("runs", "merged"), page("runs", "adapters")} {
		right, of := rightOf(t, dir, "../docs/tuning/held.jsonl", ", sir.")
		t.Logf("%s: %d of %d", filepath.Base(dir), right, of)
		assert.GreaterOrEqual(t, 10*right, 9*of, dir)
	}
	said := read(t, page("runs", "said.txt"))
	t.Log(said)
	assert.Regexp(t, `(?s)\nbefore tuning\n  question  .*\n  answer    The .* is .*\.\n.*\nafter tuning\n  question  .*\n  answer    The .* is .*, sir\.\n`, said)

	assert.Regexp(t, `(?s)\nafter tuning\n  question  .*\n  answer    The .* is .*, sir\.\n`, read(t, page("runs", "judged.txt")), "KTO")
	newest, err = setup.Checkpoints(page("runs", "ours-labels")).Newest()
	require.NoError(t, err)
	right, of = rightOf(t, newest.Path, "../docs/tuning/held.jsonl", ", sir.")
	t.Logf("KTO: %d of %d", right, of)
	assert.GreaterOrEqual(t, 10*right, 7*of)

	// docs/preferences.md goes on from there: the rate of its example tells chosen from rejected completions.
	assert.Equal(t, 1, runBlocks(t, p, "../docs/preferences.md", env...))
	var pairs []evaluated
	for line := range strings.Lines(read(t, page("runs", "polite", "metrics.jsonl"))) {
		var e struct {
			Eval evaluated `json:"eval_figures"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		if e.Eval != (evaluated{}) {
			pairs = append(pairs, e.Eval)
		}
	}
	first, last := pairs[0], pairs[len(pairs)-1]
	t.Logf("%+v to %+v", first, last)
	assert.Greater(t, last.Margin, 1.0)
	assert.GreaterOrEqual(t, last.Accuracy, 0.9)
	assert.Greater(t, last.Chosen, first.Chosen, "the chosen completions have become more probable, not only less improbable than the others")
}

// evaluated is what an evaluation says of pairs.
type evaluated struct {
	Accuracy, Margin float64
	Chosen           float64 `json:"logps_chosen"`
}
