package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/hub/gguf"
	"gputrain/model"
)

// quantize quantizes a file with llama.cpp, or widens it, to one of its types of files; pure: all matrices to the one type.
func quantize(t *testing.T, folder, from, to string, kind int, pure bool) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3, by which llama.cpp is asked to quantize")
	}
	args := []string{"../tools/llama/quantize.py", folder, from, to, fmt.Sprint(kind)}
	if pure {
		args = append(args, "pure")
	}
	out, err := exec.Command("python3", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// sameTensors holds the tensors of a file to those of another, byte for byte.
func sameTensors(t *testing.T, wanted, found, what string) {
	t.Helper()
	a, err := gguf.Open(wanted)
	require.NoError(t, err)
	defer a.Close()
	b, err := gguf.Open(found)
	require.NoError(t, err)
	defer b.Close()
	require.Len(t, b.Tensors(), len(a.Tensors()), what)
	for _, want := range a.Tensors() {
		got, ok := b.Info(want.Name)
		require.True(t, ok, "%s: %s", what, want.Name)
		require.Equal(t, want.Type, got.Type, "%s: %s", what, want.Name)
		require.Equal(t, want.Shape, got.Shape, "%s: %s", what, want.Name)
		require.Equal(t, bytesOf(t, a, want.Name), bytesOf(t, b, want.Name), "%s: %s", what, want.Name)
	}
}

// TestLlamaCppQuantized: blocks are those of llama.cpp's quantizer, and what llama.cpp has quantized is widened to the same numbers, bit for bit.
func TestLlamaCppQuantized(t *testing.T) {
	folder := llamaFolder(t)
	p := newPlace(t)
	ok(t, p.command("tokenize", "train", p.path("tokenizer"), "--text", p.path("text.txt"), "--vocab-size", "311", "--special", "<|endoftext|>").withoutAdapter())
	settings{
		"model_type": "llama", "vocab_size": 320, "max_position_embeddings": 256, "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
		"intermediate_size": 512, "tie_word_embeddings": false,
	}.write(t, p, "model", rand.New(rand.NewPCG(1, 2)))
	export := func(from, to, kind string) {
		ok(t, p.command("export", p.path(from), "--to", p.path(to), "--type", kind).withoutAdapter())
	}
	export("model", "f32.gguf", "f32")
	for kind, number := range map[string]int{"q8_0": 7, "q4_0": 2, "f16": 1, "bf16": 32} {
		export("model", kind+".gguf", kind)
		quantize(t, folder, p.path("f32.gguf"), p.path("their-"+kind+".gguf"), number, true)
		sameTensors(t, p.path("their-"+kind+".gguf"), p.path(kind+".gguf"), kind)
	}
	read := map[gguf.Type]bool{}
	for name, number := range map[string]int{
		"F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "BF16": 32,
	} {
		quantized, theirs, ours := name+".gguf", name+" their.gguf", name+" ours.gguf"
		quantize(t, folder, p.path("f32.gguf"), p.path(quantized), number, false)
		quantize(t, folder, p.path(quantized), p.path(theirs), 0, false)
		export(quantized, ours, "f32")
		sameTensors(t, p.path(theirs), p.path(ours), name)
		f, err := gguf.Open(p.path(quantized))
		require.NoError(t, err)
		for _, info := range f.Tensors() {
			read[info.Type] = true
		}
		require.NoError(t, f.Close())
	}
	for kind := range gguf.Type(64) {
		assert.Equal(t, kind.Refuse() == nil, read[kind], "%s: each type that is read was tried", kind)
	}
	// What is said to help with a type that is not read does help.
	quantize(t, folder, p.path("f32.gguf"), p.path("Q2_K.gguf"), 10, false)
	refused := p.command("sample", p.path("Q2_K.gguf")).withoutAdapter().run(t)
	assert.Contains(t, refused.err, "type q2_k: found one that is not read, wanted one of f32")
	assert.Contains(t, refused.err, "llama-quantize --allow-requantize FILE.gguf NEW.gguf F16")
	quantize(t, folder, p.path("Q2_K.gguf"), p.path("widened.gguf"), 1, false)
	export("widened.gguf", "again.gguf", "f16")
}

// peakOf runs a command that must do what it says, and is the most memory that was resident: what the kernel says of an ended process includes its parent's.
func peakOf(t *testing.T, cmd *exec.Cmd) (bytes float64) {
	t.Helper()
	var said strings.Builder
	cmd.Env = append(os.Environ(), "GOGC=100") // as users have it
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			require.NoError(t, err, "%s", said.String())
			return bytes
		case <-time.After(2 * time.Millisecond):
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)) // it may have ended
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
				var kilobytes float64
				_, err := fmt.Sscan(rest, &kilobytes)
				require.NoError(t, err)
				bytes = max(bytes, 1024*kilobytes)
			}
		}
	}
}

// smolLM2 is the config.json of SmolLM2-135M.
const smolLM2 = `{"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
	"max_position_embeddings": 8192, "rope_theta": 100000, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}`

// TestLlamaCppTrueShapes: a model of the shapes of SmolLM2-135M, of random numbers, with a tokenizer of as many tokens: in bounded memory, with the same ids and losses.
func TestLlamaCppTrueShapes(t *testing.T) {
	folder := llamaFolder(t)
	p := newPlace(t)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	sources, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", "*", "*.go"))
	require.NoError(t, err)
	args := []string{"tokenize", "train", p.path("tokenizer"), "--vocab-size", "49152", "--special", "<|endoftext|>"}
	for _, path := range sources {
		args = append(args, "--text", path)
	}
	ok(t, p.command(args...).withoutAdapter())
	def, err := model.ParseConfig([]byte(smolLM2))
	require.NoError(t, err)
	drawn := map[string]array.Host{}
	for _, h := range model.Drawn(def, 1) {
		drawn[h.Path] = h
	}
	require.NoError(t, model.Export(p.path("model"), def, func(path string) ([]float32, error) {
		h := drawn[path]
		x := make([]float32, h.Elements())
		return x, h.Copy(x, 0)
	}, model.ExportOptions{DType: "BF16"}))
	p.write(t, "model/tokenizer.json", read(t, p.path("tokenizer", "tokenizer.json")))

	const megabytes = 1e6
	parameters := float64(model.Parameters(def))
	for kind, size := range map[string]float64{"f32": 4, "f16": 2, "q8_0": 34. / 32, "q4_0": 18. / 32} {
		begin := time.Now()
		peak := peakOf(t, exec.Command(program, "export", p.path("model"), "--to", p.path(kind+".gguf"), "--type", kind))
		took := time.Since(begin)
		info, err := os.Stat(p.path(kind + ".gguf"))
		require.NoError(t, err)
		t.Logf("%s: %.0f MB in %.1f s, %.0f MB of memory at most", kind, float64(info.Size())/megabytes, took.Seconds(), peak/megabytes)
		assert.InDelta(t, parameters*size, float64(info.Size()), 0.03*parameters*size+3*megabytes, kind)
		largest := 49152. * 576 * 4 // the embedding, widened
		assert.Less(t, peak, 2*largest+150*megabytes, "%s: the largest tensor, and the tokenizer", kind)
	}

	text := read(t, "../README.md")[:400]
	p.write(t, "passage.txt", text)
	tok := openTokenizer(t, p.path("tokenizer"))
	ids := tok.ids(text)
	require.Greater(t, len(ids), 64)
	require.LessOrEqual(t, len(ids), 512)
	quantize(t, folder, p.path("f16.gguf"), p.path("q4_k_m.gguf"), 15, false)
	// Where matrices are quantized, llama.cpp multiplies them with activations in eight bits.
	for kind, most := range map[string]float64{"f32": 1e-5, "f16": 2e-3, "q8_0": 5e-3, "q4_0": 5e-3, "q4_k_m": 5e-3} {
		j := newJudge(t, folder, map[string]any{"model": p.path(kind + ".gguf"), "context": 512})
		var theirs float64
		j.ask(t, map[string]any{"loss": ids}, &theirs)
		from := kind + ".gguf"
		if kind == "f32" || kind == "f16" {
			from = "model"
		}
		own := p.loss(t, from, "--text", "passage.txt", "--window", "512")
		t.Logf("%s: llama.cpp's loss %.7f, gputrain's %.7f", kind, theirs, own)
		assert.False(t, !(math.Abs(theirs-own) <= most), "%s: found a loss of %.7f, wanted %.7f +- %g", kind, theirs, own, most)
		if kind != "f32" {
			continue
		}
		for _, text := range varied() {
			var found []int32
			j.ask(t, map[string]any{"tokenize": text}, &found)
			assert.Equal(t, tok.ids(text), found, "%q", text)
		}
	}
	quantize(t, folder, p.path("q4_k_m.gguf"), p.path("widened.gguf"), 0, false)
	ok(t, p.command("export", p.path("q4_k_m.gguf"), "--to", p.path("again.gguf"), "--type", "f32").withoutAdapter())
	sameTensors(t, p.path("widened.gguf"), p.path("again.gguf"), "Q4_K_M, read back")
}
