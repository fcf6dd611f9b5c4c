package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// A tokenizer goes with a run to the end: its checkpoints and what is exported of them have its files, and whatever writes or measures text reads it there. A
// run goes on without the directory that it came from.
func TestATokenizerGoesWithItsModel(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestFromScratchPage")
	p := newPlace(t)
	p.write(t, "keys.yaml", keysRun)
	p.write(t, "notes/a.txt", lines(60))
	p.write(t, "notes/b.txt", lines(90))
	require.NoError(t, os.CopyFS(p.path("words"), os.DirFS(filepath.Join(tokenizers, "llama3"))))
	p.write(t, "words/chat_template.jinja", "{{ messages }}\n")
	p.write(t, "words/generation_config.json", `{"eos_token_id": [648], "temperature": 0.5}`)
	run := func(sets ...string) command {
		args := []string{"train", "keys.yaml", "--run-dir", "run", "--progress", "plain"}
		for _, s := range append([]string{"data.text=notes/*.txt", "data.validation=0.2", "train.steps=3"}, sets...) {
			args = append(args, "--set", s)
		}
		return p.command(args...)
	}
	r := ok(t, run("data.tokenizer=words"))
	assert.Contains(t, r.err, "gputrain: tokenizer words: byte-pair encoding, 649 tokens")
	checkpoint := "run/checkpoints/step-00000003"
	ok(t, p.command("export", "run", "--to", "out", "--dtype", "bf16"))
	for _, dir := range []string{checkpoint, "out"} {
		for _, name := range []string{"tokenizer.json", "chat_template.jinja", "generation_config.json"} {
			assert.Equal(t, read(t, p.path("words", name)), read(t, p.path(dir, name)), "%s in %s", name, dir)
		}
		assert.NoFileExists(t, p.path(dir, "cases.json"))
	}
	assert.Contains(t, read(t, p.path("run", "run.yaml")), "tokenizer_fingerprint: \"80ed77979f2d")

	require.NoError(t, os.Rename(p.path("words"), p.path("moved")))
	for _, dir := range []string{"run", checkpoint, "out"} {
		r = ok(t, p.command("sample", dir, "--prompt", "line", "--tokens", "9", "--temperature", "0"))
		assert.True(t, strings.HasPrefix(r.out, "line"), r.out)
		assert.NotContains(t, r.out, "\ufffd\ufffd\ufffd", "text, not bytes of ids")
	}
	assert.Contains(t, ok(t, p.command("inspect", "out")).out, "tokenizer: byte-pair encoding, 649 tokens, end tokens [648]")
	own, given := ok(t, p.command("eval", "run")), ok(t, p.command("eval", "out", "--text", "notes/b.txt"))
	assert.Regexp(t, regexp.MustCompile(`loss \d`), own.out+given.out)

	r = ok(t, run("data.tokenizer=words", "train.steps=3"))
	assert.Contains(t, r.err, "data.tokenizer (--set): words is not there any more; the run goes on without it")
	assert.Contains(t, r.err, "all 3 steps are made")
	require.NoError(t, os.CopyFS(p.path("words"), os.DirFS(filepath.Join(tokenizers, "gpt2"))))
	refused(t, run("data.tokenizer=words"), 2, "data.tokenizer_fingerprint: found")

	// Another model on the same text, from what was exported: nothing is encoded again.
	r = ok(t, p.command("train", "keys.yaml", "--run-dir", "second", "--progress", "plain", "--set", "model.from=out", "--set", "data.text=notes/*.txt", "--set", "data.validation=0.2", "--set", "train.steps=2"))
	assert.Contains(t, r.err, "bytes, as they were kept")
}
