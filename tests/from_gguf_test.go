package tests

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf"
	"gputrain/internal/gputest"
	"gputrain/text/chat"
)

// A GGUF file does wherever a model directory does: it is measured, sampled, tuned with adapters that stand on it, merged and exported again.
func TestGGUFForAModel(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestGGUFAsLlamaCpp reads such files, TestExportGGUF writes one")
	p := newPlace(t)
	ok(t, p.command("tokenize", "train", p.path("tok"), "--text", p.path("text.txt"), "--vocab-size", "300", "--special", "<|endoftext|>").withoutAdapter())
	p.write(t, "run.yaml", `{data: {text: [text.txt], tokenizer: tok}, model: {kind: llama, layers: 1, heads: 2, width: 32, context: 32, tie_head: true}, train: {steps: 2, batch: 1, eval_every: 0, save_every: 2, sample_every: 0}}`)
	ok(t, p.train("made"))
	ok(t, p.command("export", p.path("made"), "--to", p.path("made.gguf"), "--type", "f32").withoutAdapter())
	ok(t, p.command("export", p.path("made"), "--to", p.path("q8.gguf"), "--type", "q8_0").withoutAdapter())
	loss := func(model string) float64 {
		return p.loss(t, model, "--text", "text.txt", "--limit", "256", "--window", "32")
	}
	assert.Equal(t, loss("made"), loss("made.gguf"))
	assert.InDelta(t, loss("made"), loss("q8.gguf"), 1e-2)

	p.write(t, "run.yaml", `{data: {text: [text.txt], tokenizer: tok}, model: {kind: llama, layers: 1, heads: 2, width: 32, intermediate: 80, context: 32, tie_head: true, quantize: {mode: q4_0}}, train: {steps: 2, batch: 1, eval_every: 0, save_every: 2, sample_every: 0}}`)
	ok(t, p.train("few"))
	assert.Contains(t, ok(t, p.command("export", p.path("few"), "--to", p.path("few.gguf")).withoutAdapter()).out, "parameters in q4_0")
	assert.Equal(t, loss("few"), loss("few.gguf"), "what was evaluated is what is in the file, its last projections in f16 too")
	assert.Contains(t, ok(t, p.command("export", p.path("few"), "--to", p.path("few8.gguf"), "--type", "q8_0").withoutAdapter()).err, "the loss will be another: trained as q4_0")

	p.write(t, "run.yaml", `{data: {text: [text.txt]}, model: {from: q8.gguf}, lora: {rank: 2}, train: {steps: 2, batch: 1, eval_every: 0, save_every: 2, sample_every: 0}}`)
	ok(t, p.train("tuned"))
	ok(t, p.command("sample", p.path("tuned"), "--prompt", "the", "--tokens", "2"))
	said := ok(t, p.command("export", p.path("tuned"), "--to", p.path("modelfile", "a.gguf"), "--ollama", "me/it").withoutAdapter()).out
	assert.Contains(t, said, "next: llama-server -m "+p.path("q8.gguf")+" --lora "+p.path("modelfile", "a.gguf"))
	assert.Regexp(t, `^FROM `+p.path("q8.gguf")+`\nADAPTER ./a.gguf\n(.|\n)*PARAMETER stop "<.endoftext.>"\n`, read(t, p.path("modelfile", "Modelfile")))
	half := ok(t, p.command("eval", p.path("q8.gguf"), "--adapter", p.path("tuned")+"=0.5", "--adapter", p.path("tuned")+"=0.5", "--text", p.path("text.txt"), "--limit", "256", "--window", "32", "--json")).out
	var sum struct {
		Loss float64 `json:"eval_loss"`
	}
	require.NoError(t, json.Unmarshal([]byte(half), &sum))
	assert.InDelta(t, loss("tuned"), sum.Loss, 1e-5)
	ok(t, p.command("merge", p.path("tuned"), "--to", p.path("merged")).withoutAdapter())
	assert.InDelta(t, loss("tuned"), loss("merged"), 1e-5)
	ok(t, p.command("export", p.path("merged"), "--to", p.path("merged.gguf"), "--type", "f32").withoutAdapter())
	assert.Equal(t, loss("merged"), loss("merged.gguf"))

	p.write(t, "merged/"+chat.File, `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`)
	ok(t, p.command("export", p.path("merged"), "--to", p.path("ollama", "m.gguf"), "--ollama", "me/it").withoutAdapter())
	assert.Regexp(t, `^FROM ./m.gguf\nTEMPLATE """(.|\n)*"<assistant>"(.|\n)*PARAMETER stop "<.endoftext.>"\n`, read(t, p.path("ollama", "Modelfile")))
	refused(t, p.command("export", p.path("merged"), "--to", p.path("ollama", "n.gguf"), "--ollama", "me/it").withoutAdapter(), 2, "Modelfile: found something there, wanted a new file")
	assert.NoFileExists(t, p.path("ollama", "n.gguf"))

	shown := ok(t, p.command("show", p.path("q8.gguf"), "--tensors").withoutAdapter()).out
	for _, line := range []string{`family +llama, \d+ parameters`, `head width +16`, `tokenizer +byte-pair encoding, 300 tokens`, `q8_0 +8 +\d+ +\d+`, `tokenizer.ggml.pre +gpt-2`, `blk.0.attn_q.weight +q8_0 +\[32 32\] +1088`} {
		assert.Regexp(t, line, shown)
	}
	assert.Regexp(t, `family +llama(.|\n)*adapters +rank 2`, ok(t, p.command("show", p.path("tuned")).withoutAdapter()).out)

	raw := read(t, p.path("q8.gguf"))
	p.write(t, "short.gguf", raw[:len(raw)/2])
	for model, says := range map[string]string{"short.gguf": "it is cut off, so download it again", "text.txt": "found a file, wanted a directory, or a GGUF file"} {
		r := p.command("eval", p.path(model), "--text", p.path("text.txt")).run(t)
		assert.Contains(t, r.err, says)
		assert.NotZero(t, r.code)
	}
}

// What llama.cpp says of some files (tools/llama/golden.py) is what gputrain says of them: ids, losses, the likeliest continuation. A file that is read and
// written again has the same tensors.
func TestGGUFAsLlamaCpp(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]float64{"llama": 1e-5, "gemma2": 2e-3, "phi3": 1e-5} {
		path, err := filepath.Abs("testdata/gguf/" + name + ".gguf")
		require.NoError(t, err)
		raw, err := os.ReadFile("testdata/gguf/" + name + ".json")
		require.NoError(t, err)
		var said struct {
			Passage, Prompt string
			IDs, Greedy     []int32
			Loss            float64
		}
		require.NoError(t, json.Unmarshal(raw, &said))
		tok := openTokenizer(t, path)
		ids := tok.ids(said.Passage)
		assert.Equal(t, said.IDs, ids, name)
		text := tok.text(said.Greedy)

		p := newPlace(t)
		p.write(t, "passage.txt", said.Passage)
		assert.InDelta(t, said.Loss, p.loss(t, path, "--text", "passage.txt", "--window", "128"), within, name)
		drawn := ok(t, p.command("sample", path, "--prompt", said.Prompt, "--tokens", "20", "--temperature", "0")).out
		assert.Equal(t, said.Prompt+text, strings.TrimSuffix(drawn, "\n"), name)

		ok(t, p.command("export", path, "--to", p.path("dir")).withoutAdapter())
		first, err := gguf.Open(path)
		require.NoError(t, err)
		defer first.Close()
		kind := map[string]string{"llama": "f32", "gemma2": "q8_0", "phi3": "f16"}[name]
		ok(t, p.command("export", p.path("dir"), "--to", p.path("again.gguf"), "--type", kind).withoutAdapter())
		second, err := gguf.Open(p.path("again.gguf"))
		require.NoError(t, err)
		defer second.Close()
		require.Len(t, second.Tensors(), len(first.Tensors()), name)
		for _, info := range first.Tensors() {
			assert.Equal(t, bytesOf(t, first, info.Name), bytesOf(t, second, info.Name), "%s: %s", name, info.Name)
		}
	}
}

func bytesOf(t *testing.T, f *gguf.File, name string) []byte {
	t.Helper()
	r, err := f.Bytes(name)
	require.NoError(t, err)
	raw, err := io.ReadAll(r)
	require.NoError(t, err)
	return raw
}
