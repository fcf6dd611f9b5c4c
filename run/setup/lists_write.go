package setup

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

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

// Write writes the lists of all rows, in their order.
func (t Teaching) Write(ctx context.Context, to io.Writer, rows *texts.Documents) error {
	out := bufio.NewWriterSize(to, 1<<20)
	head, err := json.Marshal(t.Head)
	if err != nil {
		return err
	}
	_, _ = out.Write(append(head, '\n')) // what fails, fails in Flush
	done, tokens := int64(0), int64(0)
	_, err = rows.Lines(t.Window, func(l texts.Line) error {
		line, n, err := t.line(ctx, l)
		if err != nil {
			return fmt.Errorf("row %d: %w", l.Number+1, err)
		}
		if done, tokens = done+1, tokens+int64(n); t.Tell != nil {
			t.Tell(done, tokens)
		}
		_, err = out.Write(line)
		return err
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// line is the line of a row, and how many of its tokens are learned.
func (t Teaching) line(ctx context.Context, l texts.Line) (line []byte, tokens int, err error) {
	last := len(l.Labels)
	for last > 0 && l.Labels[last-1] == data.Ignored {
		last--
	}
	if last > t.Window {
		return nil, 0, fmt.Errorf("found %d tokens before the last that is learned, wanted at most %d, as many as the teacher sees at once: data.long keep_start or keep_end cuts rows", last, t.Window)
	}
	var ids, logs []byte
	if last > 0 {
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
	return fmt.Appendf(nil, "{\"ids\": [%s], \"logprobs\": [%s]}\n", ids, logs), tokens, err
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
