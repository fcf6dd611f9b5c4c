package parquet

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// withFooter is a file of a body and a footer, which is said to have so many bytes.
func withFooter(body string, footer []byte, length uint32) []byte {
	raw := append([]byte(magic+body), footer...)
	return append(binary.LittleEndian.AppendUint32(raw, length), magic...)
}

// marshalled is a struct as files have it.
func marshalled(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := thrift.Marshal(&thrift.CompactProtocol{}, v)
	require.NoError(t, err)
	return raw
}

// text is the schema of a column of bytes.
func text(name string) format.SchemaElement {
	return format.SchemaElement{
		Name: name, Type: thrift.New(format.ByteArray), RepetitionType: thrift.New(format.Required),
	}
}

func group(children int32) format.SchemaElement {
	return format.SchemaElement{Name: "g", NumChildren: thrift.New(children), RepetitionType: thrift.New(format.Required)}
}

// crafted are files that say of themselves what is not so, in a few bytes, each with what its error says.
func crafted(t *testing.T) map[string][]byte {
	whole := func(footer []byte) []byte { return withFooter("", footer, uint32(len(footer))) }
	of := func(m format.FileMetaData) []byte { return whole(marshalled(t, m)) }
	// column is a file of one column in one row group, whose pages are a body.
	column := func(body []byte, change func(m *format.ColumnMetaData)) []byte {
		m := format.ColumnMetaData{
			Type: format.ByteArray, Encoding: []format.Encoding{format.Plain}, PathInSchema: []string{"a"}, NumValues: 1,
			TotalCompressedSize: int64(len(body)), TotalUncompressedSize: int64(len(body)), DataPageOffset: int64(len(magic)),
		}
		change(&m)
		footer := marshalled(t, format.FileMetaData{
			Version: 1, Schema: []format.SchemaElement{group(1), text("a")}, NumRows: 1,
			RowGroups: []format.RowGroup{{Columns: []format.ColumnChunk{{MetaData: m}}, NumRows: 1 << 40}},
		})
		return withFooter(string(body), footer, uint32(len(footer)))
	}
	page := func(h format.PageHeader, body string) []byte { return append(marshalled(t, h), body...) }
	dictionary := func(unpacked, packed, values int32, body string) []byte {
		return page(format.PageHeader{
			Type: format.DictionaryPage, UncompressedPageSize: unpacked, CompressedPageSize: packed,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: values, Encoding: format.Plain}),
		}, body)
	}
	plain := func(unpacked, packed int32, body string) []byte {
		return page(format.PageHeader{
			Type: format.DictionaryPage, UncompressedPageSize: unpacked, CompressedPageSize: packed,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1, Encoding: format.Plain}),
			DataPageHeaderV2:     thrift.New(format.DataPageHeaderV2{IsCompressed: thrift.New(false)}),
		}, body)
	}
	first := func(m *format.ColumnMetaData) { m.DictionaryPageOffset = int64(len(magic)) }
	packedBy := func(codec format.CompressionCodec) func(m *format.ColumnMetaData) {
		return func(m *format.ColumnMetaData) { first(m); m.Codec = codec }
	}
	const most = math.MaxInt32
	claim := string(binary.AppendUvarint(nil, most))
	deep, leaves := []format.SchemaElement{}, []format.SchemaElement{group(20_000)}
	for range 50_000 {
		deep = append(deep, group(1))
	}
	for range 20_000 {
		leaves = append(leaves, text("a"))
	}
	statistics := page(format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{Statistics: format.Statistics{MaxValue: []byte("xyz")}})}, "")
	at := bytes.Index(statistics, []byte("xyz"))
	return map[string][]byte{
		"a footer beyond the file":          withFooter("", []byte("\x15\x02\x00"), math.MaxUint32),
		"a list of 2^31 schema elements":    whole([]byte("\x15\x02\x19\xfc" + claim)),
		"a list of 2^31 row groups":         whole([]byte("\x15\x02\x19\x1c\x48\x01g\x15\x00\x00\x16\x00\x19\xfc" + claim)),
		"a text of 2^31 bytes":              whole([]byte("\x15\x02\x19\x1c\x48" + claim + "g")),
		"an unknown map of 2^31 structs":    whole([]byte("\x0b\xc8\x01" + claim + "\xcc\x00\x00")),
		"structs deep in one another":       whole(bytes.Repeat([]byte{0x1c}, 8<<20)),
		"lists deep in one another":         whole(append([]byte{0x09, 0xc8, 0x01, 0x19}, bytes.Repeat([]byte{0x19}, 8<<20)...)),
		"a schema that is deep":             of(format.FileMetaData{Version: 1, Schema: deep}),
		"a group that has itself":           of(format.FileMetaData{Version: 1, Schema: []format.SchemaElement{group(2), group(2), group(2)}}),
		"a group of -1 children":            of(format.FileMetaData{Version: 1, Schema: []format.SchemaElement{group(1), group(-1)}}),
		"row groups without columns":        of(format.FileMetaData{Version: 1, Schema: leaves, RowGroups: make([]format.RowGroup, 20_000)}),
		"more rows than values":             column(nil, func(*format.ColumnMetaData) {}),
		"a column of negative size":         column(nil, func(m *format.ColumnMetaData) { m.TotalCompressedSize = -1 }),
		"a column before the file":          column(nil, func(m *format.ColumnMetaData) { m.DataPageOffset = math.MinInt64 }),
		"a column that ends past int64":     column(nil, func(m *format.ColumnMetaData) { m.DataPageOffset, m.TotalCompressedSize = 5, math.MaxInt64 }),
		"a page of 2^31 bytes":              column(dictionary(most, most, 1, ""), first),
		"a page of -1 bytes":                column(dictionary(1, -1, 1, ""), first),
		"a page that unpacks to 2^31":       column(dictionary(most, 3, 1, "abc"), packedBy(format.Gzip)),
		"a dictionary of 2^31 values":       column(dictionary(4, 4, most, "\x00\x00\x00\x00"), first),
		"a dictionary of -1 values":         column(dictionary(4, 4, -1, "\x00\x00\x00\x00"), first),
		"a dictionary of snappy's 4 GiB":    column(dictionary(10, 6, 1, "\xff\xff\xff\xff\x0f\x00"), packedBy(format.Snappy)),
		"a dictionary of zstd's 32 GiB":     column(dictionary(10, 16, 1, "\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00"), packedBy(format.Zstd)),
		"a packed page that says it is not": column(plain(10, 6, "\xff\xff\xff\xff\x0f\x00"), packedBy(format.Snappy)),
		"a statistic of 2^31 bytes":         column(append(append(statistics[:at-1:at-1], claim...), "xyz"...), func(*format.ColumnMetaData) {}),
		"a page header of nested structs":   column(bytes.Repeat([]byte{0x1c}, 8<<20), func(*format.ColumnMetaData) {}),
	}
}

// What a few bytes claim takes neither memory nor time: it is an error.
func TestCraftedFiles(t *testing.T) {
	for name, raw := range crafted(t) {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			frugal.Within(t, 256<<20, 0, 0, func() {
				rows, err := all(raw, usual)
				assert.Empty(t, rows)
				assert.ErrorContains(t, err, "parquet: ")
				t.Log(err)
			})
			assert.Less(t, time.Since(begun), 5*time.Second)
		})
	}
}
