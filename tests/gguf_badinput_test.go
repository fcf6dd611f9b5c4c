package tests

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// Whatever is wrong with a GGUF file, one line says what, and what helps; nothing is written. What may be wrong tests of gguf and hub have.
func TestGGUFBadInput(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestGGUFBadPlaces, gguf.TestDamaged, hub.TestGGUFRefused")
	p := newPlace(t)
	whole, err := os.ReadFile("testdata/gguf/llama.gguf")
	require.NoError(t, err)
	with := func(at, size int, value uint64) []byte {
		raw := bytes.Clone(whole)
		copy(raw[at:at+size], binary.LittleEndian.AppendUint64(nil, value))
		return raw
	}
	const name = "blk.0.ffn_down.weight"
	tensor := bytes.Index(whole, []byte(name)) + len(name) // dimensions: their number, two of 8 bytes; a type of 4 bytes; an offset
	kind := func(number uint64) []byte { return with(tensor+20, 4, number) }
	for name, c := range map[string]struct {
		raw  []byte
		says []string
	}{
		"cut in the tensors": {whole[:len(whole)/2], []string{`tensor "`, "found a file of 75728 bytes, wanted", "it is cut off, so download it again"}},
		"an unknown type":    {kind(99), []string{`"blk.0.ffn_down.weight": type 99: found one that is not known, wanted one of f32, f16, q4_0`, "where a newer llama.cpp has made the file, llama-quantize --allow-requantize"}},
		"a type given up":    {kind(31), []string{"type q4_0_4_4: llama.cpp has given it up, wanted one of", "take a newer file of the model"}},
		"integers":           {kind(26), []string{`"blk.0.ffn_down.weight": type i32: found one that is not read`}},
		"GGML":               {with(0, 4, 0x67676a74), []string{`found a file of GGML's, which begins with "tjgg", wanted "GGUF": convert the model again`}},
		"another format":     {[]byte("PK\x03\x04 and more"), []string{`found a file that begins with "PK\x03\x04", wanted "GGUF"`}},
	} {
		path := p.path(name + ".gguf")
		require.NoError(t, os.WriteFile(path, c.raw, 0o666))
		r := p.command("sample", path, "--prompt", "a").withoutAdapter().run(t)
		assert.NotZero(t, r.code, name)
		assert.Equal(t, 1, strings.Count(r.err, "\n"), "%s: one line: %s", name, r.err)
		for _, says := range append(c.says, name+".gguf") {
			assert.Contains(t, r.err, says, name)
		}
		exported := p.command("export", path, "--to", p.path("out")).withoutAdapter().run(t)
		assert.NotZero(t, exported.code, name)
		assert.NoDirExists(t, p.path("out"), name)
	}
	for version := range uint64(2) { // 2 and 3 have one layout
		path := p.path("whole.gguf")
		require.NoError(t, os.WriteFile(path, with(4, 4, 2+version), 0o666))
		assert.Contains(t, ok(t, p.command("show", path).withoutAdapter()).out, "llama, 36000 parameters")
	}
}

// Parts that are lacking, or go by other names; a folder with a file; a tokenizer that is another model's.
func TestGGUFBadPlaces(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	whole, err := os.ReadFile("testdata/gguf/llama.gguf")
	require.NoError(t, err)
	p.write(t, "folder/model.gguf", string(whole))
	p.write(t, "m-00002-of-00003.gguf", string(whole))
	p.write(t, "whole.gguf", string(whole))
	ok(t, p.command("tokenize", "train", p.path("larger"), "--text", p.path("text.txt"), "--vocab-size", "400").withoutAdapter())
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a part":    {[]string{"sample", "m-00002-of-00003.gguf"}, "m-00001-of-00003.gguf\": found no part 1 of 3, wanted all"},
		"a folder":  {[]string{"sample", "folder"}, "found neither config.json nor checkpoints, wanted a run directory, a checkpoint or a model directory; name the GGUF file in it, such as model.gguf"},
		"no file":   {[]string{"sample", "none.gguf"}, "none.gguf"},
		"tokenizer": {[]string{"train", "--set", "model.from=whole.gguf", "--set", "data.tokenizer=larger", "--set", "data.text=text.txt"}, "whole.gguf: found a vocabulary of 320, wanted 329 or more, as tokenizer larger has them"},
	} {
		r := p.command(c.args...).withoutAdapter().run(t)
		assert.NotZero(t, r.code, name)
		assert.Contains(t, r.err, c.says, name)
	}
}
