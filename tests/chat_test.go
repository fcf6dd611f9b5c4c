package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/model"
)

// A model that has learned a conversation has it: line by line, as JSON, with adapters beside their base, and with the template that the run had.
func TestChat(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("speaker"), os.DirFS(filepath.Join(tokenizers, "qwen2"))))
	p.write(t, "chats.jsonl", strings.Repeat(strings.ReplaceAll(chatRow, "Hello, you", "Grüß dich 👍")+"\n", 40))
	p.write(t, "chats.yaml", `
model: {kind: llama, layers: 1, heads: 2, width: 32, context: 64}
data: {jsonl: chats.jsonl, tokenizer: speaker, template: chatml, format: messages, validation: 0}
optimizer: {name: adamw, learning_rate: 0.01, schedule: {warmup_steps: 2}}
train: {steps: 40, batch: 4, sample_tokens: 0}
`)
	ok(t, p.command("train", "chats.yaml", "--run-dir", p.runDir(t, "run"), "--progress", "plain"))
	chat := func(input string, args ...string) command {
		return p.command(append([]string{"chat"}, args...)...).with(func(c *command) { c.in = input })
	}
	r := ok(t, chat("Hi\n\nAnd now?", "run", "--temperature", "0"))
	assert.Equal(t, "Grüß dich 👍\nBye\n", r.out)
	assert.Regexp(t, `2 answers, \d+ tokens, \S+ tokens a second\n$`, r.err)
	turns := objects(t, ok(t, chat("Hi\nAnd now?\n", "run/checkpoints/step-00000040", "--temperature", "0", "--json")).out)
	require.Len(t, turns, 2)
	assert.Equal(t, []any{"Bye", "end", turns[0]["prompt_tokens"].(float64) + turns[0]["answer_tokens"].(float64)},
		[]any{turns[1]["answer"], turns[1]["end"], turns[1]["kept_tokens"]}, "the second turn computes none of the first")
	assert.Equal(t, "Grüß dich 👍\n", ok(t, chat("", "run", "--temperature", "0", "--prompt", "Hi")).out)

	each := objects(t, ok(t, chat(strings.Repeat("Hi\n", 70)+`{"id": "x", "prompt": "Hi"}`, "run", "--temperature", "0", "--each", "--json")).out)
	require.Len(t, each, 71)
	for i, one := range each {
		assert.Equal(t, []any{float64(i + 1), "Hi", "Grüß dich 👍", "end"}, []any{one["line"], one["message"], one["answer"], one["end"]})
	}
	assert.Equal(t, "x", each[70]["id"])
	refused(t, chat("Hi\n{}", "run", "--each"), 2, "line 2: found an object with the keys []")
	refused(t, chat("", "run", "--each", "--prompt", "Hi"), 2, "--each: found --prompt, too")

	// Of the answers of rows those count that the model gives to the end.
	right := `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Grüß dich 👍"}]}` + "\n"
	p.write(t, "held.jsonl", right+strings.Replace(right, " 👍", "", 1)+strings.Replace(right, "dich 👍", "dich 👍!", 1)+right)
	eval := func(args ...string) string {
		return ok(t, p.command(append([]string{"eval", "run", "--jsonl", "held.jsonl"}, args...)...)).out
	}
	assert.Regexp(t, `^loss .*\n2 of 4 answers are exactly right \(50\.0 %\), by the likeliest tokens\n$`, eval())
	assert.Regexp(t, `^loss .*\n$`, eval("--no-answers"))
	refused(t, p.command("eval", "run", "--no-answers"), 2, "--no-answers: found no --jsonl")
	told := objects(t, eval("--json"))
	require.Len(t, told, 5)
	for i, one := range told[:4] {
		assert.Equal(t, []any{float64(i + 1), i%3 == 0, "Grüß dich 👍"}, []any{one["row"], one["exact"], one["answer"]})
		assert.Contains(t, one["question"], "Hi")
	}
	assert.Equal(t, []any{4., 2.}, []any{told[4]["answers"], told[4]["answers_right"]})
	assert.Less(t, told[0]["loss"], told[1]["loss"])
	p.write(t, "held.jsonl", strings.Replace(right, "dich", "mich", 1))
	told = objects(t, eval("--json"))
	assert.InDelta(t, told[1]["eval_loss"], told[0]["loss"], 1e-6)
	assert.Greater(t, told[0]["loss"], 0.1)

	if testing.Short() {
		return
	}
	ok(t, p.command("export", "run", "--to", "model"))
	require.NoError(t, os.Remove(p.path("model", "chat_template.jinja")))
	refused(t, chat("Hi", "model"), 2, "no chat template", "chatml", "here --template does")
	loudAdapters(t, p)
	with := []string{"--temperature", "0", "--template", "chatml", "--tokens", "9"}
	plain := ok(t, chat("Hi", append(with, "model")...)).out
	assert.Equal(t, "Grüß dich 👍\n", plain)
	tuned := ok(t, chat("Hi", append(with, "peft")...)).out
	assert.NotEqual(t, plain, tuned)
	assert.Equal(t, tuned, ok(t, chat("Hi", append(with, "model", "--adapter", "peft", "--adapter", adapter(t))...)).out)
	refused(t, chat("Hi", "model", "--adapter", "model"), 2, "--adapter: model: found a whole model")
	refused(t, chat("Hi", "model", "--adapter", "no such adapter"), 2, "no such adapter")
	refused(t, chat("Hi", "model", "--adapter", "peft", "--base", "model"), 2, "wanted one base")
	refused(t, chat("Hi", "run", "--window", "65"), 2, "--window: found 65, wanted at most the context of 64")
	refused(t, chat("Hi", "run", "--prompt", " "), 2, "chat: message: found nothing")
}

// loudAdapters writes adapters of ones for the model, in peft, with which it answers otherwise.
func loudAdapters(t *testing.T, p *place) {
	t.Helper()
	base, err := hub.ReadConfig(p.path("model"))
	require.NoError(t, err)
	adapted, err := model.WithLoRA(base, model.LoRA{Rank: 2})
	require.NoError(t, err)
	loud := map[string][]float32{}
	for _, h := range model.Init(adapted, 3) {
		for i := range h.Data {
			h.Data[i] = 1
		}
		loud[h.Path] = h.Data
	}
	read := func(path string) ([]float32, error) { return loud[path], nil }
	require.NoError(t, model.Export(p.path("peft"), adapted, read, model.ExportOptions{Base: p.path("model")}))
}
