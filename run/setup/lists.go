package setup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"gputrain/internal/jsonline"
	"gputrain/internal/stranger"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
)

// ListsHead is the first line of a file of lists, about all others. A file of another program may lack it.
type ListsHead struct {
	TopK        int     `json:"top_k"`
	Temperature float64 `json:"temperature,omitempty"` // what the logits were divided by; 0: it does not say
	Vocab       int     `json:"vocab,omitempty"`       // tokens of the teacher; 0: it does not say
	Tokenizer   string  `json:"tokenizer,omitempty"`   // fingerprint; "": bytes, or it does not say
}

// lists is a file with a line of JSON (model.TeacherList) for each row, in their order: for each token that is learned, the likeliest ids of a teacher with their
// log-probabilities. It is read a line at a time.
type lists struct {
	Head ListsHead
	path string
	file *os.File
	at   []int64 // where lines begin, and the last ends
	sum  []byte  // SHA-256 of the file
}

// mostLine bounds a line, in bytes.
const mostLine = 1 << 30

// openLists opens a file of lists.
func openLists(path string) (_ *lists, err error) {
	l := &lists{path: path}
	if l.file, err = stranger.OpenFile(path, os.O_RDONLY); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	sum, in, at := sha256.New(), bufio.NewReaderSize(l.file, 1<<20), int64(0)
	for number := 1; ; number++ {
		line, err := jsonline.Read(in, mostLine)
		last, head := errors.Is(err, io.EOF), false
		if last {
			err = nil
		}
		if err == nil && number == 1 {
			l.Head, head, err = headOf(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, number, err)
		}
		sum.Write(line)
		if !head && len(bytes.TrimSpace(line)) > 0 {
			l.at = append(l.at, at)
		}
		if at += int64(len(line)); last {
			break
		}
	}
	l.at, l.sum = append(l.at, at), sum.Sum(nil)
	for i := 0; l.Head.TopK == 0 && i < l.Count(); i++ { // the first row may have nothing to learn
		list, err := l.list(i)
		if err != nil {
			return nil, err
		}
		if len(list.IDs) > 0 {
			l.Head.TopK = len(list.IDs[0])
		}
	}
	if l.Head.TopK < 1 {
		return nil, fmt.Errorf("%s: found no ids, wanted lines such as %s", path, listExample)
	}
	return l, nil
}

const listExample = `{"ids": [[5, 7]], "logprobs": [[-0.1, -2.5]]}, with a list for each token that is learned`

// headOf reads the first line; false: it is the list of a row, or something else.
func headOf(line []byte) (h ListsHead, is bool, err error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(line, &keys) != nil || keys["top_k"] == nil || keys["ids"] != nil {
		return h, false, nil
	}
	if err = strictly(line, &h); err == nil && (h.TopK < 1 || h.Vocab < 0 || !(h.Temperature >= 0 && h.Temperature < 1e30)) {
		err = fmt.Errorf("found top_k %d, vocab %d, temperature %v, wanted numbers above 0", h.TopK, h.Vocab, h.Temperature)
	}
	return h, true, err
}

// strictly reads one value of JSON, and refuses unknown keys.
func strictly(line []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return stranger.Told(line, err)
	}
	return nil
}

// Close closes the file.
func (l *lists) Close() {
	if l != nil {
		_ = l.file.Close() // nothing was written
	}
}

// Count is the number of rows.
func (l *lists) Count() int { return len(l.at) - 1 }

// Fingerprint is the fingerprint of the file.
func (l *lists) Fingerprint() string { return "sha256:" + hex.EncodeToString(l.sum) }

// list reads the line of a row.
func (l *lists) list(row int) (list model.TeacherList, err error) {
	line := make([]byte, l.at[row+1]-l.at[row])
	if err = data.ReadBytes(l.file, line, l.at[row]); err == nil {
		err = strictly(line, &list)
	}
	if err != nil {
		return list, fmt.Errorf("row %d: %w, wanted %s", row+1, err, listExample)
	}
	return list, nil
}

// listsOf are lists for a network of so many tokens.
type listsOf struct {
	*lists
	vocab  int
	bucket bool
}

// check compares all lists with the rows of a text.
func (l listsOf) check(d *texts.Documents, context int) error {
	rows, err := d.Lines(context, func(line texts.Line) error {
		if line.Number >= int64(l.Count()) {
			return nil // which is told below
		}
		list, err := l.list(int(line.Number))
		if err != nil {
			return err
		}
		labels := slices.DeleteFunc(slices.Clone(line.Labels), func(label int32) bool { return label == data.Ignored })
		if err := list.Fill(model.TeacherInputs(len(labels), l.Head.TopK), 0, labels, l.vocab, l.bucket); err != nil {
			return fmt.Errorf("row %d: %w", line.Number+1, err)
		}
		return nil
	})
	if err == nil && rows != int64(l.Count()) {
		err = fmt.Errorf("found lists of %d rows, wanted %d, one for each row of data.jsonl", l.Count(), rows)
	}
	return err
}

// lay writes the lists of a piece of a row beside it.
func (l listsOf) lay(b *data.Batch, p texts.Piece) error {
	if b.Beside[model.InputTeacherIDs] == nil {
		if b.Beside == nil {
			b.Beside = map[string][]float32{}
		}
		for name, values := range model.TeacherInputs(len(b.Labels), l.Head.TopK) {
			b.Beside[name] = values
		}
	}
	list, err := l.list(int(p.Number))
	if err != nil {
		return err
	}
	n := p.Before + data.Counted(p.Labels)
	if n > len(list.IDs) || n > len(list.LogProbs) {
		return fmt.Errorf("row %d: found lists of %d tokens, wanted %d: the file has changed", p.Number+1, len(list.IDs), n)
	}
	list.IDs, list.LogProbs = list.IDs[p.Before:n], list.LogProbs[p.Before:n]
	if err := list.Fill(b.Beside, p.Row*(len(b.Labels)/b.Rows)+p.At, p.Labels, l.vocab, l.bucket); err != nil {
		return fmt.Errorf("row %d: %w", p.Number+1, err)
	}
	return nil
}
