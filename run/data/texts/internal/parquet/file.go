// Package parquet reads the rows of Parquet files as JSON objects, as a line of a JSONL file has them.
//
// The columns of a row are the keys of its object, in the order of the file. Lists are arrays, structs objects, maps objects whose keys are text. A field of
// a struct that is null is left out: every struct of a column has all fields, and null is how a row says that it lacks one. A null in a list or a
// map is null. Text is text, a column that is said to hold JSON is that JSON, and bytes that are not text are base64. Dates and times are text as ISO 8601
// has it, and decimals are numbers with all their digits. JSON has no number that is not finite: NaN and the infinities are null.
//
// Rows are read one after the other, a page of each column at a time, so that memory does not grow with the file. Files
// come from strangers: what they claim to be long is compared with what is there before memory is taken, and a panic of
// the library is an error.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"gputrain/internal/caught"
)

// magic begins and ends a file.
const magic = "PAR1"

// Is tells whether a file begins as Parquet does.
func Is(r io.ReaderAt) bool {
	var begin [len(magic)]byte
	n, _ := r.ReadAt(begin[:], 0) // a shorter file is something else
	return string(begin[:n]) == magic
}

// file is one that is open.
type file struct {
	from   io.ReaderAt
	size   int64
	file   *parquet.File
	root   *node
	leaves []string // paths of columns
	most   limits
}

// Open reads how a file is made up.
func Open(r io.ReaderAt, size int64) (*file, error) { return open(r, size, usual) }

func open(r io.ReaderAt, size int64, most limits) (*file, error) {
	f := &file{from: r, size: size, most: most}
	err := caught.Do(func() (err error) {
		if err = checkFooter(r, size); err != nil {
			return err
		}
		f.file, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if err != nil {
			return err
		}
		f.root, err = f.nodeOf(f.file.Root())
		return err
	})
	return f, said(err)
}

// said is an error of this package; a panic is the library's, and says that the file is damaged.
func said(err error) error {
	var panicked *caught.Panic
	if errors.As(err, &panicked) {
		err = fmt.Errorf("damaged: %v", panicked.Value)
	}
	if err == nil || strings.HasPrefix(err.Error(), "parquet: ") {
		return err
	}
	return fmt.Errorf("parquet: %w", err)
}

// Columns are the names of the columns of a row.
func (f *file) Columns() []string {
	var names []string
	for _, child := range f.root.children {
		names = append(names, child.Name())
	}
	return names
}

// Rows hands on all rows, in order, until yield has enough. The next row overwrites what yield got.
func (f *file) Rows(yield func(row []byte) bool) error {
	number, more := 1, true
	for i, group := range f.file.RowGroups() {
		err := caught.Do(func() error {
			return f.group(i, group, func(row []byte) bool { number++; more = yield(row); return more })
		})
		if err != nil {
			return said(fmt.Errorf("row %d: %w", number, err))
		}
		if !more {
			break
		}
	}
	return nil
}

// group hands on the rows of a row group.
func (f *file) group(index int, group parquet.RowGroup, yield func(row []byte) bool) error {
	a := &assembler{most: f.most.row}
	for i, chunk := range group.ColumnChunks() {
		if err := f.checkPages(index, i); err != nil {
			return fmt.Errorf("column %q: %w", f.leaves[i], err)
		}
		from := parquet.NewColumnChunkValueReader(chunk)
		defer from.Close()
		a.columns = append(a.columns, &cursor{name: f.leaves[i], from: from})
	}
	for range group.NumRows() {
		a.out = a.out[:0]
		if a.body(f.root); a.err != nil || !yield(a.out) {
			return a.err
		}
	}
	return nil
}
