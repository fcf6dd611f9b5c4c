package train

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"gputrain/internal/stranger"
	"gputrain/train/table"
)

// readHistory reads metrics.jsonl of a run directory, of lines in its index their columns; damaged are the numbers of those that cannot be read. A directory
// without metrics has none.
func readHistory(dir string) (h *history, damaged []int, err error) {
	h = &history{}
	log, err := stranger.Open(filepath.Join(dir, metricsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	t := table.New(table.Temporary)
	defer t.Close()
	index, err := stranger.Open(filepath.Join(dir, columnsFile))
	if err == nil {
		t.Load(log, index)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	at := t.End()
	if _, err := log.Seek(at, io.SeekStart); err != nil {
		return nil, nil, err
	}
	err = eachLine(log, func(line []byte) error {
		offset := at
		at += int64(len(line))
		_, err := t.Add(line, offset, int64(len(line))) // what is damaged is told below
		return err
	})
	if err == nil {
		err = h.read(t)
	}
	return h, t.Damaged(), err
}

// read adds all lines of a table that can be read.
func (h *history) read(t *table.Table) error {
	before := 0
	damaged := t.Damaged()
	for block := range t.Blocks() {
		var c table.Column
		if err := t.ReadAxis(block, 0, &c); err != nil {
			return err
		}
		steps, evals := make([]Metrics, len(c.Value)), map[int32]*EvalMetrics{}
		for i, step := range c.Value {
			steps[i].Step = int64(step)
		}
		// Evaluations have this series, and no line of a step has.
		for _, name := range append([]string{"eval_loss"}, t.Names()...) {
			if has, _ := t.Has(block, name); !has {
				continue
			}
			if err := t.ReadSeries(block, name, &c); err != nil {
				return err
			}
			for i, line := range c.Line {
				if name == "eval_loss" && evals[line] == nil {
					evals[line] = &EvalMetrics{Step: steps[line].Step}
				}
				if e := evals[line]; e != nil {
					e.put(name, c.Value[i])
				} else {
					steps[line].put(name, c.Value[i])
				}
			}
		}
		for i, m := range steps {
			switch e := evals[int32(i)]; {
			case len(damaged) > 0 && damaged[0] == before+i+1:
				damaged = damaged[1:]
			case e != nil:
				h.evals = append(h.evals, *e)
			default:
				h.add(m)
			}
		}
		before += len(steps)
	}
	return nil
}

// put sets a number by its name in a table, of those that a report tells of.
func (m *Metrics) put(name string, v float64) {
	switch name {
	case "loss":
		m.Loss = Number(v)
	case "learning_rate":
		m.LearningRate = Number(v)
	case "grad_norm":
		m.GradNorm = Number(v)
	case "grad_norm_clipped":
		m.GradNormClipped = Number(v)
	case "tokens":
		m.Tokens = int64(v)
	case "epoch":
		m.Epoch = Number(v)
	case "skipped":
		m.Skipped = int64(v)
	case "tokens_per_second":
		m.TokensPerSecond = Number(v)
	case "padded_tokens_per_second":
		m.PaddedTokensPerSecond = Number(v)
	case "step_ms":
		m.StepMS = Number(v)
	case "data_wait_ms":
		m.DataWaitMS = Number(v)
	case "device_ms":
		m.DeviceMS = Number(v)
	case "mfu":
		m.MFU = Number(v)
	case "bubble":
		m.Bubble = Number(v)
	case "transfer":
		m.Transfer = Number(v)
	}
	switch family, key, _ := strings.Cut(name, "."); family {
	case "stage_busy": // in the order of the stages
		m.StageBusy = append(m.StageBusy, Number(v))
	case "pairs":
		putPair(&m.Pairs, key, v)
	}
}

// put is as that of Metrics.
func (e *EvalMetrics) put(name string, v float64) {
	switch name {
	case "eval_loss":
		e.Loss = Number(v)
	case "eval_tokens":
		e.Tokens = int64(v)
	case "eval_ms":
		e.MS = Number(v)
	}
	if family, key, _ := strings.Cut(name, "."); family == "eval_pairs" {
		putPair(&e.Pairs, key, v)
	}
}

func putPair(to *map[string]Number, key string, v float64) {
	if *to == nil {
		*to = map[string]Number{}
	}
	(*to)[key] = Number(v)
}
