package tokenizer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"gputrain/internal/caught"
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

func (c *TrainConfig) validate() error {
	if c.Pattern == "" {
		c.Pattern = wellKnown[0].text
	}
	switch least := 256 + len(c.Special); {
	case c.VocabSize < least || c.VocabSize >= maxID:
		return fmt.Errorf("vocabulary: found %d tokens, wanted %d (the bytes and the special tokens) to %d", c.VocabSize, least, maxID-1)
	case c.MinFrequency < 0:
		return fmt.Errorf("least frequency: found %d, wanted none below 0", c.MinFrequency)
	case slices.Contains(c.Special, ""):
		return errors.New("special tokens: found an empty one, wanted a text")
	}
	for i, s := range c.Special {
		if !utf8.ValidString(s) || slices.Contains(c.Special[:i], s) {
			return fmt.Errorf("special tokens: found %q twice, or not UTF-8; wanted each once", s)
		}
	}
	return nil
}

// Train makes a vocabulary of texts as Hugging Face's trainer does from files: of lines with their newlines, each cut into words. The most
// frequent pair of tokens is merged first, of equals the one with the smaller ids.
func Train(ctx context.Context, texts []io.Reader, c TrainConfig) (*Trained, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("tokenizer: train: %w", err)
	}
	p, err := newRegex(c.Pattern)
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := make(chan []string)
	var all sync.WaitGroup
	var lock sync.Mutex
	counts := map[string]int64{}
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			own := map[string]int64{}
			err := caught.Do(func() error {
				for some := range lines {
					for _, line := range some {
						if err := count(own, line, p); err != nil {
							return err
						}
					}
				}
				return nil
			})
			if err != nil {
				cancel(err)
			}
			lock.Lock()
			defer lock.Unlock()
			for word, n := range own {
				counts[word] += n
			}
		})
	}
	err := readLines(ctx, texts, lines, progress)
	close(lines)
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return counts, err
}

func count(counts map[string]int64, line string, p pattern) error {
	matches, err := p.matches(line)
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

// readLines hands on lines, with their newlines, a few thousand at a time.
func readLines(ctx context.Context, texts []io.Reader, lines chan<- []string, progress func(int64)) error {
	read := int64(0)
	for i, text := range texts {
		r, at := bufio.NewReaderSize(text, 1<<20), int64(0)
		for last := false; !last; {
			var some []string
			for bytes := 0; bytes < 1<<20 && !last; {
				line, err := r.ReadString('\n')
				if last = errors.Is(err, io.EOF); err != nil && !last {
					return err
				}
				if err := checkUTF8(line, at); err != nil {
					return fmt.Errorf("text %d: %w", i+1, err)
				}
				some, bytes, at = append(some, line), bytes+len(line), at+int64(len(line))
			}
			select {
			case lines <- some:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if progress != nil {
				progress(read + at)
			}
		}
		read += at
	}
	return nil
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
