package setup

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
)

// TestRolloutsOfARunFile: a run file with prompts and rewards is a run that draws, with everything that it says.
func TestRolloutsOfARunFile(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dir := modelDir(t, 640, "qwen2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(chatML), 0o666))
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(rows, []byte(strings.Repeat(`{"prompt": [{"role": "user", "content": "1+1"}], "answer": "2"}`+"\n", 8)), 0o666))
	sets := []string{
		"data.tokenizer=" + dir, "data.jsonl=" + rows, "model.context=32", "data.validation=0.25", "train.batch=4", "data.epochs=3", "rollout.loss=dr_grpo", "rollout.samples=4",
		"rollout.updates=2", "rollout.tokens=8", "rollout.top_k=5", `rollout.stop=["+1", "é"]`, "rewards=[{kind: equal, column: answer, weight: 2}, {kind: length, buffer: 4}]",
	}
	with := func(more ...string) []string { return append(append([]string(nil), sets...), more...) }
	run, release, err := Train(t.Context(), configOf(t, sets...), io.Discard)
	require.NoError(t, err)
	defer release()
	r := run.Rollouts
	require.NotNil(t, r)
	assert.Equal(t, []any{4, 2, 8, 5, run.Tokenizer.Size(), model.ScaleNone}, []any{r.Samples, r.Updates, r.Drawing.Tokens, r.Drawing.TopK, r.Drawing.Vocab, r.Rewarding.Scale})
	assert.Contains(t, r.Drawing.Stop, int32(622), "the template's end")
	assert.Contains(t, r.Drawing.Stop, int32(2), "the tokenizer's")
	assert.EqualValues(t, 18, run.Steps, "three times six prompts, two in a generation of two updates")
	assert.Equal(t, "equal", r.Rewards[0].Name)
	assert.InDelta(t, 2, r.Rewards[0].Weight, 0)
	opened, err := r.Open(nil)
	require.NoError(t, err)
	require.NoError(t, opened.Close())
	one, err := run.Tokenizer.Encode("1+1")
	require.NoError(t, err)
	assert.True(t, r.Drawing.Ends(one))
	assert.False(t, r.Drawing.Ends(one[:1]))
	text := "a <|im_end|> b"
	ids, err := run.Tokenizer.Encode(text)
	require.NoError(t, err)
	assert.Equal(t, "a  b", r.Text(ids))

	letters := filepath.Join(t.TempDir(), "letters.jsonl")
	require.NoError(t, os.WriteFile(letters, []byte(`{"prompt": "1+1", "answer": "two"}`+"\n"), 0o666))
	for want, more := range map[string][]string{
		`rewards[0]: row 1: found no column "solution", wanted one of ["answer" "prompt"]`:         {"rewards=[{kind: equal, column: solution}]"},
		`rewards[0]: row 1: column "answer": found "two", wanted a number`:                         {"data.jsonl=" + letters, "data.validation=0", "rewards=[{kind: number, column: answer}]"},
		"data: prompts: row 1: found 18 tokens, wanted less than the window of 16 (model.context)": {"model.context=16"},
		"rollout.tokens: found 32, wanted less than the window of 32 tokens (model.context)":       {"rollout.tokens=32"},
	} {
		_, _, err := Train(t.Context(), configOf(t, with(more...)...), io.Discard)
		require.ErrorContains(t, err, want)
	}
	bytesRun := []string{
		"data.jsonl=" + rows, "rollout.loss=dapo", "rewards=[{kind: equal, column: answer}]", "train.batch=8", "data.tokens=bytes", "data.eos=-1", "rollout.tokens=8",
	}
	require.NoError(t, os.WriteFile(rows, []byte(strings.Repeat(`{"prompt": "1+1", "answer": "2"}`+"\n", 8)), 0o666))
	_, _, err = Train(t.Context(), configOf(t, append(bytesRun, "data.validation=0")...), io.Discard)
	require.ErrorContains(t, err, "rollout: found no token that ends a text, wanted one")
}

// TestStopTexts: a completion ends with the token that completes a text, in the whole of what was drawn, also where it is cut within characters. Of a run of
// bytes that has any amiss some decoders show none; the text is among them all the same.
func TestStopTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, name := range []string{"gpt2", "qwen2", "llama2", "spm_bpe"} {
		tok, err := OpenTokenizer(tokenizerDir(name))
		require.NoError(t, err)
		of := NewTokenizer(tok)
		text := withoutSpecial(of)
		written, err := of.Encode("déjà vu 🙂日本\n\nQ: 🙂🙂 ok</answer>\r\n")
		require.NoError(t, err)
		found := 0
		for round := range 300 {
			ids := slices.Clone(written)
			for range round % 6 {
				ids = slices.Insert(ids, random.IntN(len(ids)+1), int32(random.IntN(tok.VocabSize())))
			}
			stops := []string{"\n\n", "🙂 ok", "</answer>", "本", " vu "}[random.IntN(5):]
			ends := endsWith(stops, text, specialOf(of))
			for i := range ids {
				whole := text(ids[:i+1])
				want := slices.ContainsFunc(stops, func(stop string) bool { return strings.Contains(whole, stop) })
				ended := ends(ids[:i+1])
				if want {
					found++
				}
				require.True(t, ended == want || ended && strings.Contains(whole, "\uFFFD"), "%s: %q of %q", name, stops, whole)
				if ended {
					break
				}
			}
		}
		assert.Greater(t, found, 100, name)
	}
	assert.Nil(t, endsWith(nil, nil, nil))
}

// TestCommandsOfRewards start where they are typed or allowed alone.
func TestCommandsOfRewards(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(rows, []byte(strings.Repeat(`{"prompt": "1+1", "answer": "2"}`+"\n", 8)), 0o666))
	file := filepath.Join(t.TempDir(), "run.yaml")
	text := "data: {jsonl: '" + rows + "', validation: 0}\nrollout: {loss: dapo, tokens: 8}\ntrain: {batch: 8}\nrewards: [{kind: command, command: ['/bin/cat']}]\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	for allowed, want := range map[bool]string{false: "command", true: ""} {
		var out bytes.Buffer
		cfg := configOf(t)
		require.NoError(t, cfg.Parse(file, []byte(text)))
		run, release, err := Resume(t.Context(), cfg, Resumed{AllowCommand: allowed}, &out)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		opened, err := run.Rollouts.Open(nil)
		require.NoError(t, err)
		require.NoError(t, opened.Close())
		release()
	}
}
