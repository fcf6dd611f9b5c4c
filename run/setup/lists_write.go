package setup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"gputrain/internal/atomicfile"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/rollout"
)

// Teaching says how a file of lists is written.
type Teaching struct {
	Head   ListsHead
	Window int // tokens that the teacher sees at most
	// Logits gives the logits of the token that follows each token of a window, as state.Model.EachLogits does.
	Logits func(ctx context.Context, window []int32, yield func(at int, logits []float32) error) error
	Tell   func(rows, tokens int64) // after each row; may be nil
}

// Write writes the lists of all rows, in their order, behind those that a part has already. After an error the lists so far are in it.
func (t Teaching) Write(ctx context.Context, to *atomicfile.Part, rows *texts.Documents) error {
	head, err := json.Marshal(t.Head)
	if err != nil {
		return err
	}
	head = append(head, '\n')
	if _, err := rows.Lines(t.Window, func(l texts.Line) error { return t.inside(l) }); err != nil {
		return err
	}
	there, size, err := listsIn(to.File, head)
	if err != nil {
		return err
	}
	if err := to.Cut(size); err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 1<<20)
	if size == 0 {
		_, _ = out.Write(head) // what fails, fails in Flush
	}
	done, tokens := int64(0), int64(0)
	_, err = rows.Lines(t.Window, func(l texts.Line) error {
		var line []byte
		n := data.Counted(l.Labels)
		if done >= there {
			if line, err = t.line(ctx, l); err != nil {
				return fmt.Errorf("row %d: %w", l.Number+1, err)
			}
		}
		if done, tokens = done+1, tokens+int64(n); t.Tell != nil {
			t.Tell(done, tokens)
		}
		_, err = out.Write(line)
		return err
	})
	return errors.Join(err, out.Flush())
}

// listsIn is how many lists a part has behind its first line, and how many bytes these take; what a killed process, or a machine that lost its power, has left
// behind them is none.
func listsIn(f *os.File, head []byte) (rows, size int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	in := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return max(0, rows-1), size, nil
		case err != nil:
			return 0, 0, err
		case rows == 0 && !bytes.Equal(line, head), rows > 0 && !json.Valid(line):
			return max(0, rows-1), size, nil
		}
		rows, size = rows+1, size+int64(len(line))
	}
}

// learnedOf is how many tokens of a row precede the end of what is learned of it.
func learnedOf(l texts.Line) int {
	last := len(l.Labels)
	for last > 0 && l.Labels[last-1] == data.Ignored {
		last--
	}
	return last
}

// inside refuses a row that the teacher does not see at once.
func (t Teaching) inside(l texts.Line) error {
	if last := learnedOf(l); last > t.Window {
		return fmt.Errorf("row %d: found %d tokens before the last that is learned, wanted at most %d, as many as the teacher sees at once: data.long keep_start or keep_end cuts rows", l.Number+1, last, t.Window)
	}
	return nil
}

// line is the line of a row.
func (t Teaching) line(ctx context.Context, l texts.Line) (line []byte, err error) {
	tokens := 0
	var ids, logs []byte
	if last := learnedOf(l); last > 0 {
		err = t.Logits(ctx, l.Tokens[:last], func(at int, logits []float32) error {
			if l.Labels[at] == data.Ignored {
				return nil
			}
			top := rollout.Likeliest(logits, t.Head.TopK)
			sum := logSum(logits, t.Head.Temperature)
			if tokens++; tokens > 1 {
				ids, logs = append(ids, ", "...), append(logs, ", "...)
			}
			ids, logs = append(ids, '['), append(logs, '[')
			for i, id := range top {
				if i > 0 {
					ids, logs = append(ids, ", "...), append(logs, ", "...)
				}
				ids = strconv.AppendInt(ids, int64(id), 10)
				logs = strconv.AppendFloat(logs, float64(logits[id])/t.Head.Temperature-sum, 'g', -1, 32)
			}
			ids, logs = append(ids, ']'), append(logs, ']')
			if math.IsNaN(sum) || math.IsInf(sum, 0) {
				return fmt.Errorf("token %d: found logits that are not finite", at+1)
			}
			return nil
		})
	}
	return fmt.Appendf(nil, "{\"ids\": [%s], \"logprobs\": [%s]}\n", ids, logs), err
}

// logSum is the logarithm of the sum of the exponentials of logits over a temperature.
func logSum(logits []float32, temperature float64) float64 {
	most, sum := math.Inf(-1), 0.0
	for _, v := range logits {
		most = max(most, float64(v)/temperature)
	}
	for _, v := range logits {
		sum += math.Exp(float64(v)/temperature - most)
	}
	return most + math.Log(sum)
}
