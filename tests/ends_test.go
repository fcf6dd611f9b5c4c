package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state"
)

// drawn is what other programs read of how text is drawn from a model.
type drawn struct {
	Ends []int32 `json:"eos_token_id"`
	TopP float64 `json:"top_p"`
}

func readDrawn(t *testing.T, path string) (d drawn) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(read(t, path)), &d))
	return d
}

// greedy goes on with a text by the likeliest tokens until one of ends comes; ended is false where none did.
func greedy(t *testing.T, dir, text string, ends []int32) (answer string, ended bool) {
	t.Helper()
	tok := openTokenizer(t, dir)
	m, err := state.LoadModel(gputest.Device(t), dir)
	require.NoError(t, err)
	defer m.Release()
	ids := tok.ids(text)
	first := len(ids)
	for len(ids) < m.Window() && !ended {
		logits, err := m.Logits(t.Context(), ids)
		require.NoError(t, err)
		next := int32(slices.Index(logits, slices.Max(logits)))
		if ended = slices.Contains(ends, next); !ended {
			ids = append(ids, next)
		}
	}
	answer = tok.text(ids[first:])
	return answer, ended
}

// A model that has learned to end its answers says by which token to programs that read its files alone; one that learned from plain text says what
// it said.
func TestModelsSayWhereAnswersEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("speaker"), os.DirFS(filepath.Join(tokenizers, "qwen2"))))
	tok := openTokenizer(t, p.path("speaker"))
	text, _ := tok.ID("<|endoftext|>")
	answer, _ := tok.ID("<|im_end|>")
	said := fmt.Sprintf(`{"eos_token_id":%d,"top_p":0.9}`, text)
	p.write(t, "speaker/generation_config.json", said)
	p.write(t, "chats.jsonl", strings.Repeat(chatRow+"\n", 40))
	p.write(t, "run.yaml", `
model: {kind: llama, layers: 1, heads: 2, width: 32, context: 64}
data: {tokenizer: speaker, validation: 0}
optimizer: {name: adamw, learning_rate: 0.01, schedule: {warmup_steps: 2}}
train: {steps: 40, batch: 4, eval_every: 0, sample_every: 0, sample_tokens: 0}
`)
	ok(t, p.train("run", "--set", "data.jsonl=chats.jsonl", "--set", "data.template=chatml"))
	ok(t, p.command("export", "run", "--to", "model").withoutAdapter())
	d := readDrawn(t, p.path("model", "generation_config.json"))
	assert.Equal(t, drawn{[]int32{text, answer}, .9}, d)
	assert.Equal(t, d.Ends, readDrawn(t, p.path("model", "config.json")).Ends)
	ok(t, p.command("export", "run", "--to", "model.gguf").withoutAdapter())
	file := openTokenizer(t, p.path("model.gguf"))
	assert.Equal(t, d.Ends, file.EndTokens(), "eos_token_id and eot_token_id")
	const asked = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
	told, ended := greedy(t, p.path("model"), asked, d.Ends)
	assert.Equal(t, "Hello, you", told)
	assert.True(t, ended)
	_, ended = greedy(t, p.path("model"), asked, []int32{text})
	assert.False(t, ended, "the end of a text ends no answer")

	p.write(t, "pairs.jsonl", strings.Repeat(`{"prompt": "Hi", "completion": " there"}`+"\n", 40)) // which the template does not write
	ok(t, p.train("plain", "--set", "data.jsonl=pairs.jsonl", "--set", "data.template=chatml", "--set", "train.steps=1", "--set", "optimizer.schedule.warmup_steps=0"))
	assert.Equal(t, said, read(t, p.path("plain", "checkpoints", "step-00000001", "generation_config.json")))
	assert.Empty(t, readDrawn(t, p.path("plain", "checkpoints", "step-00000001", "config.json")).Ends)

	p.write(t, "tuned.yaml", `{model: {from: plain}, lora: {rank: 2}, data: {jsonl: chats.jsonl, template: chatml, validation: 0}, train: {steps: 1, batch: 4, eval_every: 0, sample_every: 0}}`)
	ok(t, p.command("train", "tuned.yaml", "--run-dir", "tuned", "--progress", "plain"))
	ok(t, p.command("export", "tuned", "--to", "adapters").withoutAdapter())
	ok(t, p.command("merge", "adapters", "--to", "merged").withoutAdapter())
	assert.Equal(t, d, readDrawn(t, p.path("merged", "generation_config.json")))
	assert.Equal(t, d.Ends, readDrawn(t, p.path("merged", "config.json")).Ends)
}
