package parquet

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"

	"gputrain/internal/caught"
)

// rowsAtOnce is how many bytes of rows are handed on together.
const rowsAtOnce = 256 << 10

// bunch is some rows of a group.
type bunch struct {
	rows [][]byte
	err  error // after them
}

// Rows hands on all rows, in order, with the number of the first of them, from 1 on. Row groups are read several at once.
func (f *File) Rows(ctx context.Context, yield func(first int, rows [][]byte) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	running := make(chan chan bunch, runtime.GOMAXPROCS(0)-1)
	all.Go(func() {
		defer close(running)
		for index := range f.file.RowGroups() {
			out := make(chan bunch, 2)
			select {
			case running <- out:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				defer close(out)
				send := func(b bunch) error {
					select {
					case out <- b:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				if err := caught.Do(func() error { return f.group(index, send) }); err != nil {
					_ = send(bunch{err: err}) // it fails once nobody waits for it
				}
			})
		}
	})
	next := 1
	for group := range running {
		for b := range group {
			if len(b.rows) > 0 && !yield(next, b.rows) {
				return nil
			}
			next += len(b.rows)
			if b.err != nil {
				return said(fmt.Errorf("row %d: %w", next, b.err))
			}
		}
	}
	return context.Cause(ctx)
}

// group reads the rows of a row group.
func (f *File) group(index int, send func(bunch) error) (err error) {
	a := &assembler{most: f.most.row}
	defer func() {
		for _, c := range a.columns {
			if closed := c.close(); err == nil {
				err = closed
			}
		}
	}()
	group := f.file.RowGroups()[index]
	for i, chunk := range group.ColumnChunks() {
		name := f.leaves[i]
		if err := f.checkPages(index, i); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		a.columns = append(a.columns, &cursor{name: name, pages: chunk.Pages()})
	}
	var some bunch
	size := 0
	for range group.NumRows() {
		if some.err = caught.Do(func() error { return a.row(f.root) }); some.err != nil {
			return send(some)
		}
		some.rows, size = append(some.rows, bytes.Clone(a.out)), size+len(a.out)
		if size >= rowsAtOnce {
			if err := send(some); err != nil {
				return err
			}
			some, size = bunch{}, 0
		}
	}
	return send(some)
}
