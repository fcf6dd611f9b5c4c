package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIDsAsTrainingReadsThem(t *testing.T) {
	written := func(as string, ids ...int32) ([]byte, error) {
		var out bytes.Buffer
		w := idWriter{out: bufio.NewWriter(&out), as: as}
		err := w.write(ids)
		require.NoError(t, w.end())
		require.NoError(t, w.out.Flush())
		return out.Bytes(), err
	}
	got, err := written("u16", 1, 0x1234, 65535)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0x34, 0x12, 255, 255}, got)
	got, err = written("u32", 1, 65536)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0, 0, 0, 0, 1, 0}, got)
	_, err = written("u16", 3, 65536)
	require.EqualError(t, err, "tokenize: id 65536: found one beyond u16, wanted at most 65535: use --as u32")
	assert.Equal(t, 2, exitCode(err))
}

// A disk that is full while ids are written is told once.
func TestAFullDiskIsToldOnce(t *testing.T) {
	full := errors.New("no space left")
	out := bufio.NewWriterSize(failing{full}, 16)
	w := idWriter{out: out}
	err := w.write(make([]int32, 100))
	require.ErrorIs(t, err, full)
	require.EqualError(t, flushed(out, err), full.Error())
	require.EqualError(t, flushed(out, nil), full.Error(), "what nobody has told yet")
	require.EqualError(t, flushed(out, io.ErrUnexpectedEOF), io.ErrUnexpectedEOF.Error()+"\n"+full.Error())
}

// failing is a writer that writes nothing.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Ids are arrays or stand between spaces; what is neither is an error that names its line.
func TestIDs(t *testing.T) {
	read := func(text string) (ids []int32, err error) {
		err = eachID(strings.NewReader(text), 1, func(id int32) error {
			ids = append(ids, id)
			return nil
		})
		return ids, err
	}
	for _, text := range []string{"[1, 2,3]", "1 2 3", " [ 1 ,2 , 3 ] \n", "[1]\n[2]\r\n[]\n[3]", "1\n2\t3\n\n", "[1,\n2,\n3]", "1 2\n[3]"} {
		ids, err := read(text)
		require.NoError(t, err, text)
		assert.Equal(t, []int32{1, 2, 3}, ids, text)
	}
	for text, want := range map[string]string{
		"[": "line 1: found the end in an array", "1\n[1": "line 2: found the end in an array", "[1,]": "line 1: found ']' after a comma", "[1][2]": "line 1: found '[' after ]",
		"[1] 2": "line 1: found '2' after ]", "1 [2]": "line 1: found '[' after an id", "1, 2": "line 1: found ',' after an id", "[1 2]": "line 1: found '2' after an id in an array",
		"[,1]": "line 1: found ',' after [", "]": "line 1: found ']' at the beginning", "[[1]]": "line 1: found '[' after [", "3\n4 x5": `line 2: found "x5"`,
		"[1.5]": `found "1.5"`, "2147483648": `found "2147483648"`, strings.Repeat("7", 100): `found "77777777777777777777"`, strings.Repeat("[", 1<<20): "line 1: found '[' after [",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, want, "%.20s", text)
		assert.ErrorContains(t, err, "wanted ids: [1, 2] or 1 2")
		assert.Equal(t, 2, exitCode(err))
	}
}

// A line ends with a newline, which a carriage return may stand before.
func TestLines(t *testing.T) {
	var got []string
	require.NoError(t, eachLine(strings.NewReader("a\r\n\nb \r c\n\rd"), func(number int, line string) error {
		got = append(got, fmt.Sprint(number, line))
		return nil
	}))
	assert.Equal(t, []string{"1a", "2", "3b \r c", "4\rd"}, got)
	err := eachLine(io.MultiReader(strings.NewReader("a\n"), zeros{}), func(int, string) error { return nil })
	assert.ErrorContains(t, err, "tokenize: line 2: found more than 67108864 bytes")
}

// zeros is a device that never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// What is wrong with the command line of tokenize train is told before a text is read, as wrong usage.
func TestTokenizeTrainUsage(t *testing.T) {
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "file"), filepath.Join(dir, "empty")
	require.NoError(t, errors.Join(os.WriteFile(file, []byte("a text\n"), 0o666), os.WriteFile(empty, nil, 0o666)))
	good := trainTokenizeCmd{Tokenizer: filepath.Join(dir, "t"), Text: []string{file}, VocabSize: 300, Pattern: "gpt2", MinFrequency: 2}
	for want, change := range map[string]func(c *trainTokenizeCmd){
		"file is a file: wanted a directory, or a name that ends with .json": func(c *trainTokenizeCmd) { c.Tokenizer = file },
		"/dev/full is a file: wanted a directory":                            func(c *trainTokenizeCmd) { c.Tokenizer = "/dev/full" },
		"file/t.json: not a directory":                                       func(c *trainTokenizeCmd) { c.Tokenizer = file + "/t.json" },
		"found 0 tokens, wanted 256":                                         func(c *trainTokenizeCmd) { c.VocabSize = 0 },
		`pattern "(": `:                                                      func(c *trainTokenizeCmd) { c.Pattern = "(" },
		"found an empty one":                                                 func(c *trainTokenizeCmd) { c.Special = []string{""} },
		`text "/dev/zero": is a device`:                                      func(c *trainTokenizeCmd) { c.Text = []string{"/dev/zero"} },
		"is a directory, want a file":                                        func(c *trainTokenizeCmd) { c.Text = []string{dir} },
		"tokenizer: train: found no text, wanted some":                       func(c *trainTokenizeCmd) { c.Text = []string{empty, empty} },
	} {
		c := good
		change(&c)
		err := c.Run(t.Context())
		require.ErrorContains(t, err, want)
		assert.Equal(t, 2, exitCode(err), want)
	}
	require.NoError(t, good.Run(t.Context()))
	assert.ErrorContains(t, good.Run(t.Context()), "tokenizer.json is there already: wanted a path that is free")
}
