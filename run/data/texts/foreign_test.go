package texts

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
)

// wide is a text in units of 2 or 4 bytes.
func wide(text string, order binary.AppendByteOrder, width int) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		if width == 2 {
			out = order.AppendUint16(out, unit)
		} else {
			out = order.AppendUint32(out, uint32(unit))
		}
	}
	return string(out)
}

// A file that is neither text nor rows says what it is and what to do, whatever it is called.
func TestForeignFiles(t *testing.T) {
	const row = `{"text": "some words"}` + "\n"
	packed, err := os.ReadFile("internal/parquet/testdata/snappy.parquet")
	require.NoError(t, err)
	padding := strings.Repeat("\x01", 100)
	for _, c := range []struct{ name, content, both, text, rows string }{ // both: what text and rows say; else each
		{"a.zst", "\x28\xb5\x2f\xfd" + padding, "is compressed (zstd), and its bytes are no ", "", ""},
		{"a.xz", "\xfd7zXZ\x00" + padding, "is compressed (xz)", "", ""},
		{"a.jsonl", "BZh91AY&SY" + padding, "is compressed (bzip2)", "", ""},
		{"a.zip", "PK\x03\x04" + padding, "is compressed (zip)", "", ""},
		{"a.lz4", "\x04\x22\x4d\x18" + padding, "is compressed (lz4)", "", ""},
		{"gz.txt", squeeze(t, row), "", "is compressed (gzip), and its bytes are no text: unpack it first", "none"},
		{"twice.gz", squeeze(t, squeeze(t, row)), "is compressed (gzip)", "", "its content is compressed (gzip), and its bytes are no rows"},
		{"a.txt", wide("\ufeff"+row, binary.LittleEndian, 2), "is UTF-16LE, wanted UTF-8: iconv -f UTF-16 -t UTF-8 \"a.txt\"", "", ""},
		{"a.txt", wide("\ufeff"+row, binary.BigEndian, 2), "is UTF-16BE, wanted UTF-8", "", ""},
		{"a.txt", wide(row, binary.LittleEndian, 2), "is UTF-16LE", "", ""},
		{"a.txt", wide(row, binary.BigEndian, 2), "is UTF-16BE", "", ""},
		{"a.txt", wide("\ufeff"+row, binary.LittleEndian, 4), "is UTF-32LE", "", ""},
		{"a.txt", wide(row, binary.BigEndian, 4), "is UTF-32BE", "", ""},
		{"a.gz", squeeze(t, wide(row, binary.LittleEndian, 2)), "", "is compressed (gzip)", "its content is UTF-16LE"},
		{"a.arrow", "ARROW1\x00\x00" + padding, "is Arrow (Feather, or what datasets keeps), wanted Parquet or JSON in data.jsonl", "", ""},
		{"a.arrow", "\xff\xff\xff\xff\x10\x02\x00\x00" + padding, "is Arrow", "", ""},
		{"a.bin", string(packed), "", "is Parquet, whose rows data.jsonl reads", "none"},
		{"a.txt", "<!DOCTYPE html><html>", "found a web page", "", ""},
		{"a.html", "<!DOCTYPE html><html>", "", "none", "found a web page"},
		{"a.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 77\n", "found a Git LFS pointer, wanted a file of 77 bytes", "", ""},
		{"a.csv", "text,label\nwords of a row,1\n", "", "none", "is a table of text (csv), wanted JSON or Parquet"},
		{"a.pdf", "%PDF-1.7" + padding, "", "none", "is a PDF document, wanted JSON or Parquet"},
		{"a.bin", binMagic + padding, "", "is a token file", "is a token file, which data.text names"},
		{"a.txt", row, "none", "", ""},
		{"a.txt", "BZh and PARis are words, ARROW1 too", "", "none", "invalid character"},
		{"a.txt", "\x00\x01\x02\x03" + padding, "", "none", "invalid character"},
	} {
		root := tree(t, map[string]string{c.name: c.content})
		for kind, says := range map[string]string{"text": c.text, "rows": c.rows} {
			if says == "" {
				says = c.both
			}
			config := Config{Text: []string{root + "/" + c.name}, Context: 4}
			if kind == "rows" {
				config = Config{JSONL: config.Text, Context: 4, Format: formats.Fields}
			}
			corpus, err := Open(t.Context(), config)
			if says != "none" {
				assert.ErrorContains(t, err, says, "%s %s", kind, c.name)
				assert.ErrorContains(t, err, c.name)
				continue
			}
			if assert.NoError(t, err, "%s %s", kind, c.name) {
				assert.NoError(t, corpus.Close())
			}
		}
	}
}

// Rows that are read as text are told.
func TestRowsAsText(t *testing.T) {
	c := open(t, Config{Text: []string{tree(t, map[string]string{"a.jsonl": `{"text": "some words"}`}) + "/a.jsonl"}, Context: 4})
	assert.Regexp(t, "a.jsonl: is read as one text", strings.Join(c.Notes, "\n"))
}
