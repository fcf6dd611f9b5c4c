package texts

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gputrain/internal/jsonline"
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
		line, err := jsonline.Read(in, limit)
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

// rowAt says which row of a file one is.
type rowAt struct {
	what   string // line or row
	number int
}

func (r rowAt) String() string { return fmt.Sprintf("%s %d", r.what, r.number) }

// eachRow parses the rows of a file, several at once, and takes what they say in their order. What parse says is wrong with one names it.
func eachRow[T any](ctx context.Context, file rowFile, parse func(at rowAt, row []byte) (T, error), take func(at rowAt, said T) error) error {
	type parsed struct {
		at   rowAt
		said T
	}
	var unread error
	all := func(yield func(rowRun) bool) { unread = file.read(yield) }
	err := ordered.Do(ctx, all, func(some rowRun) (rows []parsed, err error) {
		for i, row := range some.rows {
			if len(bytes.TrimSpace(row)) == 0 {
				continue
			}
			p := parsed{at: rowAt{file.row, some.first + i}}
			if p.said, err = parse(p.at, row); err != nil {
				return nil, fmt.Errorf("%v: %w", p.at, err)
			}
			rows = append(rows, p)
		}
		return rows, nil
	}, func(rows []parsed) error {
		for _, p := range rows {
			if err := take(p.at, p.said); err != nil {
				return err
			}
		}
		return nil
	})
	return cmp.Or(err, unread)
}

// useRows opens a file of rows, of which each has at most limit bytes, for use. An error names it.
func useRows(ctx context.Context, name string, from io.ReaderAt, size int64, limit int, use func(rowFile) error) error {
	file, err := rowsOf(ctx, name, from, size, limit)
	if err == nil {
		err = use(file)
	}
	if err != nil {
		return fmt.Errorf("data: jsonl %q: %w", name, err)
	}
	return nil
}

// file reads the documents of one file.
func (j *jsonl) file(ctx context.Context, name string, from io.ReaderAt, size int64) error {
	return useRows(ctx, name, from, size, j.limit, func(file rowFile) error {
		if err := among(file.columns, j.fields); err != nil {
			return err
		}
		documents, learn := j.documents, j.learn
		defer func() { j.files++ }()
		err := eachRow(ctx, file, j.row, func(_ rowAt, made []document) error { return j.add(made) })
		if n := j.documents - documents; err == nil && n > 0 && j.learn == learn {
			err = fmt.Errorf("no document has a label that counts: found %d documents of which nothing is to be learned", n)
		}
		return err
	})
}

// row is the documents of a row.
func (j *jsonl) row(at rowAt, row []byte) (made []document, err error) {
	if row = j.mended(row); j.group.read != nil {
		made, err = j.group.read(j, row)
	} else {
		made = make([]document, 1)
		made[0], err = j.document(row)
	}
	for i := range made {
		made[i].row = at.String()
	}
	if len(made) > 0 && j.apart.files > 0 {
		tokens := make([][]uint32, len(made))
		for i, d := range made {
			tokens[i] = d.tokens
		}
		made[0].sum = sumOf(tokens...)
	}
	if err == nil && j.rowDone != nil {
		j.rowDone()
	}
	return made, err
}
