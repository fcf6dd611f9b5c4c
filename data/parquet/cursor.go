package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// cursor goes through the values of a column in a row group.
type cursor struct {
	name   string
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	some   [256]parquet.Value
	i, n   int
}

// peek is the next value; nil: there is none.
func (c *cursor) peek() (*parquet.Value, error) {
	for c.i == c.n {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", c.name, err)
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.some[:])
		c.i, c.n = 0, n
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("column %q: %w", c.name, err)
		}
		if n == 0 { // what was read of a page lies in it
			parquet.Release(c.page)
			c.page, c.values = nil, nil
		}
	}
	return &c.some[c.i], nil
}

// next is peek, of a value that has to be there; it is then gone by.
func (c *cursor) next() (*parquet.Value, error) {
	v, err := c.peek()
	if err == nil && v == nil {
		err = fmt.Errorf("column %q: ends before its last row", c.name)
	}
	c.i++
	return v, err
}

func (c *cursor) close() error {
	if c.page != nil {
		parquet.Release(c.page)
	}
	return c.pages.Close()
}
