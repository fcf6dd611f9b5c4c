package texts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/internal/placeholder"
	"gputrain/run/data"
)

// headBytes is how much of a file foreign looks at.
const headBytes = placeholder.HeadBytes

// headOf is the beginning of a file; a shorter one, or one that cannot be read, as far as it goes: who reads it says more.
func headOf(from io.ReaderAt) []byte {
	head := make([]byte, headBytes)
	n, _ := from.ReadAt(head, 0)
	return head[:n]
}

// compressions are how compressed files begin.
var compressions = []struct{ begins, kind string }{
	{gzipped, "gzip"},
	{"\x28\xb5\x2f\xfd", "zstd"},
	{"\xfd7zXZ\x00", "xz"},
	{"PK\x03\x04", "zip"},
	{"BZh", "bzip2"},
	{"\x04\x22\x4d\x18", "lz4"},
	{"7z\xbc\xaf\x27\x1c", "7z"},
	{"Rar!\x1a\x07", "rar"},
	{"\xff\x06\x00\x00sNaPpY", "snappy"},
}

const gzipped = "\x1f\x8b\x08"

// bzip2 is how its first block goes on behind the digit of its size, as text might begin with the letters before that.
const bzip2 = "1AY&SY"

// encodings are how other encodings of Unicode than UTF-8 mark themselves, the longer marks first.
var encodings = []struct {
	mark, kind string
	width      int
	text       int // the place of an ASCII character among its bytes
}{
	{"\xff\xfe\x00\x00", "UTF-32LE", 4, 0},
	{"\x00\x00\xfe\xff", "UTF-32BE", 4, 3},
	{"\xff\xfe", "UTF-16LE", 2, 0},
	{"\xfe\xff", "UTF-16BE", 2, 1},
}

// others are files that hold no rows of JSON, by how they begin.
var others = []struct{ begins, kind string }{
	{binMagic, "a token file, which data.text names with data.tokens u16 or u32"},
	{"%PDF-", "a PDF document"},
	{"SQLite format 3\x00", "a database of SQLite"},
	{"\x93NUMPY", "an array of numpy"},
	{"\x89HDF\r\n", "HDF5"},
	{"GGUF", "a model (GGUF)"},
}

// Foreign says of a file that begins with head why its text cannot be read, and what to do; "" where it can.
func Foreign(name string, head []byte) string {
	if what := foreign(name, head, "text"); what != "" {
		return what
	}
	if page := placeholder.What(head); page != "" && !bytes.HasPrefix(head, []byte("{")) && !slices.Contains(webNames, strings.ToLower(filepath.Ext(name))) {
		return page
	}
	return ""
}

// webNames are how files end that are web pages by right.
var webNames = []string{".html", ".htm", ".xhtml", ".shtml", ".php", ".tmpl", ".gohtml", ".vue", ".svelte", ".jsp", ".asp", ".aspx", ".md"}

// foreignRows is Foreign for rows.
func foreignRows(name string, head []byte) string {
	if what := foreign(name, head, "rows"); what != "" {
		return what
	}
	for _, o := range others {
		if strings.HasPrefix(string(head), o.begins) {
			return fmt.Sprintf("is %s, wanted JSON or Parquet", o.kind)
		}
	}
	begin := bytes.TrimLeft(head, " \t\r\n")
	if len(begin) == 0 || begin[0] == '{' || begin[0] == '[' {
		return ""
	}
	if ext := strings.ToLower(strings.TrimSuffix(filepath.Ext(name), ".gz")); ext == ".csv" || ext == ".tsv" {
		return "is a table of text (" + ext[1:] + "), wanted JSON or Parquet: datasets and pandas write both"
	}
	return placeholder.What(head)
}

// foreign is what is neither text nor rows.
func foreign(name string, head []byte, wanted string) string {
	text := string(head)
	for _, c := range compressions {
		if rest, ok := strings.CutPrefix(text, c.begins); ok && (c.kind != "bzip2" || len(rest) > 1 && strings.HasPrefix(rest[1:], bzip2)) {
			return fmt.Sprintf("is compressed (%s), and its bytes are no %s: unpack it first", c.kind, wanted)
		}
	}
	if kind := encodingOf(head); kind != "" {
		return fmt.Sprintf("is %s, wanted UTF-8: iconv -f %s -t UTF-8 %q > NEW converts it", kind, strings.TrimRight(kind, "LBE"), filepath.Base(name))
	}
	switch {
	case strings.HasPrefix(text, "ARROW1\x00\x00"), strings.HasPrefix(text, "FEA1"), arrowStream(head):
		return "is Arrow (Feather, or what datasets keeps), wanted Parquet or JSON in data.jsonl: to_parquet of datasets and pandas writes that"
	case strings.HasPrefix(text, "PAR1\x15") && wanted == "text":
		return "is Parquet, whose rows data.jsonl reads"
	}
	return ""
}

// encodingOf tells text in UTF-16 or UTF-32 by its mark, or by the zeros beside ASCII characters.
func encodingOf(head []byte) string {
	for _, e := range encodings {
		if strings.HasPrefix(string(head), e.mark) {
			return e.kind
		}
	}
	for _, e := range encodings {
		units := min(len(head)/e.width, 64)
		ascii := units >= 4
		for i, b := range head[:units*e.width] {
			if i%e.width == e.text {
				ascii = ascii && (b >= ' ' && b < 0x7f || b == '\t' || b == '\n' || b == '\r')
			} else {
				ascii = ascii && b == 0
			}
		}
		if ascii {
			return e.kind
		}
	}
	return ""
}

// arrowStream tells a stream of Arrow's messages: a mark, and the length of the first.
func arrowStream(head []byte) bool {
	if len(head) < 8 || binary.LittleEndian.Uint32(head) != 1<<32-1 {
		return false
	}
	n := binary.LittleEndian.Uint32(head[4:])
	return n > 0 && n < 1<<20 && n%8 == 0
}

// isText is the bytes of a file, or says why it is no text.
func isText(f file, from io.ReaderAt) (data.Stretch, error) {
	if what := Foreign(f.path, headOf(from)); what != "" {
		return data.Stretch{}, fmt.Errorf("data: text %q: %s", f.path, what)
	}
	if f.size >= binHeaderSize && hasMagic(from) {
		return data.Stretch{}, fmt.Errorf("data: text %q: is a token file, not text: set data.tokens to u16 or u32", f.path)
	}
	return bytesOf(f), nil
}

// isRows is the bytes of a file, or says why it holds no rows. What a compressed one holds is seen when it is read.
func isRows(f file, from io.ReaderAt) (data.Stretch, error) {
	if head := headOf(from); !bytes.HasPrefix(head, []byte(gzipped)) {
		if what := foreignRows(f.path, head); what != "" {
			return data.Stretch{}, fmt.Errorf("data: jsonl %q: %s", f.path, what)
		}
	}
	return bytesOf(f), nil
}

// noteRows says of files of text that they are called as rows are.
func (c *Corpus) noteRows(texts []textFile) {
	for _, t := range texts {
		if ext := strings.ToLower(filepath.Ext(t.path)); ext == ".jsonl" || ext == ".ndjson" {
			c.Notes = append(c.Notes, t.path+": is read as one text, braces and all; data.jsonl reads its lines as documents")
			return
		}
	}
}
