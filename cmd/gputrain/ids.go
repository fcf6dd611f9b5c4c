package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// idReader reads ids: arrays, [1, 2], or with spaces between them, 1 2. A line has one array or none; one array may take several lines.
type idReader struct {
	in    *bufio.Reader
	line  int
	state idState
}

// idState is what an idReader has read last.
type idState int

const (
	lineBegun  idState = iota // nothing on this line
	bareID                    // an id outside an array
	arrayBegun                // [
	arrayID                   // an id in an array
	arrayComma                // , in an array
	arrayEnded                // ]
)

var errIDs = errors.New("wanted ids: [1, 2] or 1 2")

// next is the next id, or io.EOF.
func (r *idReader) next() (id int32, err error) {
	for {
		c, err := r.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && r.inArray():
			return 0, fmt.Errorf("line %d: found the end in an array, %w", r.line, errIDs)
		case err != nil:
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r':
			continue
		case '\n':
			if r.line++; !r.inArray() {
				r.state = lineBegun
			}
			continue
		}
		after, ok := r.after(c)
		if !ok {
			return 0, r.wrong(c)
		}
		if r.state = after; after == bareID || after == arrayID {
			return r.id(c)
		}
	}
}

func (r *idReader) inArray() bool {
	return r.state == arrayBegun || r.state == arrayID || r.state == arrayComma
}

// after is the state after a byte, where that may stand here.
func (r *idReader) after(c byte) (idState, bool) {
	switch c {
	case '[':
		return arrayBegun, r.state == lineBegun
	case ',':
		return arrayComma, r.state == arrayID
	case ']':
		return arrayEnded, r.state == arrayBegun || r.state == arrayID
	}
	if r.inArray() {
		return arrayID, r.state != arrayID
	}
	return bareID, r.state != arrayEnded
}

// id reads an id that begins with a byte.
func (r *idReader) id(first byte) (int32, error) {
	const most = 20
	word := []byte{first}
	for len(word) < most {
		c, err := r.in.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(" \t\r\n,[]", c) >= 0 {
			if err := r.in.UnreadByte(); err != nil {
				return 0, err
			}
			break
		}
		word = append(word, c)
	}
	id, err := strconv.ParseInt(string(word), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("line %d: found %q, %w", r.line, word, errIDs)
	}
	return int32(id), nil
}

// wrong says that a byte may not stand where it does.
func (r *idReader) wrong(c byte) error {
	where := map[idState]string{bareID: "after an id", arrayBegun: "after [", arrayID: "after an id in an array", arrayComma: "after a comma", arrayEnded: "after ]"}[r.state]
	if where == "" {
		where = "at the beginning"
	}
	return fmt.Errorf("line %d: found %q %s, %w", r.line, c, where, errIDs)
}
