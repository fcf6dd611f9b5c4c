package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tokenizer goes with a run to the end: its checkpoints and what is exported of them have its files, and whatever writes or measures text reads it there. A
// run goes on without the directory that it came from.
func TestATokenizerGoesWithItsModel(t *testing.T) {
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
	r = run("data.tokenizer=words").run(t)
	assert.Equal(t, 2, r.code, r.err)
	assert.Contains(t, r.err, "data.tokenizer_fingerprint: found")

	// Another model on the same text, from what was exported: nothing is encoded again.
	r = ok(t, p.command("train", "keys.yaml", "--run-dir", "second", "--progress", "plain", "--set", "model.from=out", "--set", "data.text=notes/*.txt", "--set", "data.validation=0.2", "--set", "train.steps=2"))
	assert.Contains(t, r.err, "bytes, as they were kept")
}

// A run that a program without tokenizers made of a directory that has one goes on with the bytes of its text.
func TestARunOfBytesGoesOnWithBytes(t *testing.T) {
	p := newPlace(t)
	p.write(t, "keys.yaml", keysRun)
	p.write(t, "a.txt", lines(90))
	ok(t, p.command("train", "keys.yaml", "--run-dir", "first", "--set", "data.tokenizer="+absolute(t, filepath.Join(tokenizers, "gpt2")), "--set", "data.text=a.txt", "--set", "train.steps=1"))
	ok(t, p.command("export", "first", "--to", "model"))
	train := func(sets ...string) command {
		args := []string{"train", "keys.yaml", "--run-dir", "run", "--set", "model.from=model", "--set", "data.text=a.txt", "--set", "train.steps=4", "--set", "train.save_every=2"}
		for _, s := range sets {
			args = append(args, "--set", s)
		}
		return p.command(args...)
	}
	ok(t, train("data.tokens=bytes"))
	want := read(t, p.path("run/checkpoints/step-00000004/model.safetensors"))
	assert.NoFileExists(t, p.path("run/checkpoints/step-00000004/tokenizer.json"))
	record := read(t, p.path("run/run.yaml"))
	for _, key := range []string{"tokenizer", "tokenizer_fingerprint", "invalid", "cache"} {
		record = regexp.MustCompile(`(?m)^  `+key+`: .*\n`).ReplaceAllString(record, "")
	}
	p.write(t, "run/run.yaml", record)
	require.NoError(t, os.RemoveAll(p.path("run/checkpoints/step-00000004")))
	r := ok(t, train())
	assert.Contains(t, r.err, "is of an older gputrain, which read text as bytes: it goes on with data.tokens=bytes")
	assert.Equal(t, want, read(t, p.path("run/checkpoints/step-00000004/model.safetensors")))
	r = train("data.tokens=tokenizer").run(t)
	assert.Contains(t, r.err, "data.tokens: found \"bytes\", wanted \"tokenizer\"")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}
