package tests

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/setup"
	"gputrain/text/tokenizer"
)

const tokenizers = "../text/tokenizer/testdata"

// mustTokenizer is a tokenizer for texts that have ids, and ids that have a text.
type mustTokenizer struct {
	*tokenizer.Tokenizer
	t *testing.T
}

// openTokenizer opens the tokenizer of a directory or a file.
func openTokenizer(t *testing.T, path string) mustTokenizer {
	t.Helper()
	tok, err := setup.OpenTokenizer(path)
	require.NoError(t, err)
	return mustTokenizer{tok, t}
}

func (s mustTokenizer) ids(text string) []int32 {
	s.t.Helper()
	ids, err := s.Encode(text, tokenizer.Options{})
	require.NoError(s.t, err)
	return ids
}

func (s mustTokenizer) text(ids []int32) string {
	s.t.Helper()
	text, err := s.Decode(ids, false)
	require.NoError(s.t, err)
	return text
}

// What docs/tokenizers.md shows is what the commands print.
func TestTokenizersPage(t *testing.T) { runPage(t, "../docs/tokenizers.md", 7, nil) }

// The commands of docs/from-scratch.md go from a text to a directory for others, and its figures.
func TestFromScratchPage(t *testing.T) {
	t.Parallel()
	p := runPage(t, "../docs/from-scratch.md", 10, nil, "GPUTRAIN_ADAPTER="+adapter(t), "GPUTRAIN_CACHE="+workshop)
	assert.Regexp(t, `^The sea`, read(t, p.path("page", "sample.txt")))
	figures := objects(t, read(t, p.path("page", "figures.json")))[0]
	bytes := len(read(t, p.path("page", "text.txt")))
	assert.EqualValues(t, bytes-len("The"), figures["bytes"], "the first token is not predicted")
	assert.InEpsilon(t, figures["eval_loss"].(float64)*figures["tokens"].(float64)/math.Ln2/figures["bytes"].(float64), figures["bits_per_byte"], 1e-12)
	assert.Less(t, figures["eval_loss"], math.Log(640), "it has learned something")
	p.write(t, "bad.txt", "The sea\xff")
	assert.Contains(t, p.command("eval", "page/model", "--text", "bad.txt").run(t).err, "byte 7: found 0xFF")
	ok(t, p.command("eval", "page/model", "--text", "bad.txt", "--invalid", "replace"))
	exported, err := hub.ReadConfig(p.path("page", "model"))
	require.NoError(t, err)
	assert.Equal(t, "qwen3", exported.Kind())
	assert.Contains(t, read(t, "../docs/from-scratch.md"), fmt.Sprintf("A new qwen3 of %d,%03d parameters", model.Parameters(exported)/1000, model.Parameters(exported)%1000))
	assert.Equal(t, read(t, p.path("page", "ours", "tokenizer.json")), read(t, p.path("page", "model", "tokenizer.json")))
}

// runPage runs the commands of a page beside a page of English and what prepare writes, and compares what they print with what it shows.
func runPage(t *testing.T, page string, least int, prepare func(dir string), env ...string) *place {
	t.Helper()
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("page"), os.DirFS(filepath.Join(tokenizers, "train"))))
	require.NoError(t, os.Rename(p.path("page", "corpus.txt"), p.path("page", "text.txt")))
	require.NoError(t, os.Mkdir(p.path("page", "bin"), 0o755))
	require.NoError(t, os.Symlink(program, p.path("page", "bin", "gputrain")))
	if prepare != nil {
		prepare(p.path("page"))
	}
	assert.GreaterOrEqual(t, runBlocks(t, p, page, env...), least)
	return p
}

// runBlocks runs the commands of a page in the place of a page, and tells how many there are. A line that ends with a backslash goes on in the next.
func runBlocks(t *testing.T, p *place, page string, env ...string) (commands int) {
	t.Helper()
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
		for _, shown := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			line, want, _ := strings.Cut(strings.ReplaceAll(shown, "\\\n", ""), "\n")
			c := exec.Command("sh", "-c", line)
			c.Dir, c.Env = p.path("page"), append(os.Environ(), env...)
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s: %s", line, out)
			assert.Equal(t, strings.TrimSuffix(want, "\n"), strings.TrimSuffix(string(out), "\n"), line)
			commands++
		}
	}
	return commands
}

// doctor compares cases of tokenizers without an adapter, and names the first that differs.
func TestDoctorOnTokenizers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, name := range []string{"gpt2", "splits", "train", "spm_bpe"} {
		require.NoError(t, os.CopyFS(p.path("cases", name), os.DirFS(filepath.Join(tokenizers, name))))
	}
	r := ok(t, p.command("doctor", "--cases", "cases", "--json").withoutAdapter())
	sound := verdicts(t, r.out)
	assert.Len(t, sound, 9)
	for name, v := range sound {
		assert.Equal(t, true, v["pass"], name)
		assert.Equal(t, "none", v["adapter"], name)
	}
	shown := ok(t, p.command("doctor", "--cases", "cases").withoutAdapter()).out
	assert.Len(t, regexp.MustCompile(`(?m)^  ok  \S`).FindAllString(shown, -1), 9, shown)
	assert.Contains(t, shown, "\n9 passed, 0 failed\n")
	change := func(file, old, with string) {
		text := read(t, p.path("cases", file))
		require.Contains(t, text, old)
		p.write(t, "cases/"+file, strings.Replace(text, old, with, 1))
	}
	change("gpt2/cases.json", `"ids":[285]`, `"ids":[286]`)
	change("gpt2/decode.json", `" wh"`, `"wh"`)
	change("splits/qwen2.json", `"pieces":["  "]`, `"pieces":[" "," "]`)
	change("train/llama3.json", `"h e"`, `"e h"`)
	p.write(t, "cases/other.json", `{"format_version": 1, "kind": "tokeniser"}`)
	r = p.command("doctor", "--cases", "cases", "--json").withoutAdapter().run(t)
	assert.Equal(t, 1, r.code, r.err)
	broken := verdicts(t, r.out)
	assert.Len(t, broken, 10)
	for name, says := range map[string]string{
		"gpt2/cases.json": "case 1 ids: found [285], want [286]", "gpt2/decode.json": `case 0 decoded: found " wh", want "wh"`,
		"splits/qwen2.json": `case 1 pieces: found ["  "], want [" "," "]`, "train/llama3.json": `merge 1: found "h e", want "e h"`,
	} {
		assert.Equal(t, false, broken[name]["pass"], name)
		assert.Equal(t, says, broken[name]["worst"], name)
		delete(broken, name)
	}
	assert.Equal(t, `kind "tokeniser", want one of chat, decode, sentencepiece, sft, split, tokenizer, train, did you mean "tokenizer"?`, broken["other.json"]["error"])
	delete(broken, "other.json")
	for name, v := range broken {
		assert.Equal(t, true, v["pass"], name)
	}
	r = p.command("doctor", "--cases", "cases").withoutAdapter().run(t)
	assert.Equal(t, 1, r.code, r.err)
	assert.Regexp(t, `(?m)^FAIL  other\.json +kind "tokeniser", want one of`, r.out)
	assert.Regexp(t, `(?m)^  ok  `, r.out)
	assert.Regexp(t, `(?m)^5 passed, 5 failed$`, r.out)
}

func TestTokenizeRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("gpt2"), os.DirFS(filepath.Join(tokenizers, "gpt2"))))
	p.write(t, "bad.txt", "ab\xff")
	p.write(t, "words.txt", "1 two")
	for says, c := range map[string]struct {
		code int
		args []string
	}{
		"no such file":                       {2, []string{"encode", "nowhere"}},
		"words.txt: no":                      {2, []string{"encode", "gpt2", "--text", "nowhere/words.txt: no"}},
		"byte 2: found 0xFF, wanted UTF-8":   {1, []string{"encode", "gpt2", "--text", "bad.txt"}},
		`line 1: found "two", wanted ids`:    {2, []string{"decode", "gpt2", "--text", "words.txt"}},
		"is there already":                   {2, []string{"train", "gpt2", "--text", "words.txt"}},
		`found "gpt3", wanted one of gpt2`:   {2, []string{"train", "new", "--pattern", "gpt3", "--text", "words.txt"}},
		"found 10 tokens, wanted 256":        {2, []string{"train", "new", "--vocab-size", "10", "--text", "words.txt"}},
		"found --json and --as u32, wanted":  {2, []string{"encode", "gpt2", "--json", "--as", "u32"}},
		"wanted tokenizer.json or tokenizer": {2, []string{"show", "."}},
	} {
		r := p.command(append([]string{"tokenize"}, c.args...)...).withoutAdapter().run(t)
		assert.Equal(t, c.code, r.code, "%v %s", c.args, r.err)
		assert.Contains(t, r.err, says)
	}
	assert.NoFileExists(t, p.path("new", "tokenizer.json"))
}
