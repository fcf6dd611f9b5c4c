package parquet

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// all are the rows of a file, a line each.
func all(raw []byte, most limits) (string, error) {
	f, err := open(bytes.NewReader(raw), int64(len(raw)), most)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = f.Rows(func(row []byte) bool {
		out.Write(row)
		out.WriteByte('\n')
		return true
	})
	return out.String(), err
}

// Files that Arrow's library for Rust wrote, in three row groups, and the rows as the program that made them wrote them (testdata/make.mjs).
func TestFilesOfArrow(t *testing.T) {
	want, err := os.ReadFile("testdata/rows.jsonl")
	require.NoError(t, err)
	for _, name := range []string{"plain", "snappy", "gzip", "zstd"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		require.NoError(t, err)
		assert.True(t, Is(bytes.NewReader(raw)))
		got, err := all(raw, usual)
		require.NoError(t, err, name)
		assert.Equal(t, string(want), got, name)
		f, err := Open(bytes.NewReader(raw), int64(len(raw)))
		require.NoError(t, err)
		assert.Equal(t, []string{"text", "messages", "id", "score", "small", "half", "ok", "tags"}, f.Columns())
		assert.Len(t, f.file.RowGroups(), 3)
	}
}

// written is a file of rows, each of a struct.
func written[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[T](&out, options...)
	_, err := w.Write(rows)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

type kinds struct {
	Nested  []int32          `parquet:"nested"`
	Listed  []string         `parquet:"listed,list"`
	Mapped  map[string]*bool `parquet:"mapped"`
	Numbers map[int32]string `parquet:"numbers"`
	Inner   struct {
		Deep []struct {
			A *string `parquet:"a,optional"`
			B []int64 `parquet:"b,list"`
		} `parquet:"deep,list"`
	} `parquet:"inner"`
	JSON    string    `parquet:"json,json"`
	Raw     []byte    `parquet:"raw"`
	UUID    [16]byte  `parquet:"uuid,uuid"`
	Day     int32     `parquet:"day,date"`
	At      time.Time `parquet:"at,timestamp(microsecond)"`
	Price   int64     `parquet:"price,decimal(2:18)"`
	Big     uint64    `parquet:"big"`
	Float   float64   `parquet:"float"`
	Strings string    `parquet:"strings,enum"`
}

func TestKindsOfColumns(t *testing.T) {
	yes, text := true, "\"\\\x01\u00e9"
	one := kinds{
		Nested: []int32{1, -2}, Listed: []string{"", "b"}, Mapped: map[string]*bool{"k": &yes}, Numbers: map[int32]string{-7: "seven"},
		JSON: `[1, {"b": null}]`, Raw: []byte{0xff, 0}, UUID: [16]byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}, Day: -1,
		At: time.Unix(-1, 500_000_000), Price: -5, Big: math.MaxUint64, Float: math.Inf(1), Strings: "x",
	}
	one.Inner.Deep = []struct {
		A *string `parquet:"a,optional"`
		B []int64 `parquet:"b,list"`
	}{{&text, []int64{255}}, {}}
	two := kinds{JSON: "null", UUID: one.UUID, At: time.Unix(0, 0), Price: 12345, Float: 1e300, Raw: []byte("text")}
	got, err := all(written(t, []kinds{one, two}), usual)
	require.NoError(t, err)
	want := []string{
		`{"nested": [1, -2], "listed": ["", "b"], "mapped": {"k": true}, "numbers": {"-7": "seven"}, "inner": {"deep": [{"a": "\"\\\u0001é", "b": [255]}, {"b": []}]}, ` +
			`"json": [1, {"b": null}], "raw": "/wA=", "uuid": "01234567-89ab-cdef-0123-456789abcdef", "day": "1969-12-31", "at": "1969-12-31T23:59:59.5Z", ` +
			`"price": -0.05, "big": 18446744073709551615, "strings": "x"}`,
		`{"nested": [], "listed": [], "mapped": {}, "numbers": {}, "inner": {"deep": []}, "raw": "text", "uuid": "01234567-89ab-cdef-0123-456789abcdef", ` +
			`"day": "1970-01-01", "at": "1970-01-01T00:00:00Z", "price": 123.45, "big": 0, "float": 1e+300, "strings": ""}`,
	}
	assert.Equal(t, want, strings.Split(strings.TrimSuffix(got, "\n"), "\n"))
}

type wide struct {
	Text string `parquet:"text"`
	N    int64  `parquet:"n"`
}

// A row longer than its limit, a page larger than its own and a file that is cut anywhere are errors. Who has enough
// rows gets no more.
func TestWhatIsRefused(t *testing.T) {
	rows := make([]wide, 3000)
	for i := range rows {
		rows[i] = wide{strings.Repeat("x", 100+i%7), int64(i)}
	}
	whole := written(t, rows, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(1000))
	for name, most := range map[string]limits{
		"row 1: longer than 50 bytes":     {usual.footer, usual.page, usual.values, 50},
		"bytes unpacked, wanted at most ": {usual.footer, 500, usual.values, usual.row},
		"values, wanted at most 9":        {usual.footer, usual.page, 9, usual.row},
	} {
		_, err := all(whole, most)
		assert.ErrorContains(t, err, name)
	}
	for n := 0; n < len(whole); n += 97 {
		_, err := all(whole[:n], usual)
		assert.ErrorContains(t, err, "parquet: ", "of the first %d bytes", n)
	}
	f, err := Open(bytes.NewReader(whole), int64(len(whole)))
	require.NoError(t, err)
	count := 0
	require.NoError(t, f.Rows(func([]byte) bool { count++; return count < 1500 }))
	assert.Equal(t, 1500, count, "two row groups")
}

func FuzzParquet(f *testing.F) {
	for _, name := range []string{"plain", "snappy", "gzip", "zstd"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add(written(f, []wide{{"a", 1}, {"b", 2}}))
	f.Add(written(f, []kinds{{JSON: "{}", UUID: [16]byte{1}}}, parquet.Compression(&parquet.Zstd)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		frugal.Parse(t, len(raw), func() {
			_, _ = all(raw, limits{footer: 1 << 16, page: 1 << 16, values: 1 << 12, row: 1 << 16}) // that it ends is what is wanted
		})
	})
}
