package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// The commands of docs/distillation.md: few lines teach more by a teacher, and by its lists, than by their labels.
func TestDistillationPage(t *testing.T) {
	gputest.Long(t, "setup.TestAStudentLearns")
	page := runPage(t, "../docs/distillation.md", 8, func(dir string) {
		require.NoError(t, os.CopyFS(filepath.Join(dir, "docs", "tuning"), os.DirFS("../docs/tuning")))
		_, yaml, _ := strings.Cut(read(t, "../docs/distillation.md"), "$ cat small.yaml\n")
		yaml, _, _ = strings.Cut(yaml, "$")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "small.yaml"), []byte(yaml), 0o666))
	}, "GPUTRAIN_ADAPTER="+adapter(t), "GPUTRAIN_CACHE="+workshop)
	loss := map[string]float64{}
	for _, run := range []string{"teacher", "labels", "student", "listed"} {
		var figures map[string]any
		require.NoError(t, json.Unmarshal([]byte(ok(t, page.command("eval", "page/runs/"+run, "--text", "page/held.txt", "--json")).out), &figures))
		loss[run] = figures["eval_loss"].(float64)
	}
	t.Log(loss)
	assert.Less(t, loss["student"], loss["labels"]-0.3)
	assert.Less(t, loss["listed"], loss["labels"]-0.3)
	assert.Less(t, loss["teacher"], loss["student"])
}

// distil refuses what it cannot write, in one line, and leaves what is there.
func TestDistilOfBadInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(t, "rows.jsonl", `{"text": "a few letters"}`+"\n"+`{"text": "`+strings.Repeat("long", 20)+`"}`+"\n")
	ok(t, p.command("train", "--set", "model.layers=1", "--set", "model.heads=1", "--set", "model.width=8", "--set", "model.context=32", "--set", "data.text=text.txt",
		"--set", "train.steps=1", "--set", "train.sample_tokens=0", "--set", "train.eval_every=0", "--run-dir", "teacher", "--progress", "none"))
	for wanted, args := range map[string][]string{
		"rows.jsonl: row 2: found 80 tokens before the last that is learned, wanted at most 32": nil,
		"--top-k 0, --temperature 1":         {"--top-k", "0"},
		"--temperature -1":                   {"--temperature=-1"},
		"--top-k: found 257, wanted at most": {"--top-k", "257", "--set", "data.long=keep_start"},
		"--window: found 33, wanted at most": {"--window", "33"},
		`wanted ["q"]`:                       {"--set", "data.prompt_field=q"},
	} {
		r := p.command(append([]string{"distil", "teacher", "rows.jsonl", "--to", "out.jsonl"}, args...)...).run(t)
		assert.NotEqual(t, 0, r.code, wanted)
		assert.NotContains(t, r.err, "bug")
		assert.Contains(t, r.err, wanted)
		assert.NoFileExists(t, p.path("out.jsonl"))
	}
	r := ok(t, p.command("distil", "teacher", "rows.jsonl", "--to", "out.jsonl", "--top-k", "3", "--set", "data.long=keep_start"))
	assert.Contains(t, r.out, "out.jsonl: 2 rows, the likeliest 3 of 45 tokens")
	lines := objects(t, read(t, p.path("out.jsonl")))
	require.Len(t, lines, 3)
	assert.EqualValues(t, 3, lines[0]["top_k"])
	assert.Len(t, lines[1]["ids"], 13, "the end among them, the first letter not")
	assert.Len(t, lines[2]["logprobs"], 32)
	before := read(t, p.path("out.jsonl"))
	r = p.command("distil", "teacher", "rows.jsonl", "--to", "out.jsonl").run(t)
	assert.Contains(t, r.err, "out.jsonl: file already exists")
	assert.Equal(t, 2, r.code)
	assert.Equal(t, before, read(t, p.path("out.jsonl")))
}
