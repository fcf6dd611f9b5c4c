package tests

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf"
	"gputrain/internal/gputest"
)

// Whatever is wrong with a GGUF file, one line says what, and what helps; nothing is written.
func TestGGUFBadInput(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestGGUFBadPlaces, and tests of gguf")
	p := newPlace(t)
	whole, err := os.ReadFile("testdata/gguf/llama.gguf")
	require.NoError(t, err)
	after := func(text string) int { // where text ends in the file
		at := bytes.Index(whole, []byte(text))
		require.Positive(t, at, text)
		return at + len(text)
	}
	with := func(at, size int, value uint64) []byte {
		raw := bytes.Clone(whole)
		copy(raw[at:at+size], binary.LittleEndian.AppendUint64(nil, value))
		return raw
	}
	file, err := gguf.Open("testdata/gguf/llama.gguf")
	require.NoError(t, err)
	defer file.Close()
	says := func(key, value string) []byte { // the file with another value of a key
		keys, tensors := file.Keys(), []gguf.Tensor(nil)
		at := slices.IndexFunc(keys, func(k gguf.Key) bool { return k.Name == key })
		require.NotEqual(t, -1, at, key)
		keys[at].Value = value
		for _, info := range file.Tensors() {
			tensors = append(tensors, gguf.Tensor{Name: info.Name, Type: info.Type, Shape: info.Shape, Write: func(w io.Writer) error {
				_, err := w.Write(bytesOf(t, file, info.Name))
				return err
			}})
		}
		var b bytes.Buffer
		require.NoError(t, gguf.Write(&b, keys, tensors))
		return b.Bytes()
	}
	tensor := after("blk.0.ffn_down.weight") // dimensions: their number, two of 8 bytes; a type of 4 bytes; an offset
	kind := func(number uint64) []byte { return with(tensor+20, 4, number) }
	for name, c := range map[string]struct {
		raw  []byte
		says []string
	}{
		"cut in the tensors":        {whole[:len(whole)/2], []string{`tensor "`, "found a file of 75728 bytes, wanted", "it is cut off, so download it again"}},
		"cut in the keys":           {whole[:300], []string{"wanted at most 8 in the 284 bytes that follow: the file is cut off or damaged, so download it again"}},
		"cut in the magic":          {whole[:3], []string{"found the end of the file, wanted 1 bytes more: it is cut off, so download it again"}},
		"empty":                     {nil, []string{"found the end of the file, wanted 4 bytes more: it is cut off, so download it again"}},
		"many tensors":              {with(8, 8, 1<<40), []string{"tensors: found a count of 1099511627776, wanted at most", "cut off or damaged"}},
		"many keys":                 {with(16, 8, 1<<60), []string{"keys: found a count of 1152921504606846976, wanted at most", "cut off or damaged"}},
		"many tokens":               {with(after("tokenizer.ggml.tokens")+8, 8, 1<<50), []string{`"tokenizer.ggml.tokens": an array: found a count of 1125899906842624`, "cut off or damaged"}},
		"a long text":               {with(after("general.architecture")+4, 8, 1<<63), []string{`key 0, "general.architecture": a text: found a count of 9223372036854775808`, "cut off or damaged"}},
		"a large dimension":         {with(tensor+4, 8, 1<<62), []string{`"blk.0.ffn_down.weight": found a dimension of 4611686018427387904`, "cut off or damaged"}},
		"an offset beyond the file": {with(tensor+24, 8, 1<<40), []string{`"blk.0.ffn_down.weight": found a file of`, "wanted 10995116", "cut off, so download it again"}},
		"an offset between":         {with(tensor+24, 8, 7), []string{"offset 7, wanted a multiple of 32", "cut off or damaged"}},
		"an offset into another":    {with(tensor+24, 8, 0), []string{"lies in the tensor before", "cut off or damaged"}},
		"an unknown type":           {kind(99), []string{`"blk.0.ffn_down.weight": type 99: found one that is not known, wanted one of f32, f16, q4_0`, "where a newer llama.cpp has made the file, llama-quantize --allow-requantize"}},
		"a type given up":           {kind(31), []string{"type q4_0_4_4: llama.cpp has given it up, wanted one of", "take a newer file of the model"}},
		"integers":                  {kind(26), []string{`"blk.0.ffn_down.weight": type i32: found one that is not read`}},
		"rows of no whole blocks":   {kind(10), []string{`"blk.0.ffn_down.weight": type q2_k: found rows of 48 elements, wanted a multiple of 256`}},
		"big-endian":                {with(4, 4, 3<<24), []string{"byte order: found a big-endian file, wanted a little-endian one: convert the model again without --bigendian"}},
		"version 1":                 {with(4, 4, 1), []string{"version: found 1, wanted 2 or 3: convert the model again with a llama.cpp of 2024 or newer"}},
		"version 4":                 {with(4, 4, 4), []string{"version: found 4, wanted 2 or 3"}},
		"GGML":                      {with(0, 4, 0x67676a74), []string{`found a file of GGML's, which begins with "tjgg", wanted "GGUF": convert the model again`}},
		"a web page":                {[]byte("<!DOCTYPE html>"), []string{"found a web page, wanted the file: download it anew"}},
		"a pointer":                 {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"), []string{"found a Git LFS pointer, wanted a file of 12345 bytes: git lfs pull"}},
		"another format":            {[]byte("PK\x03\x04 and more"), []string{`found a file that begins with "PK\x03\x04", wanted "GGUF"`}},
		"another architecture":      {says("general.architecture", "mamba"), []string{`key general.architecture: found "mamba", wanted one of gemma2, gemma3, gpt2, llama`}},
		"adapters":                  {says("general.type", "adapter"), []string{`key general.type: found "adapter", wanted a model: these are low-rank adapters`, "gputrain takes adapters as a PEFT directory"}},
		"eyes":                      {says("general.type", "mmproj"), []string{`key general.type: found "mmproj", wanted a model: this is the part of a model that sees images`}},
		"statistics":                {says("general.type", "imatrix"), []string{`key general.type: found "imatrix", wanted a model: these are statistics`}},
		"another way to split":      {says("tokenizer.ggml.pre", "mystery"), []string{`key tokenizer.ggml.pre: found "mystery", wanted one of gpt-2`}},
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
