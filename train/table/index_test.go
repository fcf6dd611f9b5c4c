package table

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made is a log of so many lines, with evaluations, values that are not finite, series that come late, and lines that cannot be read.
func made(lines int) (log []byte) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range lines {
		step := i + 1
		switch {
		case i%1000 == 999:
			log = fmt.Appendf(log, `{"step":%d,"eval_loss":%g,"eval_tokens":4096}`+"\n", step-1, random.Float64())
		case i == 5000:
			log = append(log, "\x00\x00{\n"...)
		case i%777 == 0:
			log = fmt.Appendf(log, `{"step":%d,"loss":"NaN","tokens":%d,"step_ms":%g}`+"\n", step, step*100, random.Float64())
		case i > 6000:
			log = fmt.Appendf(log, `{"step":%d,"loss":%g,"tokens":%d,"step_ms":%g,"late":%g,"skipped":1}`+"\n", step, random.Float64(), step*100, random.Float64(), float32(random.Float32()))
		default:
			log = fmt.Appendf(log, `{"step":%d,"loss":%g,"tokens":%d,"step_ms":%g}`+"\n", step, random.Float64(), step*100, random.Float64())
		}
	}
	return log
}

// rest adds the lines that a table does not have yet.
func rest(t *testing.T, tab *Table, log []byte) *Table {
	t.Helper()
	at := tab.End()
	for line := range bytes.Lines(log[at:]) {
		_, err := tab.Add(line, at, int64(len(line)))
		require.NoError(t, err)
		at += int64(len(line))
	}
	return tab
}

// all is everything that a table says: each series and axis over all lines.
func all(t *testing.T, tab *Table) string {
	t.Helper()
	step, training, eval := tab.Last()
	out := fmt.Appendln(nil, tab.Names(), tab.Lines(), tab.End(), tab.Damaged(), step, training, eval)
	var c Column
	put := func(before int) {
		for i, v := range c.Value {
			out = strconv.AppendInt(out, int64(before+int(c.Line[i])), 10)
			out = strconv.AppendUint(append(out, ' '), math.Float64bits(v), 16)
		}
	}
	for axis := range axes {
		for b := range tab.Blocks() {
			require.NoError(t, tab.ReadAxis(b, axis, &c))
			first, last := tab.Range(b, axis)
			require.Equal(t, []float64{c.Value[0], c.Value[len(c.Value)-1]}, []float64{first, last})
			for _, v := range c.Value {
				out = strconv.AppendUint(append(out, ' '), math.Float64bits(v), 16)
			}
		}
	}
	for _, name := range tab.Names() {
		newest, _ := tab.Newest(name)
		out = fmt.Appendln(out, name, newest)
		before := 0
		for b := range tab.Blocks() {
			require.NoError(t, tab.ReadSeries(b, name, &c))
			put(before)
			before += tab.header(b).Lines
		}
	}
	return string(out)
}

// index writes the index of a log as a run does.
func index(t *testing.T, path string, log []byte) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	require.NoError(t, err)
	tab := New(func() (*os.File, error) { return f, nil })
	rest(t, tab, log)
	require.Len(t, tab.blocks, bytes.Count(log, []byte("\n"))/blockLines)
	return f
}

// A table is the same with an index and without, whatever has become of the index: it is cut off anywhere, a byte of it is another, it is of another log.
func TestIndexIsACache(t *testing.T) {
	log := made(3*blockLines + 100)
	path := filepath.Join(t.TempDir(), File)
	require.NoError(t, index(t, path, log).Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, Known(whole))
	want := all(t, rest(t, New(Temporary), log))
	assert.Equal(t, []int{5001}, rest(t, New(Temporary), log).Damaged())

	random := rand.New(rand.NewPCG(3, 4))
	least := 3
	for round := range 30 {
		text, log, want := slices.Clone(whole), log, want
		switch {
		case round == 0:
		case round == 1:
			text = nil
		case round == 2: // a resumed run has written other lines
			log = slices.Concat(log[:len(log)/2], bytes.ReplaceAll(log[len(log)/2:], []byte(`"step_ms":0`), []byte(`"step_ms":1`)))
			want = all(t, rest(t, New(Temporary), log))
		case round%2 == 0:
			text = text[:random.IntN(len(text))]
		default:
			text[random.IntN(len(text))] ^= 1 << random.IntN(8)
		}
		require.NoError(t, os.WriteFile(path, text, 0o666))
		f, err := os.Open(path)
		require.NoError(t, err)
		tab := New(Temporary)
		tab.Load(bytes.NewReader(log), f)
		if round == 0 {
			require.Len(t, tab.blocks, 3)
		}
		least = min(least, len(tab.blocks))
		rest(t, tab, log)
		if damaged(tab) { // said by who reads it
			require.Equal(t, 1, round%2)
		} else {
			require.True(t, want == all(t, tab), "round %d", round)
		}
		require.NoError(t, tab.Close())
	}
	assert.Zero(t, least)
}

// damaged says whether a column is not as it was written.
func damaged(tab *Table) bool {
	for _, h := range tab.blocks {
		for i := range h.Columns {
			if h.read(&h.Columns[i], new(Column)) != nil {
				return true
			}
		}
	}
	for b := range tab.blocks {
		for _, name := range tab.Names() {
			if tab.ReadStrips(b, name, new(Strips)) != nil {
				return true
			}
		}
	}
	return false
}

// Strips are what their points say.
func TestStripsAreOfTheirPoints(t *testing.T) {
	tab := rest(t, New(Temporary), made(2*blockLines+100))
	defer tab.Close()
	var points, took Column
	var strips Strips
	for b := range tab.Blocks() {
		require.NoError(t, tab.ReadSeries(b, stepMS, &took))
		for _, name := range tab.Names() {
			require.NoError(t, tab.ReadSeries(b, name, &points))
			require.NoError(t, tab.ReadStrips(b, name, &strips))
			if b == len(tab.blocks) || len(points.Value) <= StripPoints {
				require.Empty(t, strips.Strip)
				continue
			}
			_, timed := tab.Has(b, name)
			require.Equal(t, name != "eval_loss" && name != "eval_tokens", timed, name)
			from := 0
			for _, s := range strips.Strip {
				var finite []float64
				sum, weighed, weights := 0.0, 0.0, 0.0
				bad := math.NaN()
				end := min(from+StripPoints, len(points.Value))
				for i := from; i < end; i++ {
					y := points.Value[i]
					if math.IsNaN(y) || math.IsInf(y, 0) {
						if math.IsNaN(bad) {
							bad = float64(points.Line[i])
						}
						continue
					}
					finite, sum = append(finite, y), sum+y
					if timed {
						w := took.Value[slices.Index(took.Line, points.Line[i])]
						weighed, weights = weighed+y*w, weights+w
					}
				}
				n := float64(len(finite))
				require.Equal(t, len(finite), s.Count)
				require.InDelta(t, sum/n, s.Mean, 1e-9*math.Abs(sum/n))
				if timed {
					require.InDelta(t, weighed/weights, s.TimedMean, 1e-9*math.Abs(weighed/weights))
					require.InDelta(t, weights/n, s.StepMS, 1e-9)
				}
				var values []float64
				last := int32(-1)
				for _, p := range s.Points {
					require.Greater(t, p.At, last)
					last = p.At
					require.Equal(t, math.Float64bits(points.Value[slices.Index(points.Line, p.At)]), math.Float64bits(p.Value))
					if p.Finite() {
						values = append(values, p.Value)
					} else {
						require.Equal(t, bad, float64(p.At))
						bad = math.NaN()
					}
				}
				require.True(t, math.IsNaN(bad), "the first that is not finite is there")
				require.Equal(t, []float64{finite[0], slices.Min(finite), slices.Max(finite), finite[len(finite)-1]}, []float64{values[0], slices.Min(values), slices.Max(values), values[len(values)-1]})
				from = end
			}
			require.Equal(t, len(points.Value), from)
		}
	}
}

// A run that resumes goes on with the index up to its step, and what it writes is what an undisturbed run has written.
func TestIndexOfAResumedRun(t *testing.T) {
	log := made(3*blockLines + 100)
	dir := t.TempDir()
	require.NoError(t, index(t, filepath.Join(dir, "whole"), log).Close())
	want, err := os.ReadFile(filepath.Join(dir, "whole"))
	require.NoError(t, err)
	for _, step := range []int{0, 10, blockLines, blockLines + 1, 2*blockLines + 7, 4 * blockLines} {
		path := filepath.Join(dir, "resumed")
		require.NoError(t, os.WriteFile(path, append(slices.Clone(want), "torn"...), 0o666))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		tab := New(Temporary)
		require.NoError(t, tab.Resume(bytes.NewReader(log), f, int64(step)))
		require.Len(t, tab.blocks, min(step/blockLines, 3))
		rest(t, tab, log)
		_, err = f.Seek(0, io.SeekStart)
		require.NoError(t, err)
		got, err := io.ReadAll(f)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "step %d", step)
		require.NoError(t, tab.Close())
	}
}

// A reader of a log that is cut back and written on has what stands there.
func TestRewind(t *testing.T) {
	log := made(2*blockLines + 100)
	ends := []int{0}
	for line := range bytes.Lines(log) {
		ends = append(ends, ends[len(ends)-1]+len(line))
	}
	random := rand.New(rand.NewPCG(5, 6))
	for _, keep := range []int{0, 1, 100, blockLines - 1, blockLines, blockLines + 1, 2*blockLines - 1, 2 * blockLines, 2*blockLines + 99, random.IntN(len(ends))} {
		tab := rest(t, New(Temporary), log)
		require.NoError(t, tab.Rewind(keep))
		for _, lines := range [][]byte{log[:ends[keep]], log} {
			at := ends[tab.Lines()]
			for line := range bytes.Lines(lines[at:]) {
				_, err := tab.Add(line, int64(at), int64(len(line)))
				require.NoError(t, err)
				at += len(line)
			}
			if keep > 0 || len(lines) > 0 {
				want := rest(t, New(Temporary), lines)
				require.Equal(t, want.Names(), tab.Names(), "keep %d", keep)
				require.Equal(t, want.Lines(), tab.Lines())
				require.Equal(t, want.Damaged(), tab.Damaged())
				for _, name := range want.Names() {
					a, _ := want.Newest(name)
					b, _ := tab.Newest(name)
					require.Equal(t, math.Float64bits(a), math.Float64bits(b))
				}
			}
		}
		require.NoError(t, tab.Close())
	}
}

// FuzzLoad: whatever lies under the name of an index, reading it ends, and gives what fits or nothing.
func FuzzLoad(f *testing.F) {
	log := made(blockLines)
	path := filepath.Join(f.TempDir(), File)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	require.NoError(f, err)
	tab := New(func() (*os.File, error) { return file, nil })
	at := int64(0)
	for line := range bytes.Lines(log) {
		_, err := tab.Add(line, at, int64(len(line)))
		require.NoError(f, err)
		at += int64(len(line))
	}
	whole, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(whole[len(magic):])
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), File)
		require.NoError(t, os.WriteFile(path, append([]byte(magic), raw...), 0o666))
		file, err := os.Open(path)
		require.NoError(t, err)
		tab := New(Temporary)
		tab.Load(bytes.NewReader(log), file)
		_ = damaged(tab)
		require.NoError(t, tab.Close())
	})
}
