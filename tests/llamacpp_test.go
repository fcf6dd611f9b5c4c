package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"gputrain/text/chat"
)

// learnedText is what the models learn from: of such a length that tokenizers learn merges, and of no page that is written anew.
const learnedText = "../docs/tuning/world.jsonl"

// llamaFolder has llama.cpp, as tools/llama/install.sh installs it: GPUTRAIN_LLAMA. Without it the test is skipped.
func llamaFolder(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("GPUTRAIN_LLAMA")
	if folder == "" {
		t.Skip("no llama.cpp: GPUTRAIN_LLAMA is not set (make llama installs it)")
	}
	return folder
}

// judge is llama.cpp with a model.
type judge struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func newJudge(t *testing.T, folder string, settings map[string]any) *judge {
	t.Helper()
	raw, err := json.Marshal(settings)
	require.NoError(t, err)
	cmd := exec.Command("node", "../tools/llama/judge.mjs", folder, string(raw))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { assert.NoError(t, in.Close()); assert.NoError(t, cmd.Wait()) })
	j := &judge{in, bufio.NewScanner(out)}
	j.out.Buffer(nil, 1<<20)
	return j
}

func (j *judge) ask(t *testing.T, question map[string]any, answer any) {
	t.Helper()
	raw, err := json.Marshal(question)
	require.NoError(t, err)
	_, err = fmt.Fprintf(j.in, "%s\n", raw)
	require.NoError(t, err)
	require.True(t, j.out.Scan(), "llama.cpp has ended: %v", j.out.Err())
	require.NoError(t, json.Unmarshal(j.out.Bytes(), answer), "%s", j.out.Bytes())
}

// varied are texts that tokenizers have stumbled over, and some of random signs.
func varied() []string {
	texts := []string{
		"Hello world", " leading", "trailing ", "a\nb\n\nc", "tabs\t\tx", "don't I'LL they've", "1234567 3.14", "naïve café", "日本語のテキスト", "emoji 😀👍🏽", "a  b   c    d",
		"\n\n  x", "ABC_def-ghi", "<|endoftext|>hi", "Привет мир", "مرحبا", "\r\n\r\nz", "'s 'S", "e\u0301", "½ ²",
	}
	signs := []rune("abc DE 12 \n\t.,'!é日😀-_\u0301\u0903\u20dd")
	random := rand.New(rand.NewPCG(1, 2))
	for len(texts) < 200 {
		var b strings.Builder
		for range 1 + random.IntN(40) {
			b.WriteRune(signs[random.IntN(len(signs))])
		}
		texts = append(texts, b.String())
	}
	return texts
}

// tableOfGELU is what losses of GPT-2 and Gemma may differ by in f32. llama.cpp's GELU on a processor is a table with an f16 for each f16; a loss that is computed
// with such a table in float64 is within 1e-5 of llama.cpp's, and several times as far from that of GELU.
const tableOfGELU = 1e-4

// TestLlamaCpp: what export writes is what llama.cpp runs, for every family: the same ids, the same loss. Models have learned 200 steps, so that a row or a
// gain out of place shows.
func TestLlamaCpp(t *testing.T) {
	folder := llamaFolder(t)
	gelu := []string{"gpt2", "gemma2", "gemma3_text"}
	judged := []string{"llama", "qwen2", "qwen3", "qwen3_5_text"}                        // one for each way to split
	window := map[string]string{"gemma2": ", window: 16", "gemma3_text": ", window: 16"} // shorter than the passage
	for kind, pattern := range map[string]string{
		"llama": "llama3", "qwen2": "qwen2", "qwen3": "gpt2", "smollm3": "gpt2", "olmo2": "gpt2", "granite": "llama3", "olmo3": "gpt2", "ministral3": "gpt2", "lfm2": "gpt2", "qwen3_5_text": "qwen35", "gpt2": "gpt2", "mistral": "gpt2", "gemma2": "gpt2", "gemma3_text": "gpt2", "phi3": "gpt2",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			text := read(t, learnedText)
			p.write(t, "text.txt", text)
			const passage = 200
			p.write(t, "passage.txt", text[5000:5000+passage])
			p.write(t, "run.yaml", fmt.Sprintf(`{data: {text: [text.txt], tokenizer: tokenizer}, model: {kind: %s, layers: 4, heads: 4, width: 64, context: 128, tie_head: true%s}, train: {steps: 200, batch: 2, eval_every: 0, save_every: 200, sample_every: 0}}`, kind, window[kind]))
			ok(t, p.command("tokenize", "train", p.path("tokenizer"), "--text", p.path("text.txt"), "--vocab-size", "500", "--pattern", pattern, "--special", "<|endoftext|>").withoutAdapter())
			ok(t, p.train("run"))
			own := p.loss(t, "run", "--text", "passage.txt", "--window", "128")
			require.Less(t, own, 5.5, "it has learned something")
			tok := openTokenizer(t, p.path("tokenizer"))
			back := p.path("back.gguf")
			ok(t, p.command("export", p.path("run"), "--to", back, "--type", "f32").withoutAdapter())
			assert.InDelta(t, own, p.loss(t, back, "--text", "passage.txt", "--window", "128"), 1e-7, "read back")
			passageIDs := tok.ids(text[5000 : 5000+passage])
			family := kind
			for kind, most := range map[string]float64{"f32": 1e-5, "f16": 2e-3, "bf16": 2e-3, "q8_0": 1e-2, "q4_0": 5e-2} {
				to := p.path(kind + ".gguf")
				ok(t, p.command("export", p.path("run"), "--to", to, "--type", kind).withoutAdapter())
				j := newJudge(t, folder, map[string]any{"model": to})
				var loss float64
				j.ask(t, map[string]any{"loss": passageIDs}, &loss)
				if kind == "f32" && slices.Contains(gelu, family) {
					most = tableOfGELU
				}
				assert.False(t, !(math.Abs(loss-own) <= most), "%s: found a loss of %.7f, wanted %.7f +- %g", kind, loss, own, most)
				if kind != "f32" {
					continue
				}
				const prompt, tokens = "The ", 50
				var greedy []int32
				j.ask(t, map[string]any{"greedy": tok.ids(prompt), "tokens": tokens}, &greedy)
				said := tok.text(greedy)
				drawn := ok(t, p.command("sample", p.path("run"), "--prompt", prompt, "--tokens", fmt.Sprint(tokens), "--temperature", "0")).out
				assert.Equal(t, prompt+said, strings.TrimSuffix(drawn, "\n"), "the likeliest tokens, one after another")
				if !slices.Contains(judged, family) {
					continue
				}
				for _, text := range varied() {
					var found []int32
					j.ask(t, map[string]any{"tokenize": text}, &found)
					assert.Equal(t, tok.ids(text), found, "%q", text)
				}
			}
		})
	}
}

// TestLlamaCppAdapter: adapters of a run, laid over the model by llama.cpp, have the loss of the run; and a model that llama.cpp gets on without.
func TestLlamaCppAdapter(t *testing.T) {
	folder := llamaFolder(t)
	p := newPlace(t)
	text := read(t, learnedText)
	p.write(t, "text.txt", text)
	p.write(t, "passage.txt", text[5000:5100])
	ok(t, p.command("tokenize", "train", p.path("tokenizer"), "--text", p.path("text.txt"), "--vocab-size", "500").withoutAdapter())
	for kind, lora := range map[string]string{
		"llama": "{rank: 4, alpha: 32, rslora: true, target: all-linear, rank_pattern: {q_proj: 8}, alpha_pattern: {k_proj: 64}}", "gpt2": "{rank: 4, target: all-linear}",
	} {
		p.write(t, "run.yaml", fmt.Sprintf(`{data: {text: [text.txt], tokenizer: tokenizer}, model: {kind: %s, layers: 2, heads: 4, width: 64, context: 128}, train: {steps: 20, batch: 2, eval_every: 0, sample_every: 0}}`, kind))
		ok(t, p.train(kind))
		ok(t, p.command("export", p.path(kind), "--to", p.path(kind+".gguf"), "--type", "f32").withoutAdapter())
		p.write(t, "run.yaml", fmt.Sprintf(`{data: {text: [text.txt]}, model: {from: %s.gguf}, lora: %s, optimizer: {learning_rate: 0.01}, train: {steps: 20, batch: 2, eval_every: 0, sample_every: 0}}`, kind, lora))
		ok(t, p.train(kind+"-lora"))
		ok(t, p.command("export", p.path(kind+"-lora"), "--to", p.path(kind+"-lora.gguf")).withoutAdapter())
		loss := func(model string) float64 { return p.loss(t, model, "--text", "passage.txt", "--window", "128") }
		tok := openTokenizer(t, p.path("tokenizer"))
		ids := tok.ids(text[5000:5100])
		var found float64
		newJudge(t, folder, map[string]any{"model": p.path(kind + ".gguf"), "adapter": p.path(kind + "-lora.gguf")}).ask(t, map[string]any{"loss": ids}, &found)
		assert.InDelta(t, loss(kind+"-lora"), found, 1e-5, kind)
		assert.Greater(t, math.Abs(loss(kind+".gguf")-found), 1e-4, "%s: they have learned something", kind)
	}
}

// TestLlamaCppTokenizers: ids of tokenizers that runs do not make: SentencePiece's, as a model and as a tokenizer.json, and the splits of GPT-4o and Qwen 3.5.
func TestLlamaCppTokenizers(t *testing.T) {
	folder := llamaFolder(t)
	p := newPlace(t)
	text, err := filepath.Abs(learnedText)
	require.NoError(t, err)
	dirs := map[string]string{"llama2": "../text/tokenizer/testdata/llama2", "spm_bpe": "../text/tokenizer/testdata/spm_bpe"}
	for _, pattern := range []string{"o200k", "qwen35"} {
		dirs[pattern] = p.path(pattern)
		ok(t, p.command("tokenize", "train", p.path(pattern), "--text", text, "--vocab-size", "500", "--pattern", pattern).withoutAdapter())
	}
	for name, dir := range dirs {
		dir, err := filepath.Abs(dir)
		require.NoError(t, err)
		p.write(t, "run.yaml", fmt.Sprintf(`{data: {text: [%q], tokenizer: %q}, model: {kind: llama, layers: 1, heads: 2, width: 32, context: 32, tie_head: true}, train: {steps: 1, batch: 1, eval_every: 0, sample_every: 0}}`, text, dir))
		ok(t, p.train(name))
		to := p.path(name + ".gguf")
		ok(t, p.command("export", p.path(name), "--to", to).withoutAdapter())
		own := openTokenizer(t, dir)
		back := openTokenizer(t, to)
		j := newJudge(t, folder, map[string]any{"model": to})
		texts := varied()
		if name == "llama2" { // a model alone does not look for such tokens in texts
			texts = append(texts, "a</s>b", "<s> hello</s>  you ", "x<unk>y", "</s></s> ")
		}
		for _, text := range texts {
			want := own.ids(text)
			var found []int32
			j.ask(t, map[string]any{"tokenize": text}, &found)
			assert.Equal(t, want, found, "%s: %q", name, text)
			if name == "qwen35" { // read as its published files, which compose letters and accents
				want = own.ids(norm.NFC.String(text))
			}
			assert.Equal(t, want, back.ids(text), "%s: %q, read back", name, text)
		}
	}
}

// TestLlamaCppEnds: of a directory with a tokenizer.json and a template alone, llama.cpp ends answers with the token that ends a text, and with the one that the
// template writes behind an answer.
func TestLlamaCppEnds(t *testing.T) {
	folder := llamaFolder(t)
	p := newPlace(t)
	ok(t, p.command("tokenize", "train", p.path("tok"), "--text", p.path("text.txt"), "--vocab-size", "300", "--special", "<|endoftext|>", "--special", "<done>").withoutAdapter())
	p.write(t, "tok/"+chat.File, `{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.role == 'assistant' %}<done>{% endif %}{% endfor %}`)
	p.write(t, "run.yaml", `{data: {text: [text.txt], tokenizer: tok}, model: {kind: llama, layers: 1, heads: 2, width: 32, context: 32, tie_head: true}, train: {steps: 1, batch: 1, eval_every: 0, sample_every: 0}}`)
	ok(t, p.train("run"))
	ok(t, p.command("export", p.path("run"), "--to", p.path("m.gguf")).withoutAdapter())
	tok := openTokenizer(t, p.path("tok"))
	text, _ := tok.ID("<|endoftext|>")
	done, _ := tok.ID("<done>")
	var ends []bool
	newJudge(t, folder, map[string]any{"model": p.path("m.gguf")}).ask(t, map[string]any{"ends": []int32{text, done, 11}}, &ends)
	assert.Equal(t, []bool{true, true, false}, ends, "11 is what llama.cpp takes where nothing is said")
}

// TestExportGGUF: the file is new and whole, or nothing is there.
func TestExportGGUF(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ok(t, p.train("run"))
	refused(t, p.command("export", "run", "--to", "m.gguf").withoutAdapter(), 6,
		"found neither tokenizer.json nor tokenizer.model, wanted one: llama.cpp cannot run a model without a tokenizer")
	p.write(t, "there.gguf", "mine")
	for kind, command := range map[string]string{"q9": "Q9", "q4_k_m": "Q4_K_M", "q6_k": "Q6_K"} {
		refused(t, p.command("export", "run", "--to", "there.gguf", "--type", kind).withoutAdapter(), 2,
			`export: --type: found "`+kind+`", wanted f32, f16, bf16, q8_0 or q4_0`, "llama-quantize MODEL-f16.gguf MODEL.gguf "+command)
	}
	left, err := filepath.Glob(p.path(".*.gguf*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}
