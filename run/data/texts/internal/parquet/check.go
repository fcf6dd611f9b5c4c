package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The library takes memory for what a file claims, and reads unknown fields by recursion: a few bytes of a downloaded
// file would end the process, by no panic that can be caught. What it takes on trust is checked here (TestCraftedFiles).

// limits are how much of a file is held in memory.
type limits struct {
	footer int64 // bytes
	page   int64 // bytes of a page, unpacked
	values int64 // of a page
	row    int   // bytes of JSON
}

// usual are the limits of files: pages have a mebibyte where their writer is not told otherwise.
var usual = limits{footer: 256 << 20, page: 512 << 20, values: 1 << 26, row: 64 << 20}

// mostDepth is how deep structs and lists may stand in one another: those of Parquet stand seven deep.
const mostDepth = 32

// checkFooter reads what a file says of itself.
func checkFooter(r io.ReaderAt, size int64) error {
	const ends = len(magic) + 4
	if size < int64(len(magic)+ends) {
		return fmt.Errorf("%d bytes found, wanted a Parquet file, of %d or more", size, len(magic)+ends)
	}
	end := make([]byte, ends)
	if _, err := r.ReadAt(end, size-int64(ends)); err != nil {
		return err
	}
	if found := string(end[4:]); found != magic {
		return fmt.Errorf("found %q at the end, wanted %q: the file is cut off, encrypted or no Parquet", found, magic)
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if most := min(size-int64(len(magic)+ends), usual.footer); length > most {
		return fmt.Errorf("a footer of %d bytes, wanted at most %d", length, most)
	}
	footer := make([]byte, length)
	if _, err := r.ReadAt(footer, size-int64(ends)-length); err != nil {
		return err
	}
	var m format.FileMetaData
	if _, err := decode(footer, &m); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	var open []int32 // how many children the groups around an element still have
	leaves := 0
	for _, e := range m.Schema {
		if len(open) > parquet.MaxColumnDepth {
			return fmt.Errorf("columns stand more than %d deep in one another", parquet.MaxColumnDepth)
		}
		if e.Type.Valid {
			leaves++
		}
		if e.NumChildren.V > 0 {
			open = append(open, e.NumChildren.V)
			continue
		}
		for last := len(open) - 1; last >= 0; last-- {
			if open[last]--; open[last] > 0 {
				break
			}
			open = open[:last]
		}
	}
	for i, g := range m.RowGroups {
		if len(g.Columns) != leaves {
			return fmt.Errorf("row group %d: %d columns, the file has %d", i+1, len(g.Columns), leaves)
		}
	}
	return nil
}

// decode reads a struct of Thrift's compact protocol, and returns how many bytes it has.
func decode(raw []byte, to any) (int, error) {
	protocol := &thrift.CompactProtocol{}
	r := protocol.NewReaderFromBytes(raw)
	switch err := skim(r, thrift.STRUCT, len(raw), 0); {
	case errors.Is(err, io.EOF):
		return 0, io.ErrUnexpectedEOF
	case err != nil:
		return 0, err
	}
	return r.BytesRead(), thrift.NewDecoder(protocol.NewReaderFromBytes(raw)).Decode(to)
}

// skim goes over a value, and holds what a list claims to what is there.
func skim(r thrift.Reader, kind thrift.Type, size, depth int) (err error) {
	if depth > mostDepth {
		return fmt.Errorf("structs stand more than %d deep in one another", mostDepth)
	}
	var n int32
	var elements []thrift.Type
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8:
		_, err = r.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = r.ReadInt64()
	case thrift.DOUBLE:
		_, err = r.ReadFloat64()
	case thrift.BINARY:
		_, err = r.ReadBytes()
	case thrift.LIST, thrift.SET:
		var l thrift.List
		l, err = r.ReadList()
		n, elements = l.Size, []thrift.Type{l.Type}
	case thrift.MAP:
		var m thrift.Map
		m, err = r.ReadMap()
		n, elements = m.Size, []thrift.Type{m.Key, m.Value}
	case thrift.STRUCT:
		var f thrift.Field
		for f, err = r.ReadField(); err == nil && f != (thrift.Field{}); f, err = r.ReadField() {
			if f.Type == thrift.TRUE || f.Type == thrift.FALSE { // their type is all they have
				continue
			}
			if err = skim(r, f.Type, size, depth+1); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("byte %d: a field of type %d, wanted 1 to 12", r.BytesRead(), kind)
	}
	if err == nil && int(n) > size-r.BytesRead() {
		err = io.ErrUnexpectedEOF
	}
	for i := 0; i < int(n)*len(elements) && err == nil; i++ {
		err = skim(r, elements[i%len(elements)], size, depth+1)
	}
	return err
}

// headerWindow is how much of a page is read at first for its header.
const headerWindow = 1 << 10

// checkPages looks at the headers of a column's pages in a row group. The library unpacks all row groups as it does the first.
func (f *file) checkPages(group, column int) error {
	groups := f.file.Metadata().RowGroups
	chunk := &groups[group].Columns[column].MetaData
	if first := groups[0].Columns[column].MetaData.Codec; chunk.Codec != first {
		return fmt.Errorf("packed by %v, and in the first row group by %v: wanted one for all", chunk.Codec, first)
	}
	at := chunk.DataPageOffset
	if chunk.DictionaryPageOffset != 0 {
		at = chunk.DictionaryPageOffset
	}
	end := at + chunk.TotalCompressedSize
	if at < 0 || chunk.TotalCompressedSize < 0 || end > f.size || end < at {
		return fmt.Errorf("bytes [%d, %d) of %d", at, end, f.size)
	}
	for at < end {
		next, err := f.checkPage(chunk.Codec, at, end)
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		at = next
	}
	return nil
}

// checkPage looks at the page at a byte, and returns the byte behind it.
func (f *file) checkPage(codec format.CompressionCodec, at, end int64) (next int64, err error) {
	var h format.PageHeader
	for window := int64(headerWindow); ; window *= 16 {
		raw := make([]byte, min(window, end-at))
		if _, err := f.from.ReadAt(raw, at); err != nil {
			return 0, err
		}
		h = format.PageHeader{}
		n, err := decode(raw, &h)
		if err == nil {
			at += int64(n)
			break
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || int64(len(raw)) == end-at || window > f.most.page {
			return 0, err
		}
	}
	one, two, of := h.DataPageHeader.V, h.DataPageHeaderV2.V, h.DictionaryPageHeader.V
	packed, unpacked := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	switch next = at + packed; {
	case packed < 0 || next > end:
		return 0, fmt.Errorf("%d bytes, the column has %d more", packed, end-at)
	case unpacked < 0 || unpacked > f.most.page:
		return 0, fmt.Errorf("%d bytes unpacked, wanted at most %d", unpacked, f.most.page)
	}
	for _, values := range []int32{one.NumValues, two.NumValues, of.NumValues} {
		if values < 0 || int64(values) > f.most.values {
			return 0, fmt.Errorf("%d values, wanted at most %d", values, f.most.values)
		}
	}
	if h.Type == format.DataPageV2 {
		if is := two.IsCompressed; is.Valid && !is.V {
			return next, nil
		}
		at += int64(two.RepetitionLevelsByteLength) + int64(two.DefinitionLevelsByteLength)
	}
	if at < next {
		err = f.checkPacked(codec, at, next-at)
	}
	return next, err
}

// checkPacked looks at what packed bytes say that they unpack to, as far as their packing says so.
func (f *file) checkPacked(codec format.CompressionCodec, at, size int64) error {
	begin := make([]byte, min(size, zstd.HeaderMaxSize))
	if _, err := f.from.ReadAt(begin, at); err != nil {
		return err
	}
	claims := uint64(0)
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(begin)
		if err != nil {
			return err
		}
		claims = uint64(n)
	case format.Zstd:
		var of zstd.Header
		if err := of.Decode(begin); err != nil {
			return err
		}
		claims = of.FrameContentSize
	}
	if claims > uint64(f.most.page) {
		return fmt.Errorf("packed from %d bytes, wanted at most %d", claims, f.most.page)
	}
	return nil
}
