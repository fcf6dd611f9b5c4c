package table

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Axis is the number of an axis by its name: step, tokens or time.
func Axis(name string) (int, error) {
	if i := slices.Index(axes, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("x: found %q, wanted %s or %s", name, strings.Join(axes[:len(axes)-1], ", "), axes[len(axes)-1])
}

// Names are the names of the series, in the order in which they came.
func (t *Table) Names() []string { return t.names }

// Lines is the number of lines.
func (t *Table) Lines() int {
	n := t.tail.Lines
	for _, h := range t.blocks {
		n += h.Lines
	}
	return n
}

// End is how much of the log the lines take.
func (t *Table) End() int64 {
	if n := len(t.blocks); n > 0 && t.tail.Lines == 0 {
		return t.blocks[n-1].End
	}
	return t.tail.End
}

// Marks are the marks of the blocks, which all lines are in that a table has loaded.
func (t *Table) Marks() (marks []Mark) {
	for _, h := range t.blocks {
		marks = append(marks, h.Mark)
	}
	return marks
}

// Last says of the lines so far of which step the last one is, and the last of training, and where the last of an evaluation lies, and its length.
func (t *Table) Last() (step float64, training int64, eval [2]int64) {
	h := t.tail.header
	if n := len(t.blocks); n > 0 && t.tail.Lines == 0 {
		h = *t.blocks[n-1]
	}
	return h.Step, h.LastTraining, h.Eval
}

// Damaged are the numbers of the lines that cannot be read, from 1.
func (t *Table) Damaged() (numbers []int) {
	before := 1
	for i := range t.Blocks() {
		h := t.header(i)
		for _, place := range h.Damaged {
			numbers = append(numbers, before+place)
		}
		before += h.Lines
	}
	return numbers
}

// Blocks is the number of blocks, with the lines behind them as the last.
func (t *Table) Blocks() int {
	if t.tail.Lines == 0 {
		return len(t.blocks)
	}
	return len(t.blocks) + 1
}

func (t *Table) header(block int) *header {
	if block < len(t.blocks) {
		return t.blocks[block]
	}
	return &t.tail.header
}

// BlockLines is the number of lines of a block.
func (t *Table) BlockLines(block int) int { return t.header(block).Lines }

// Range is where the lines of a block begin and end on an axis.
func (t *Table) Range(block, axis int) (first, last float64) {
	if block < len(t.blocks) {
		c := t.blocks[block].axis(axis)
		return c.First.float(), c.Last.float()
	}
	values := t.tail.axis(axis)
	return values[0], values[len(values)-1]
}

func (b *block) axis(i int) []float64 { return [][]float64{b.steps, b.tokens, b.time}[i] }

// ReadAxis reads where each line of a block stands on an axis.
func (t *Table) ReadAxis(block, axis int, to *Column) error {
	if block < len(t.blocks) {
		h := t.blocks[block]
		return h.read(h.axis(axis), to)
	}
	to.Value = append(to.Value[:0], t.tail.axis(axis)...)
	return nil
}

// Has says whether a block has points of a series, and whether each has a time that its step took.
func (t *Table) Has(block int, name string) (has, timed bool) {
	if block < len(t.blocks) {
		c := t.blocks[block].series(name)
		return c != nil, c != nil && c.Timed
	}
	s := t.tail.series[name]
	return s != nil, s != nil && s.timed(t.tail.series[stepMS])
}

// ReadSeries reads the points of a series in a block.
func (t *Table) ReadSeries(block int, name string, to *Column) error {
	if block < len(t.blocks) {
		h := t.blocks[block]
		if c := h.series(name); c != nil {
			return h.read(c, to)
		}
	} else if s := t.tail.series[name]; s != nil {
		to.Line, to.Value = append(to.Line[:0], s.line...), append(to.Value[:0], s.value...)
		return nil
	}
	to.Line, to.Value = to.Line[:0], to.Value[:0]
	return nil
}

// Newest is the newest value of a series.
func (t *Table) Newest(name string) (float64, bool) {
	if s := t.tail.series[name]; s != nil {
		return s.value[len(s.value)-1], true
	}
	for i := len(t.blocks) - 1; i >= 0; i-- {
		if c := t.blocks[i].series(name); c != nil {
			return c.Last.float(), true
		}
	}
	return 0, false
}

// timed says whether each point has a time that its step took.
func (s *series) timed(took *series) bool {
	if took == nil {
		return false
	}
	at := 0
	for _, line := range s.line {
		for at < len(took.line) && took.line[at] < line {
			at++
		}
		if at == len(took.line) || took.line[at] != line || !(took.value[at] > 0) || math.IsInf(took.value[at], 0) {
			return false
		}
	}
	return true
}

// Rewind forgets all but the first lines, for those who read a log that another process has cut back. With an error nothing of the table holds.
func (t *Table) Rewind(keep int) error {
	before, tail := t.Lines()-t.tail.Lines, t.tail
	for n := len(t.blocks); before > keep; n = len(t.blocks) {
		last := t.blocks[n-1]
		before -= last.Lines
		t.blocks = t.blocks[:n-1]
		tail = block{series: map[string]*series{}}
		if before < keep {
			if err := tail.load(last); err != nil {
				return err
			}
		}
	}
	t.begin()
	if keep > before {
		tail.cut(keep - before)
		t.tail = tail
		t.addNames()
	}
	return nil
}

// addNames adds the names of the tail.
func (t *Table) addNames() {
	for _, name := range t.tail.names {
		if !slices.Contains(t.names, name) {
			t.names = append(t.names, name)
		}
	}
}

// load reads a whole block into memory.
func (b *block) load(h *header) error {
	for i, to := range []*[]float64{&b.steps, &b.tokens, &b.time} {
		var c Column
		if err := h.read(h.axis(i), &c); err != nil {
			return err
		}
		*to = c.Value
	}
	for i := range h.Columns[len(axes):] {
		c := &h.Columns[len(axes)+i]
		var of Column
		if err := h.read(c, &of); err != nil {
			return err
		}
		b.names = append(b.names, c.Name)
		b.series[c.Name] = &series{of.Line, of.Value}
	}
	b.header = *h
	b.Columns, b.file = nil, nil
	return nil
}

// cut forgets all but the first lines, of which there is one.
func (b *block) cut(keep int) {
	b.steps, b.tokens, b.time = b.steps[:keep], b.tokens[:keep], b.time[:keep]
	names := b.names[:0]
	for _, name := range b.names {
		s := b.series[name]
		n := sort.Search(len(s.line), func(i int) bool { return int(s.line[i]) >= keep })
		if s.line, s.value = s.line[:n], s.value[:n]; n == 0 {
			delete(b.series, name)
			continue
		}
		names = append(names, name)
	}
	b.names, b.Lines, b.Step = names, keep, b.steps[keep-1]
	n, _ := slices.BinarySearch(b.Damaged, keep)
	b.Damaged = b.Damaged[:n]
}
