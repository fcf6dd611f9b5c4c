package texts

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gputrain/internal/ordered"
	"gputrain/run/data/texts/internal/parquet"
)

// maxRow is how many bytes of JSON the longest row has.
const maxRow = 64 << 20

// rowsAtOnce and mostAtOnce are how many bytes of rows, and rows, are read by one goroutine. Templates write more than they read.
const (
	rowsAtOnce = 256 << 10
	mostAtOnce = 256
)

// rowRun is some rows of a file, each a JSON object, from a number on.
type rowRun struct {
	first int
	rows  [][]byte
}

// rowFile is a file of rows.
type rowFile struct {
	row     string   // what one is in messages
	columns []string // of Parquet, where a row lacks those that are null; nil: each row says what it has
	read    func(yield func(rowRun) bool) error
}

// rowsOf tells what a file of rows is: Parquet, an array of JSON, or a JSON object a line; the last two may be compressed by gzip.
func rowsOf(ctx context.Context, name string, from io.ReaderAt, size int64, limit int) (rowFile, error) {
	if parquet.Is(from) || strings.HasSuffix(name, ".parquet") {
		file, err := parquet.Open(from, size)
		if err != nil {
			return rowFile{}, err
		}
		return rowFile{"row", file.Columns(), func(yield func(rowRun) bool) error {
			g := gathering{some: rowRun{first: 1}, yield: yield}
			defer func() { g.end() }()
			return file.Rows(func(row []byte) bool { return g.add(bytes.Clone(row)) })
		}}, nil
	}
	var r io.Reader = io.NewSectionReader(from, 0, size)
	packed := strings.HasSuffix(name, ".gz") || bytes.HasPrefix(headOf(from), []byte(gzipped))
	if packed {
		z, err := gzip.NewReader(r)
		if err != nil {
			return rowFile{}, err
		}
		r = z
	}
	in := bufio.NewReaderSize(r, 1<<20)
	if packed {
		head, _ := in.Peek(headBytes) // a shorter file is looked at as far as it goes, and one that cannot be read fails later
		if what := foreignRows(name, head); what != "" {
			return rowFile{}, fmt.Errorf("its content %s", what)
		}
	}
	if beginsArray(in) {
		return rowFile{"row", nil, func(yield func(rowRun) bool) error { return readArray(in, limit, yield) }}, nil
	}
	return rowFile{"line", nil, func(yield func(rowRun) bool) error { return readLines(in, limit, yield) }}, nil
}

// beginsArray tells whether an array is the first that stands in a file.
func beginsArray(in *bufio.Reader) bool {
	begin, _ := in.Peek(1 << 12) // a shorter file is looked at as far as it goes, and one that cannot be read fails later
	return bytes.HasPrefix(bytes.TrimLeft(begin, " \t\r\n"), []byte("["))
}

// gathering puts rows together until they are enough for a goroutine.
type gathering struct {
	some  rowRun
	size  int
	yield func(rowRun) bool
}

// add adds a row; false: nobody wants more.
func (g *gathering) add(row []byte) bool {
	g.some.rows, g.size = append(g.some.rows, row), g.size+len(row)
	return g.size < rowsAtOnce && len(g.some.rows) < mostAtOnce || g.end()
}

// end hands on what there is.
func (g *gathering) end() bool {
	some := g.some
	g.some, g.size = rowRun{first: some.first + len(some.rows)}, 0
	return g.yield(some)
}

// readLines hands on the lines of a file.
func readLines(in *bufio.Reader, limit int, yield func(rowRun) bool) error {
	g := gathering{some: rowRun{first: 1}, yield: yield}
	for number := 1; ; number++ {
		line, err := readLine(in, limit)
		last := errors.Is(err, io.EOF)
		switch {
		case err != nil && !last:
			g.end()
			return fmt.Errorf("line %d: %w", number, err)
		case !g.add(bytes.Clone(line)):
			return nil
		case last:
			g.end()
			return nil
		}
	}
}

// readLine returns the next line; with the last, which may lack its end, comes io.EOF.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(long)+len(part) > limit {
			return nil, fmt.Errorf("longer than %d bytes: is it JSON, one document a line?", limit)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
		case long == nil:
			return part, err
		default:
			return append(long, part...), err
		}
	}
}

// readArray hands on the elements of an array.
func readArray(in io.Reader, limit int, yield func(rowRun) bool) error {
	g, within := gathering{some: rowRun{first: 1}, yield: yield}, &bounded{r: in, limit: limit, left: limit}
	d := json.NewDecoder(within)
	number, err := 1, error(nil)
	for _, err = d.Token(); err == nil && d.More(); number++ { // the first is the bracket
		var row json.RawMessage
		within.left = limit
		if err = d.Decode(&row); err != nil {
			break
		}
		if !g.add(row) {
			return nil
		}
	}
	g.end()
	if err == nil {
		_, err = d.Token()
	}
	if errors.Is(err, io.EOF) { // within the array
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("row %d: %w", number, err)
	}
	var after json.RawMessage
	if err = d.Decode(&after); err == nil {
		err = fmt.Errorf("found %s after the array, wanted the end of the file", short(after))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// bounded is a reader that gives so many bytes for a row.
type bounded struct {
	r           io.Reader
	limit, left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("longer than %d bytes", b.limit)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// file reads the documents of one file.
func (j *jsonl) file(ctx context.Context, name string, from io.ReaderAt, size int64) error {
	file, err := rowsOf(ctx, name, from, size, j.limit)
	if err == nil {
		err = among(file.columns, j.fields)
	}
	if err != nil {
		return fmt.Errorf("data: jsonl %q: %w", name, err)
	}
	var unread error
	all := func(yield func(rowRun) bool) { unread = file.read(yield) }
	read := func(row []byte) ([]document, error) {
		d, err := j.document(row)
		return []document{d}, err
	}
	if j.group.read != nil {
		read = func(row []byte) ([]document, error) { return j.group.read(j, row) }
	}
	parse := func(some rowRun) ([]document, error) {
		var parsed []document
		for i, row := range some.rows {
			if len(bytes.TrimSpace(row)) == 0 {
				continue
			}
			number := some.first + i
			made, err := read(j.mended(row))
			if err != nil {
				return nil, fmt.Errorf("%s %d: %w", file.row, number, err)
			}
			for i := range made {
				made[i].row = fmt.Sprintf("%s %d", file.row, number)
			}
			parsed = append(parsed, made...)
			if j.rowDone != nil {
				j.rowDone()
			}
		}
		return parsed, nil
	}
	documents, learn := j.documents, j.learn
	defer func() { j.files++ }()
	if err = ordered.Do(ctx, all, parse, j.add); err == nil {
		err = unread
	}
	if n := j.documents - documents; err == nil && n > 0 && j.learn == learn {
		err = fmt.Errorf("no document has a label that counts: found %d documents of which nothing is to be learned", n)
	}
	if err != nil {
		return fmt.Errorf("data: jsonl %q: %w", name, err)
	}
	return nil
}
