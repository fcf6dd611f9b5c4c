package tests

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/run/setup"
	"gputrain/text/chat"
)

// turns is a template of messages, with what stands before an answer.
const turns = `{%% for m in messages %%}{{ '<|im_start|>' + m.role + '\n' }}{%% if m.role == 'assistant' %%}{{ '%[1]s' }}{%% endif %%}{{ m.content + '<|im_end|>\n' }}{%% endfor %%}` +
	`{%% if add_generation_prompt %%}{{ '<|im_start|>assistant\n%[1]s' }}{%% endif %%}`

// journeys are families whose layers no other has, with how their tokenizers split words and their answers begin.
var journeys = map[string]struct {
	pattern, begins string
	keys            []string
	judged          bool // only where llama.cpp is: twice as many steps, each of more work
}{
	"qwen3_5_text": {pattern: "qwen35", begins: `<think>\n\n</think>\n\n`},
	"lfm2":         {pattern: "llama3"},
	"qwen3_moe":    {pattern: "qwen2", keys: []string{"train.steps=600"}, judged: true}, // each expert sees a quarter of the words
}

// The journey of docs/tuning.md: a new model learns facts, and is taught manners in which it tells those that it was not asked for, too. Merged, and as a GGUF file,
// it answers the same; and in llama.cpp, where that is installed.
func TestTuningFamilies(t *testing.T) {
	gputest.Long(t, "TestTuningPage and the families of package model")
	for kind, j := range journeys {
		t.Run(kind, func(t *testing.T) {
			if j.judged && os.Getenv("GPUTRAIN_LLAMA") == "" {
				t.Skip("needs GPUTRAIN_LLAMA (make llama)")
			}
			p := newPlace(t)
			require.NoError(t, os.CopyFS(p.path("tuning"), os.DirFS("../docs/tuning")))
			ok(t, p.command("tokenize", "train", "tok", "--text", "tuning/text.txt", "--vocab-size", "400", "--pattern", j.pattern,
				"--special", "<|endoftext|>", "--special", "<|im_start|>", "--special", "<|im_end|>", "--special", "<think>", "--special", "</think>").withoutAdapter())
			p.write(t, "tok/"+chat.File, fmt.Sprintf(turns, j.begins))
			p.write(t, "world.yaml", ok(t, p.command("config", "template", "--family", kind, "--size", "0.2M", "--tokenizer", "tok", "--context", "64").withoutAdapter()).out)
			learn := []string{"train", "world.yaml", "--run-dir", "world"}
			for _, key := range append([]string{"data.jsonl=tuning/world.jsonl", "optimizer.name=muon", "optimizer.learning_rate=0.01", "train.steps=300", "train.batch=8"}, j.keys...) {
				learn = append(learn, "--set", key)
			}
			ok(t, p.command(learn...))
			ok(t, p.command("export", "world", "--to", "ours").withoutAdapter())
			ok(t, p.command("tune", "ours", "tuning/chats.jsonl", "--run-dir", "polite"))
			ok(t, p.command("merge", "polite", "--to", "merged").withoutAdapter())
			ok(t, p.command("export", "merged", "--to", "merged.gguf", "--type", "f32").withoutAdapter())

			newest, err := setup.Checkpoints(p.path("polite")).Newest()
			require.NoError(t, err)
			for dir, end := range map[string]string{p.path("ours"): ".", newest.Path: ", sir.", p.path("merged"): ", sir.", p.path("merged.gguf"): ", sir."} {
				right, of := rightOf(t, dir, "../docs/tuning/held.jsonl", end)
				t.Logf("%s: %d of %d", dir, right, of)
				assert.GreaterOrEqual(t, 10*right, 9*of, "%s: %d of %d", dir, right, of)
			}
			if os.Getenv("GPUTRAIN_LLAMA") == "" {
				return
			}
			asked := newJudge(t, llamaFolder(t), map[string]any{"model": p.path("merged.gguf")})
			right, of := answeredRight(t, p.path("merged.gguf"), "../docs/tuning/held.jsonl", ", sir.", func(prompt, ends []int32) (answer []int32) {
				asked.ask(t, map[string]any{"greedy": prompt, "tokens": 24}, &answer)
				if end := slices.IndexFunc(answer, func(id int32) bool { return slices.Contains(ends, id) }); end >= 0 {
					answer = answer[:end]
				}
				return answer
			})
			t.Logf("llama.cpp: %d of %d", right, of)
			assert.GreaterOrEqual(t, 10*right, 9*of, "llama.cpp: %d of %d", right, of)
		})
	}
}
