package tokenizer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gputrain/internal/characters"
	"gputrain/internal/ordered"
)

// TrainConfig says how a byte-level vocabulary is made.
type TrainConfig struct {
	VocabSize    int      // tokens to end with: special ones, 256 bytes, then merges
	Pattern      string   // a regular expression whose matches are words; no merge crosses their ends. "": GPT-2's
	Special      []string // tokens of their own, which come first
	MinFrequency int64    // a pair that is rarer is not merged
	Progress     func(read int64)
}

// Trained is a vocabulary with its merges.
type Trained struct {
	Tokens []string // by id, in the alphabet that writes bytes as characters
	Merges [][2]int32
	config TrainConfig
}

// ErrNoText is that texts to learn from have not a byte.
var ErrNoText = errors.New("found no text, wanted some")

// Validate reports the first value that no vocabulary can be made by.
func (c TrainConfig) Validate() error {
	if _, err := c.checked(); err != nil {
		return fmt.Errorf("tokenizer: train: %w", err)
	}
	return nil
}

// checked is the pattern of a configuration, whose defaults it fills in.
func (c *TrainConfig) checked() (pattern, error) {
	if c.Pattern == "" {
		c.Pattern = wellKnown[0].text
	}
	switch least := 256 + len(c.Special); {
	case c.VocabSize < least || c.VocabSize >= maxID:
		return nil, fmt.Errorf("vocabulary: found %d tokens, wanted %d (the bytes and the special tokens) to %d", c.VocabSize, least, maxID-1)
	case c.MinFrequency < 0:
		return nil, fmt.Errorf("least frequency: found %d, wanted none below 0", c.MinFrequency)
	case slices.Contains(c.Special, ""):
		return nil, errors.New("special tokens: found an empty one, wanted a text")
	}
	for i, s := range c.Special {
		if !utf8.ValidString(s) || slices.Contains(c.Special[:i], s) {
			return nil, fmt.Errorf("special tokens: found %q twice, or not UTF-8; wanted each once", s)
		}
	}
	return newRegex(c.Pattern)
}

// Train makes a vocabulary of texts as Hugging Face's trainer does from files: of lines with their newlines, each cut into words. The most
// frequent pair of tokens is merged first, of equals the one with the smaller ids.
func Train(ctx context.Context, texts []io.Reader, c TrainConfig) (*Trained, error) {
	p, err := c.checked()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: train: %w", err)
	}
	counts, err := countWords(ctx, texts, p, c.Progress)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: train: %w", err)
	}
	t := newTrainer(c, counts)
	if err := t.run(ctx); err != nil {
		return nil, fmt.Errorf("tokenizer: train: %w", err)
	}
	return &Trained{Tokens: t.tokens, Merges: t.merges, config: c}, nil
}

// countWords counts the words of texts on all cores.
func countWords(ctx context.Context, texts []io.Reader, p pattern, progress func(int64)) (map[string]int64, error) {
	var unread error
	lines := func(yield func([]string) bool) { unread = readLines(texts, p, yield, progress) }
	counts := map[string]int64{}
	err := ordered.Do(ctx, lines, func(some []string) (map[string]int64, error) {
		own, may := map[string]int64{}, newAllowance(0)
		for _, line := range some {
			if err := count(own, line, p, may); err != nil {
				return nil, err
			}
		}
		return own, nil
	}, func(own map[string]int64) error {
		for word, n := range own {
			counts[word] += n
		}
		return nil
	})
	if err == nil {
		err = cmp.Or(unread, context.Cause(ctx))
	}
	return counts, err
}

func count(counts map[string]int64, line string, p pattern, may *allowance) error {
	may.add(len(line))
	matches, err := p.matches(line, may)
	for _, m := range matches {
		if m.start < m.end {
			word := line[m.start:m.end]
			if n, ok := counts[word]; ok {
				counts[word] = n + 1
			} else {
				counts[strings.Clone(word)] = 1
			}
		}
	}
	return err
}

// Lines longer than pieceSize are cut, where the pattern allows it; of what cannot be cut longestPart bytes are held.
const (
	pieceSize   = 1 << 20
	longestPart = 16 << 20
)

// readLines hands on lines, with their newlines, or parts of long ones, some thousands at a time.
func readLines(texts []io.Reader, p pattern, yield func([]string) bool, progress func(int64)) error {
	_, known := p.(*scanner)
	read := int64(0)
	for i, text := range texts {
		r := lineReader{in: bufio.NewReaderSize(text, pieceSize), cuts: cuts{anywhere: known}}
		for last := false; !last; {
			var some []string
			for bytes := 0; bytes < pieceSize && !last; {
				line, err := r.next()
				if last = errors.Is(err, io.EOF); err != nil && !last {
					return fmt.Errorf("text %d: %w", i+1, err)
				}
				some, bytes = append(some, line), bytes+len(line)
			}
			if !yield(some) {
				return nil
			}
			if progress != nil {
				progress(read + r.at)
			}
		}
		read += r.at
	}
	if read == 0 {
		return ErrNoText
	}
	return nil
}

// lineReader reads lines, and long ones in parts that have the words of the whole.
type lineReader struct {
	in   *bufio.Reader
	cuts cuts
	rest []byte // of the line, read already
	at   int64  // bytes handed on
}

// next is a line with its newline, or a part of one; io.EOF comes with the last.
func (r *lineReader) next() (string, error) {
	line := r.rest
	looked := 0 // bytes that have no place to cut
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			r.rest = line[:0]
			return r.take(line, err)
		}
		if len(line) < max(pieceSize, 2*looked) {
			continue
		}
		if end := r.cuts.last(line); end > 0 {
			text, err := r.take(line[:end], nil)
			r.rest = append(line[:0], line[end:]...)
			return text, err
		}
		if looked = len(line); looked >= longestPart {
			return "", fmt.Errorf("byte %d: found %d bytes of a line in which the pattern leaves no place to cut it, wanted less than %d: break lines", r.at, looked, longestPart)
		}
	}
}

// take is what is handed on.
func (r *lineReader) take(line []byte, err error) (string, error) {
	text := string(line)
	if wrong := characters.Check(text, r.at); wrong != nil {
		err = wrong
	}
	r.at += int64(len(text))
	return text, err
}

// newTrainer begins with the special tokens, the bytes in the order of the characters that stand for them, and the words as bytes.
func newTrainer(c TrainConfig, counts map[string]int64) *trainer {
	t := &trainer{config: c, ids: map[string]int32{}}
	for _, s := range c.Special {
		t.add(s)
	}
	chars := slices.Clone(alphabet[:])
	slices.Sort(chars)
	for _, r := range chars {
		t.add(string(r))
	}
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		ids := make([]int32, len(word))
		for i := range len(word) {
			ids[i] = t.ids[string(alphabet[word[i]])]
		}
		t.words, t.counts = append(t.words, ids), append(t.counts, counts[word])
	}
	return t
}
