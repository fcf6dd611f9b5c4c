package setup

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/train"
	"gputrain/text/tokenizer"
)

const chatML = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Samples go on from what the template writes before an answer that is held out, as tokens, and end where answers do; those of pairs from a prompt. A text has no
// question, and a prompt of the user stays what it is.
func TestSamplesGoOnFromQuestions(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dir := modelDir(t, 640, "qwen2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(chatML), 0o666))
	tok, err := OpenTokenizer(dir)
	require.NoError(t, err)
	const ended, text = int32(622), int32(2) // <|im_end|>, and as generation_config.json says
	said := func(role, content string) string { return `{"role": "` + role + `", "content": "` + content + `"}` }
	chat := func(asked string) string {
		return `{"messages": [` + said("user", asked) + ", " + said("assistant", "it is. so") + "]}"
	}
	asked := func(content string) string {
		return "<|im_start|>user\n" + content + "<|im_end|>\n<|im_start|>assistant\n"
	}
	held := []string{chat("a b"), chat("c"), chat("d"), chat("e"), chat("f  g")} // of five the fifth
	pair := `{"prompt": "1+1 =", "chosen": " two", "rejected": " nil"}`
	for name, c := range map[string]struct {
		rows        []string
		sets        []string
		begin, says string // the text of the tokens that samples begin with, and what people see of them
		ids         []int32
		end         int32
	}{
		"held out":                 {held, []string{"data.validation=0.2"}, asked("f  g"), "user\nf  g\nassistant\n", nil, ended},
		"none is held out":         {held, nil, asked("a b"), "user\na b\nassistant\n", nil, ended},
		"too long at first":        {[]string{chat(strings.Repeat("x y ", 40)), chat("z")}, []string{"data.long=keep_start"}, asked("z"), "user\nz\nassistant\n", nil, ended},
		"the last answer alone":    {[]string{`{"messages": [` + said("user", "a") + "," + said("assistant", "b") + "," + said("user", "c") + "," + said("assistant", "d") + "]}"}, []string{"data.learn_last=true"}, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n" + asked("c"), "user\na\nassistant\nb\nuser\nc\nassistant\n", nil, ended},
		"a prompt of the user":     {held, []string{"train.prompt=it"}, "", "it", nil, ended},
		"texts":                    {[]string{`{"text": "a b c d"}`, `{"text": "d e f"}`}, nil, "", "\n", nil, text},
		"pairs of texts":           {[]string{pair, pair}, []string{"preference.loss=simpo"}, "1+1 =", "1+1 =", nil, text},
		"pairs of messages":        {[]string{`{"prompt": [` + said("user", "a b") + `], "chosen": [` + said("assistant", "c") + `], "rejected": [` + said("assistant", "d") + "]}"}, []string{"preference.loss=simpo"}, asked("a b"), "user\na b\nassistant\n", nil, ended},
		"pairs of one token's ask": {[]string{`{"prompt": [64], "chosen": [65], "rejected": [66]}`}, []string{"preference.loss=simpo"}, "", "a", []int32{64}, text},
		"an end of one's own":      {[]string{`{"prompt": "a b c", "completion": " d"}`}, []string{"data.eos=7"}, "a b c", "a b c", nil, 7},
	} {
		rows := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(rows, []byte(strings.Join(c.rows, "\n")), 0o666))
		sets := []string{"data.tokenizer=" + dir, "data.jsonl=" + rows, "model.context=64", "data.validation=0", "train.batch=2"}
		run, release, err := Train(t.Context(), configOf(t, append(sets, c.sets...)...), io.Discard)
		require.NoError(t, err, name)
		want := c.ids
		if c.begin != "" {
			want, err = tok.Encode(c.begin, tokenizer.Options{})
			require.NoError(t, err)
		}
		assert.Equal(t, want, run.Sample.Begin, name)
		assert.Equal(t, c.says, run.Sample.Prompt, name)
		assert.Contains(t, run.Sample.Stop, c.end, name)
		release()
	}
}

// People see the end of a long prompt, and no special token.
func TestSpoken(t *testing.T) {
	tok, err := OpenTokenizer(tokenizerDir("qwen2"))
	require.NoError(t, err)
	for text, want := range map[string]string{
		"<|im_start|>user<|im_end|>\n\n a<|im_end|>b": "user\n a\nb",
		"<|im_start|>": "",
		strings.Repeat("é", 600) + strings.Repeat("a", 900): "…" + strings.Repeat("é", 100) + strings.Repeat("a", 900),
	} {
		ids, err := tok.Encode(text, tokenizer.Options{})
		require.NoError(t, err)
		assert.Equal(t, want, Spoken(NewTokenizer(tok), ids))
	}
	assert.Equal(t, "a\nb", Spoken(train.Bytes, []int32{'a', '\n', 'b'}))
}
