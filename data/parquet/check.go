package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// limits are how much of a file is held in memory.
type limits struct {
	footer int64 // bytes
	page   int64 // bytes of a page, unpacked
	values int64 // of a page
	row    int   // bytes of JSON
}

// usual are the limits of files: pages have a mebibyte where their writer is not told otherwise.
var usual = limits{footer: 256 << 20, page: 512 << 20, values: 1 << 26, row: 64 << 20}

// checkFooter reads what a file says of itself, and looks through it before the library takes memory for what it claims.
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
	if _, err := skim(footer, nil); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return nil
}

// headerWindow is how much of a page is read at first for its header.
const headerWindow = 1 << 10

// checkPages looks at the headers of a column's pages in a row group. The library unpacks all row groups as it does the first.
func (f *File) checkPages(group, column int) error {
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
		h, err := f.header(at, end)
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		body := at + h.length
		switch {
		case h.packed < 0 || body+h.packed > end:
			return fmt.Errorf("page at byte %d: %d bytes, the column has %d more", at, h.packed, end-body)
		case h.unpacked < 0 || h.unpacked > f.most.page:
			return fmt.Errorf("page at byte %d: %d bytes unpacked, wanted at most %d", at, h.unpacked, f.most.page)
		case h.values < 0 || h.values > f.most.values:
			return fmt.Errorf("page at byte %d: %d values, wanted at most %d", at, h.values, f.most.values)
		}
		if err := f.checkPacked(chunk.Codec, body+h.levels, h); err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		at = body + h.packed
	}
	return nil
}

// pageHeader is what counts of one.
type pageHeader struct {
	length, packed, unpacked, values int64
	levels                           int64 // bytes before those that are packed, in pages of the second form
}

// header reads the header of the page at a byte.
func (f *File) header(at, end int64) (h pageHeader, err error) {
	for window := int64(headerWindow); ; window *= 16 {
		raw := make([]byte, min(window, end-at))
		if _, err := f.from.ReadAt(raw, at); err != nil {
			return h, err
		}
		h = pageHeader{}
		n, err := skim(raw, func(path [2]int16, value int64) {
			switch path {
			case [2]int16{2, 0}:
				h.unpacked = value
			case [2]int16{3, 0}:
				h.packed = value
			case [2]int16{5, 1}, [2]int16{7, 1}, [2]int16{8, 1}:
				h.values = value
			case [2]int16{8, 5}, [2]int16{8, 6}:
				h.levels += value
			}
		})
		if err == nil {
			h.length = int64(n)
			return h, nil
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || int64(len(raw)) == end-at || window > f.most.page {
			return h, err
		}
	}
}

// checkPacked compares what a packed page says that it unpacks to with its header, as far as its packing says so.
func (f *File) checkPacked(codec format.CompressionCodec, at int64, h pageHeader) error {
	if codec != format.Snappy && codec != format.Zstd || h.levels < 0 || h.levels >= h.packed {
		return nil
	}
	begin := make([]byte, min(h.packed-h.levels, zstd.HeaderMaxSize))
	if _, err := f.from.ReadAt(begin, at); err != nil {
		return err
	}
	claims := int64(0)
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(begin)
		if err != nil {
			return err
		}
		claims = int64(n)
	case format.Zstd:
		var of zstd.Header
		if err := of.Decode(begin); err != nil {
			return err
		}
		if of.HasFCS {
			claims = int64(min(of.FrameContentSize, 1<<62))
		}
	}
	if claims > f.most.page {
		return fmt.Errorf("packed from %d bytes, wanted at most %d", claims, f.most.page)
	}
	return nil
}
