package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"gputrain/cmd/gputrain/follow"
)

// list is a file of JSON objects, one a line, of which only places and steps are remembered: samples, histograms, sessions.
type list struct {
	lines follow.Lines
	items []item
}

// item is where a line stands and what it is chosen by.
type item struct {
	from, to int64
	step     int64
	name     string // of a histogram
}

// poll says whether anything came or went.
func (l *list) poll(root *os.Root) (changed bool, err error) {
	var first error
	err = l.lines.Poll(root, func(keep int) {
		l.items, changed = l.items[:keep], true
	}, func(line []byte, offset, _ int64) {
		var head struct {
			Step int64  `json:"step"`
			Name string `json:"name"`
		}
		if err := json.Unmarshal(line, &head); err != nil && first == nil {
			first = fmt.Errorf("%s: line %d: %w", l.lines.Name, len(l.items)+1, err)
		}
		l.items, changed = append(l.items, item{offset, offset + int64(len(line)), head.Step, head.Name}), true
	})
	if err == nil {
		err = first
	}
	return changed, err
}

// read writes those items that take wants, at most so many evenly spread with the first and the last, as a JSON array.
func (l *list) read(root *os.Root, most int, want func(item) bool) ([]byte, error) {
	var chosen []item
	for _, i := range l.items {
		if want(i) {
			chosen = append(chosen, i)
		}
	}
	out := []byte{'['}
	for k, n := 0, min(most, len(chosen)); k < n; k++ {
		i := chosen[len(chosen)-1]
		if n > 1 {
			i = chosen[k*(len(chosen)-1)/(n-1)]
		}
		line, err := follow.At(root, l.lines.Name, i.from, i.to)
		if err != nil {
			return nil, err
		}
		if !json.Valid(line) { // cut back since it was found
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, bytes.TrimSpace(line)...)
	}
	return append(out, ']'), nil
}
