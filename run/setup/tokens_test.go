package setup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/plan"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

func tokenizerDir(name string) string {
	return filepath.Join("..", "..", "text", "tokenizer", "testdata", name)
}

// modelDir is a tiny model with the tokenizer of testdata of a name, "" for none.
func modelDir(t *testing.T, vocab int, tokens string) string {
	t.Helper()
	def, err := model.New("gpt2", model.Keys{Layers: 1, Heads: 1, Width: 8, Context: 16, Vocab: vocab})
	require.NoError(t, err)
	data := map[string][]float32{}
	for _, h := range model.Init(def, 3) {
		data[h.Path] = h.Data
	}
	dir := filepath.Join(t.TempDir(), "model")
	require.NoError(t, model.Export(dir, def, func(path string) ([]float32, error) { return data[path], nil }, model.ExportOptions{}))
	if tokens != "" {
		raw, err := os.ReadFile(filepath.Join(tokenizerDir(tokens), "tokenizer.json"))
		require.NoError(t, err)
		for name, text := range map[string]string{"tokenizer.json": string(raw), "chat_template.jinja": "{{ x }}", "generation_config.json": `{"eos_token_id": 2}`, "notes.txt": "mine"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		}
	}
	return dir
}

func configOf(t *testing.T, sets ...string) *runfile.Config {
	t.Helper()
	cfg, err := runfile.ReadAll(nil, nil, append([]string{"model.width=8", "model.heads=1", "model.layers=1", "model.context=16"}, sets...))
	require.NoError(t, err)
	return cfg
}

// Where there is a tokenizer text is for it, unless the run file says otherwise; a new model has a row for each token.
func TestWhichTokenizer(t *testing.T) {
	with, without := modelDir(t, 640, "gpt2"), modelDir(t, 256, "")
	for name, c := range map[string]struct {
		sets  []string
		kind  string
		size  int // of the tokenizer
		vocab int
	}{
		"bytes":                      {nil, "bytes", 0, 256},
		"model.from":                 {[]string{"model.from=" + with}, "tokenizer", 600, 640},
		"model.from, bytes":          {[]string{"model.from=" + with, "data.tokens=bytes"}, "bytes", 0, 640},
		"model.from, ids":            {[]string{"model.from=" + with, "data.tokens=u16", "data.text=a"}, "u16", 600, 640},
		"model.from without":         {[]string{"model.from=" + without}, "bytes", 0, 256},
		"data.tokenizer":             {[]string{"data.tokenizer=" + tokenizerDir("llama3")}, "tokenizer", 649, 704},
		"a file":                     {[]string{"data.tokenizer=" + tokenizerDir("llama3/tokenizer.json"), "data.tokens=tokenizer"}, "tokenizer", 649, 704},
		"a SentencePiece model":      {[]string{"data.tokenizer=" + tokenizerDir("spm_bpe/tokenizer.model"), "model.vocab=1000"}, "tokenizer", 620, 1000},
		"ids of a tokenizer":         {[]string{"data.tokenizer=" + tokenizerDir("llama3"), "data.tokens=u32", "data.text=a"}, "u32", 649, 704},
		"another than model.from":    {[]string{"model.from=" + with, "data.tokenizer=" + tokenizerDir("qwen2")}, "tokenizer", 626, 640},
		"held to a short one":        {[]string{"data.tokenizer=" + tokenizerDir("llama3"), "data.tokenizer_fingerprint=80ed77979f2d"}, "tokenizer", 649, 704},
		"documents and bytes, an id": {[]string{"data.jsonl=a", "data.eos=300"}, "bytes", 0, 301},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t, c.sets...)
			var said bytes.Buffer
			w, begin, err := look(cfg, &said, from)
			require.NoError(t, err)
			p, err := plan.Resolve(cfg, w)
			require.NoError(t, err)
			def := p.State.Definition
			assert.Equal(t, c.vocab, def.Vocab())
			assert.Equal(t, c.kind, begin.Tokens.Kind)
			assert.Equal(t, c.kind, p.Spec.Data.Tokens, "as it is recorded")
			if c.size == 0 {
				assert.Nil(t, begin.Tokens.Tokenizer)
				assert.Empty(t, begin.Tokens.Companions)
				assert.Empty(t, p.Spec.Data.TokenizerFingerprint)
				return
			}
			require.NotNil(t, begin.Tokens.Tokenizer)
			assert.Equal(t, c.size, begin.Tokens.Tokenizer.VocabSize())
			assert.NotEmpty(t, begin.Tokens.Companions)
			assert.Equal(t, begin.Tokens.Tokenizer.Fingerprint(), p.Spec.Data.TokenizerFingerprint)
			assert.Contains(t, said.String(), begin.Tokens.Path)
			_, _, err = Definition(p.Spec, io.Discard)
			require.NoError(t, err, "again, with what was laid")
		})
	}
}

func TestTokenizersThatDoNotFit(t *testing.T) {
	small, broken, none := modelDir(t, 599, "gpt2"), modelDir(t, 640, "gpt2"), modelDir(t, 256, "")
	require.NoError(t, os.WriteFile(filepath.Join(broken, "tokenizer.json"), []byte(`{"model": {"type": "Unigram"}}`), 0o666))
	llama3, padded := tokenizerDir("llama3"), modelDir(t, 600, "gpt2")
	require.NoError(t, os.WriteFile(filepath.Join(padded, "tokenizer_config.json"), []byte(`{"pad_token": "[PAD]", "sep_token": "[SEP]"}`), 0o666))
	alone, err := OpenTokenizer(tokenizerDir("gpt2"))
	require.NoError(t, err)
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{"model.from=" + padded}, padded + ": found a vocabulary of 600, wanted 602 or more, as tokenizer " + padded + ` has them ("[SEP]" is 600, from tokenizer_config.json: sep_token)`},
		{
			[]string{"data.tokenizer=" + padded, "data.tokenizer_fingerprint=" + alone.Fingerprint()},
			`: the program that began the run read tokenizer.json alone, and texts have other tokens now (tokenizer_config.json: sep_token: "[SEP]" is token 600; tokenizer_config.json: pad_token: "[PAD]" is token 601): finish the run with that program, or begin anew`,
		},
		{[]string{"model.from=" + small}, "run file: model.from (--set): " + small + ": found a vocabulary of 599, wanted 600 or more, as tokenizer " + small + " has them"},
		{[]string{"data.tokenizer=" + llama3, "model.vocab=648"}, "run file: model.vocab (--set): found a vocabulary of 648, wanted 649 or more, as tokenizer " + llama3 + ` has them ("<|eot_id|>" is 648)`},
		{[]string{"model.from=" + broken}, `data.tokens=bytes reads text as bytes`},
		{[]string{"data.tokenizer=" + broken}, "Unigram"},
		{[]string{"data.tokenizer=" + none}, "found neither, wanted tokenizer.json or tokenizer.model"},
		{[]string{"data.tokenizer=" + llama3, "data.tokens=bytes"}, "run file: data.tokenizer (--set): found " + llama3 + ", wanted none with data.tokens bytes"},
		{[]string{"data.tokens=tokenizer", "model.from=" + none}, "wanted data.tokenizer, or a directory in model.from that has"},
		{[]string{"data.tokenizer=" + llama3, "data.tokenizer_fingerprint=abc"}, "run file: data.tokenizer_fingerprint (--set): found abc, wanted 80ed77979f2d"},
		{[]string{"model.from=" + none, "data.eos=3"}, "run file: data.eos (--set): found 3, wanted null without documents (data.jsonl) or a tokenizer"},
	} {
		_, _, err := Definition(configOf(t, c.sets...), io.Discard)
		var usage *UsageError
		require.ErrorAs(t, err, &usage, c.sets)
		assert.ErrorContains(t, err, c.want)
	}
	require.NoError(t, os.WriteFile(filepath.Join(padded, "tokenizer_config.json"), []byte(`{"pad_token": "[PAD]"}`), 0o666))
	_, _, err = Definition(configOf(t, "model.from="+padded), io.Discard)
	require.NoError(t, err, "no text is padded")
	var said bytes.Buffer
	_, begin, err := Definition(configOf(t, "model.from="+broken, "data.tokens=u16", "data.text=a"), &said)
	require.NoError(t, err, "ids need no tokenizer")
	assert.Contains(t, said.String(), "samples are not written")
	assert.Nil(t, begin.Tokens.Text())
	assert.NotEmpty(t, begin.Tokens.Companions)

	// Gemma 3 has a token for images behind the last row of its text models.
	raw, err := os.ReadFile(filepath.Join(llama3, "tokenizer.json"))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), bytes.Replace(raw, []byte("<|eot_id|>"), []byte("<image_soft_token>"), 1), 0o666))
	_, _, err = Definition(configOf(t, "data.tokenizer="+dir, "model.vocab=648"), io.Discard)
	require.NoError(t, err)
}

// A model without a tokenizer keeps what it has; where text is bytes although it has one, its files are of no use.
func TestFilesWithoutATokenizer(t *testing.T) {
	names := func(dir string, sets ...string) (names []string) {
		_, begin, err := Definition(configOf(t, append(sets, "model.from="+dir)...), io.Discard)
		require.NoError(t, err)
		for _, f := range begin.Tokens.Companions {
			names = append(names, f.Name)
		}
		return names
	}
	dir := modelDir(t, 640, "gpt2")
	assert.Equal(t, []string{"tokenizer.json", "chat_template.jinja", "generation_config.json"}, names(dir))
	assert.Empty(t, names(dir, "data.tokens=bytes"))
	require.NoError(t, os.Remove(filepath.Join(dir, "tokenizer.json")))
	assert.Equal(t, []string{"chat_template.jinja", "generation_config.json"}, names(dir))
}

// A run with a tokenizer learns the same from text as from its ids, goes on to the same bits after a stop, encodes its text once, and leaves checkpoints
// that have the tokenizer.
func TestARunWithATokenizer(t *testing.T) {
	dev := gputest.Device(t)
	dir := modelDir(t, 640, "gpt2")
	folder, cache := t.TempDir(), t.TempDir()
	text := strings.Repeat("The keeper's lamp; 17 ships, at night.\n", 60)
	tok, err := OpenTokenizer(dir)
	require.NoError(t, err)
	ids, err := tok.Encode(text, tokenizer.Options{})
	require.NoError(t, err)
	var raw []byte
	for _, id := range ids {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(id))
	}
	jsonl := strings.Repeat(`{"text": "The keeper's lamp", "q": "what?"}`+"\n", 30)
	for name, content := range map[string][]byte{"text.txt": []byte(text), "text.u32": raw, "more.jsonl": []byte(jsonl)} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o666))
	}
	common := []string{"model.from=" + dir, "data.cache=" + cache, "data.validation=0.2", "train.steps=6", "train.save_every=2", "train.sample_tokens=12"}
	trained := func(runDir string, stopAt int64, sets ...string) (checkpoint string, notes string, err error) {
		cfg := configOf(t, append(common, sets...)...)
		run, release, err := Train(t.Context(), cfg, io.Discard)
		require.NoError(t, err)
		defer release()
		if len(sets) == 1 { // the tokenizer of the model
			assert.Equal(t, []int32{2}, run.Sample.Stop, "eos_token_id of the directory")
		}
		run.Dir, run.Output = runDir, io.Discard
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		run.Hooks = append(run.Hooks, train.HookFunc(func(_ context.Context, e train.Event) error {
			if e.Kind == train.StepEnd && stopAt > 0 && e.Step == stopAt {
				stop(errors.New("enough"))
			}
			return nil
		}))
		result, err := train.Run(ctx, dev, run)
		return result.Checkpoint, strings.Join(run.Notes, "\n"), err
	}
	contents := func(checkpoint string) map[string]string {
		out := map[string]string{}
		for _, name := range []string{"model.safetensors", "optimizer.safetensors", "state.json"} {
			raw, err := os.ReadFile(filepath.Join(checkpoint, name))
			require.NoError(t, err)
			out[name] = string(raw)
		}
		return out
	}
	sets := "data.text=" + filepath.Join(folder, "text.txt")
	whole, notes, err := trained(filepath.Join(folder, "whole"), 0, sets)
	require.NoError(t, err)
	assert.Contains(t, notes, "tokens of 2340 bytes, made in")
	fromIDs, _, err := trained(filepath.Join(folder, "ids"), 0, "data.text="+filepath.Join(folder, "text.u32"), "data.tokens=u32")
	require.NoError(t, err)
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		assert.Equal(t, contents(whole)[name], contents(fromIDs)[name], "text and its ids: %s", name)
	}
	for _, run := range []string{whole, fromIDs} {
		for _, name := range []string{"tokenizer.json", "chat_template.jinja", "generation_config.json"} {
			want, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(run, name))
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		assert.NoFileExists(t, filepath.Join(run, "notes.txt"))
	}
	samples, err := os.ReadFile(filepath.Join(folder, "whole", "samples.jsonl"))
	require.NoError(t, err)
	assert.Regexp(t, `"text":"[^"]{12,}`, string(samples))

	cut := filepath.Join(folder, "cut")
	_, _, err = trained(cut, 3, sets)
	require.ErrorContains(t, err, "enough")
	require.NoError(t, os.RemoveAll(filepath.Join(cut, "checkpoints", "step-00000003"))) // as if it had been killed
	resumed, notes, err := trained(cut, 0, sets)
	require.NoError(t, err)
	assert.Contains(t, notes, "as they were kept")
	assert.Equal(t, contents(whole), contents(resumed), "a run that was stopped")

	// The same tokenizer may lie elsewhere; another one makes it another run.
	elsewhere := t.TempDir()
	require.NoError(t, os.CopyFS(elsewhere, os.DirFS(tokenizerDir("gpt2"))))
	_, _, err = trained(cut, 0, sets, "data.tokenizer="+elsewhere)
	require.NoError(t, err)
	_, _, err = trained(cut, 0, sets, "data.tokenizer="+tokenizerDir("qwen2"))
	var changed *train.ChangedError
	require.ErrorAs(t, err, &changed)
	assert.Equal(t, "data.tokenizer_fingerprint", changed.Key)
	assert.NotContains(t, changed.Error(), "finish the run")
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "tokenizer_config.json"), []byte(`{"mask_token": "[MASK]"}`), 0o666))
	_, _, err = trained(cut, 0, sets, "data.tokenizer="+elsewhere)
	require.ErrorContains(t, err, `"[MASK]" is token 600): finish the run with that program, or begin anew`)
	_, _, err = trained(cut, 0, sets, "data.tokens=bytes")
	require.ErrorAs(t, err, &changed)
	assert.Equal(t, "data.tokens", changed.Key)

	_, notes, err = trained(filepath.Join(folder, "mixture"), 0,
		"data.mixture=[{text: "+filepath.Join(folder, "text.txt")+", weight: 2}, {jsonl: "+filepath.Join(folder, "more.jsonl")+", weight: 1, prompt_field: q}]")
	require.NoError(t, err)
	assert.Contains(t, notes, "more.jsonl: 30 documents (text) of")

	// Conversations go on to the same bits too, and not with another template or other roles.
	template := filepath.Join(folder, "spoken.jinja")
	write := func(path, content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o666)) }
	write(template, "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")
	write(filepath.Join(folder, "chats.json"), "["+strings.Repeat(`{"messages": [{"role": "user", "content": "ships?"}, {"role": "assistant", "content": "17"}]},`, 29)+
		`{"instruction": "lamp?", "output": "night"}]`)
	chats := []string{"data.jsonl=" + filepath.Join(folder, "chats.json"), "data.template=" + template}
	whole, notes, err = trained(filepath.Join(folder, "talks"), 0, chats...)
	require.NoError(t, err)
	assert.Regexp(t, `chats\.json: 30 documents \(messages, alpaca\) of \d+ tokens in \d+ windows of 16, \d+ % full, template `+template+`, \d+ % of the tokens learned`, notes)
	_, _, err = trained(filepath.Join(folder, "talk"), 3, chats...)
	require.ErrorContains(t, err, "enough")
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "talk", "checkpoints", "step-00000003")))
	resumed, _, err = trained(filepath.Join(folder, "talk"), 0, chats...)
	require.NoError(t, err)
	assert.Equal(t, contents(whole), contents(resumed), "conversations")
	spoken, err := os.ReadFile(template)
	require.NoError(t, err)
	saved, err := os.ReadFile(filepath.Join(whole, chat.File))
	require.NoError(t, err)
	assert.Equal(t, spoken, saved, "whoever talks with the model finds what it has learned from, not the template of model.from")
	_, _, err = trained(filepath.Join(folder, "talk"), 0, append(chats, "data.roles=[user]")...)
	require.ErrorAs(t, err, &changed)
	assert.Equal(t, "data.roles", changed.Key)
	write(template, "{% for m in messages %}{{ m.role + '> ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant> ' }}{% endif %}")
	_, _, err = trained(filepath.Join(folder, "talk"), 0, chats...)
	require.ErrorContains(t, err, "fingerprint")
}

// letters is a tokenizer of "ab", whose first token is no text.
type letters struct{ train.Tokenizer }

func (letters) Size() int { return 3 }

func (letters) Encode(text string) ([]int32, error) {
	if strings.Trim(text, "ab") != "" {
		return nil, errors.New("unknown letter")
	}
	return make([]int32, len(text)), nil
}

func (letters) Continue([]int32) train.TextStream { return spelt{} }

type spelt struct{}

func (spelt) Next(token int32) string { return []string{"", "a", "b"}[token] }
func (spelt) End() string             { return "" }

// A prompt that nobody has chosen is one that the tokenizer knows.
func TestPromptIsKnown(t *testing.T) {
	assert.Equal(t, "a", known(letters{}, "\n"))
	assert.Equal(t, "b", known(letters{}, "b"))
	assert.Equal(t, "\n", known(train.Bytes, "\n"))
}

// A checkpoint has the template that its run learned by beside its tokenizer, whether that is named as a directory or as a file; where there is no tokenizer,
// a template that lies in the working directory is none of the run's.
func TestTemplateThatWasSaved(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "tokenizer.json")
	for _, name := range []string{"chat_template.jinja", "tokenizer.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
	}
	cfg := runfile.New()
	cfg.Data.Template = "chatml"
	alone, err := hub.OpenTokenizer(file)
	require.NoError(t, err)
	assert.Empty(t, Tokens{files: hub.Open(dir)}.savedWith(cfg))
	assert.Empty(t, Tokens{files: alone}.savedWith(cfg))
	assert.Equal(t, "chatml", Tokens{}.savedWith(cfg))
}

// TestClosing: the last token of conversations is that which the template writes last.
func TestClosing(t *testing.T) {
	for template, want := range map[string]string{chatML: "Ċ", strings.ReplaceAll(chatML, `<|im_end|>\n`, `<|im_end|>`): "<|im_end|>", "{{ raise_exception('no') }}": ""} {
		dir := modelDir(t, 640, "qwen2")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o666))
		tokens, err := tokensOf(configOf(t, "data.tokenizer="+dir), nil, io.Discard)
		require.NoError(t, err)
		if want == "" {
			assert.Nil(t, tokens.Closing)
			continue
		}
		require.NotNil(t, tokens.Closing)
		found, err := tokens.Tokenizer.Token(*tokens.Closing)
		require.NoError(t, err)
		assert.Equal(t, want, found)
	}
}
