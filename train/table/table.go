// Package table has the numbers of metrics.jsonl by name, and keeps them in an index beside it, so that a run of a million steps is read as fast as
// one of a thousand.
//
// What a line means is not known here: every number of it, but its step, is a point of the series of its name, the n-th number of an array one of
// the series name.n, and one that stands under a key of an object one of name.key. A run that measures more is shown without a change.
//
// What holds:
//
//  1. metrics.jsonl is the truth. The index is a cache: who deletes it loses time, not figures. The process that trains writes it, and all read it.
//  2. An index is blocks of 4,096 lines, each written once with checksums, and only then is a part of it. What a kill has cut short is left out, and so
//     are lines that do not fill a block: they are read from metrics.jsonl.
//  3. A block holds as long as its last line stands in metrics.jsonl where it stood. From the first on that does not hold the lines are read.
//  4. In memory are the headers of blocks and the lines behind them. The columns of a block are read when somebody asks for them.
//  5. Beside each column are strips of it, a fifteenth of its bytes: extremes and means of 256 points each. A picture of a long run is made of these.
package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// File is the name of the index, beside metrics.jsonl.
const File = "metrics.columns"

// blockLines is the number of lines of a block: of those, 2 MB and 15 ms to read, a reader has no columns at most.
const blockLines = 4096

// stepMS is the series of the time that a step took.
const stepMS = "step_ms"

// axes are what points stand over.
var axes = []string{"step", "tokens", "time"}

// Table is the numbers of a log.
type Table struct {
	blocks []*header
	tail   block // the lines behind them
	names  []string
	loaded *os.File                 // whose blocks came first
	store  func() (*os.File, error) // makes the file of the others
	file   *os.File
	at     int64 // its end
	failed bool  // it takes no blocks: they stay in memory
}

// Column is the points of a series in a block: their lines in it, and their values. It can be read into again.
type Column struct {
	Line  []int32
	Value []float64
	raw   []byte
}

// block is lines in memory.
type block struct {
	steps  []float64 // of each line
	tokens []float64 // seen in training up to the line
	time   []float64 // in steps, in seconds, up to the line
	names  []string  // of the series, in the order in which they came
	series map[string]*series
	header
}

// series is the points of one name: the line each comes from, and its value.
type series struct {
	line  []int32
	value []float64
}

// New is a table without lines. store makes the file of full blocks, once there is one.
func New(store func() (*os.File, error)) *Table { return &Table{store: store} }

// Temporary makes a file for the blocks of who only reads a log.
func Temporary() (*os.File, error) {
	f, err := os.CreateTemp("", "gputrain-columns-*")
	if err == nil {
		_ = os.Remove(f.Name()) // where the system has it so: a process that is killed leaves nothing
	}
	return f, err
}

// Close closes the files of the blocks.
func (t *Table) Close() (err error) {
	if t.loaded != nil {
		err = t.loaded.Close()
	}
	if t.file != nil && t.file != t.loaded {
		err = errors.Join(err, t.file.Close())
	}
	return err
}

// Load takes from an index all blocks that still hold of a log. The table has no lines yet, and closes the index.
func (t *Table) Load(log io.ReaderAt, index *os.File) {
	t.loaded = index
	info, err := index.Stat()
	head := make([]byte, len(magic))
	if err != nil {
		return
	}
	if _, err := index.ReadAt(head, 0); err != nil || !Known(head) {
		return
	}
	at, end := int64(len(magic)), int64(0)
	for {
		h, err := readHeader(index, at, info.Size())
		if err != nil || h.End-h.Length < end || !h.In(log) {
			break
		}
		t.blocks = append(t.blocks, h)
		at, end = h.end(), h.End
	}
	t.begin()
}

// Resume loads what an index has of the lines up to a step, cuts off what is behind, and has further blocks written there.
func (t *Table) Resume(log io.ReaderAt, index *os.File, step int64) error {
	t.Load(log, index)
	for n := len(t.blocks); n > 0 && t.blocks[n-1].Step > float64(step); n-- {
		t.blocks = t.blocks[:n-1]
	}
	t.begin()
	if n := len(t.blocks); n > 0 {
		t.file, t.at = index, t.blocks[n-1].end()
		return index.Truncate(t.at)
	}
	return t.open(index)
}

// open begins the file of blocks.
func (t *Table) open(file *os.File) error {
	err := file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(magic), 0)
	}
	t.file, t.at = file, int64(len(magic))
	return err
}

// begin begins a tail behind the blocks.
func (t *Table) begin() {
	t.tail = block{series: map[string]*series{}}
	t.names = nil
	seen := map[string]bool{}
	for _, h := range t.blocks {
		for _, c := range h.Columns[len(axes):] {
			if !seen[c.Name] {
				t.names, seen[c.Name] = append(t.names, c.Name), true
			}
		}
	}
	if n := len(t.blocks); n > 0 {
		before := t.blocks[n-1]
		t.tail.header = header{Mark: Mark{End: before.End}, Step: before.Step, LastTraining: before.LastTraining, Eval: before.Eval}
	}
}

// Add takes a line that lies at an offset of the log and has a length; the first bytes of it are enough. bad says what is wrong with it: nothing is taken
// of it then but its place. err is of the file of blocks; the line is taken.
func (t *Table) Add(line []byte, offset, length int64) (bad, err error) {
	tokens, seconds := 0.0, 0.0
	if n := len(t.blocks); n > 0 {
		tokens, seconds = t.blocks[n-1].axis(1).Last.float(), t.blocks[n-1].axis(2).Last.float()
	}
	if t.tail.series == nil {
		t.begin()
	}
	before := len(t.tail.names)
	if bad = t.tail.add(line, offset, length, tokens, seconds); len(t.tail.names) > before {
		t.addNames()
	}
	if t.tail.Lines >= blockLines && !t.failed {
		err = t.seal()
		t.failed = err != nil
	}
	return bad, err
}

// seal writes the tail as a block.
func (t *Table) seal() error {
	if t.file == nil {
		file, err := t.store()
		if err == nil {
			err = t.open(file)
		}
		if err != nil {
			return fmt.Errorf("table: %w", err)
		}
	}
	h, err := t.tail.write(t.file, t.at)
	if err != nil {
		return fmt.Errorf("table: %w", err)
	}
	names := t.names
	t.blocks, t.at = append(t.blocks, h), h.end()
	t.begin()
	t.names = names
	return nil
}

// add takes a line, before which are these tokens and seconds.
func (b *block) add(line []byte, offset, length int64, tokens, seconds float64) error {
	n := b.Lines
	if n > 0 {
		tokens, seconds = b.tokens[n-1], b.time[n-1]
	}
	b.Mark = b.Join(MarkOf(line, offset, length))
	at, err := stepOf(line)
	if err == nil && (!(at >= b.Step) || math.IsInf(at, 0)) {
		err = fmt.Errorf("found step %v, wanted one that is not below %v", at, b.Step)
	}
	if err == nil {
		before, eval := b.Step, false
		b.Step = at
		for name, v := range numbers(line) {
			switch {
			case string(name) == "step":
				continue
			case string(name) == "tokens" && v >= tokens:
				tokens = v
			case string(name) == stepMS && v >= 0 && !math.IsInf(v, 0):
				seconds += v / 1000 * max(1, at-before)
			case string(name) == "eval_loss":
				eval = true
			}
			s := b.series[string(name)]
			if s == nil {
				s = &series{}
				b.series[string(name)] = s
				b.names = append(b.names, string(name))
			}
			s.line, s.value = append(s.line, int32(n)), append(s.value, v)
		}
		if eval {
			b.Eval = [2]int64{offset, length}
		} else {
			b.LastTraining = int64(at)
		}
	} else if len(bytes.TrimSpace(line)) > 0 {
		b.Damaged = append(b.Damaged, n)
	}
	b.steps, b.tokens, b.time = append(b.steps, b.Step), append(b.tokens, tokens), append(b.time, seconds)
	return err
}
