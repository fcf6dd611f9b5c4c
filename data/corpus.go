package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/exp/mmap"
)

// kinds are the values of Config.Tokens.
var kinds = []string{"bytes", "u16", "u32"}

// Config says which tokens to read.
type Config struct {
	// Text are file names or patterns (see [Open]); none is the built-in corpus,
	// the Go source of the toolchain at hand.
	Text []string
	// Tokens is how files become tokens: "bytes" (also ""), one a byte, vocabulary 256;
	// "u16", "u32", files of little-endian tokens, bare or after the header of bin.go.
	Tokens string
	// Vocab is the vocabulary of bare tokens: every id is below it. 0 is 65536 for
	// u16 and an error for u32. Text and files with a header know their own.
	Vocab int
	// Validation is the share of the tokens kept for validation, in [0, 1).
	Validation float64
	// Context is the length of a window; both parts must hold one and a token more.
	Context int
}

// Validate reports the first value that cannot be meant.
func (c Config) Validate() error {
	kind := c.kind()
	switch {
	case !slices.Contains(kinds, kind):
		return fmt.Errorf("data: tokens: %q, want one of %q", c.Tokens, kinds)
	case !(c.Validation >= 0 && c.Validation < 1):
		return fmt.Errorf("data: validation: %v, want a share in [0, 1)", c.Validation)
	case c.Context < 1:
		return fmt.Errorf("data: context: %d, want at least 1", c.Context)
	case c.Vocab < 0 || c.Vocab > 1<<31-1 || kind == "u16" && c.Vocab > 1<<16:
		return fmt.Errorf("data: vocab: %d: does not suit tokens %q", c.Vocab, kind)
	case len(c.Text) == 0 && kind != "bytes":
		return fmt.Errorf("data: text: none, want the files of the %q tokens", kind)
	}
	return nil
}

func (c Config) kind() string {
	if c.Tokens == "" {
		return "bytes"
	}
	return c.Tokens
}

// Corpus is what [Open] found. Close it when nothing reads from it any more.
type Corpus struct {
	Train      *Tokens
	Validation *Tokens // nil when Config.Validation is 0
	Name       string  // for people: "go source", or the patterns
	Tokens     string  // the kind in force
	Files      int
	Split      string // how validation was parted: "by file", "tail", "none"
	// Fingerprint is the SHA-256, in hexadecimal, of names, sizes and contents of
	// the files and of the split: a resumed run compares it.
	Fingerprint string

	maps []*mmap.ReaderAt
}

// Close unmaps the files.
func (c *Corpus) Close() error {
	var errs []error
	for _, m := range c.maps {
		errs = append(errs, m.Close())
	}
	c.maps = nil
	return errors.Join(errs...)
}

// Open finds, opens and splits the files of c. In patterns `*`, `?` and `[...]` stay
// inside one path element, `**` stands for any number of directories; files come
// in path order, each once. Errors name the pattern or the file: nothing there, a
// directory, unreadable, empty, too short for one window, a validation share that
// leaves one part less than a window, a token file that contradicts itself.
func Open(c Config) (*Corpus, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	files, name, err := c.find()
	if err != nil {
		return nil, err
	}
	corpus := &Corpus{Name: name, Tokens: c.kind(), Files: len(files)}
	if err := corpus.load(c, files); err != nil {
		corpus.Close()
		return nil, err
	}
	return corpus, nil
}

func (c Config) find() (files []file, name string, err error) {
	if len(c.Text) == 0 {
		files, err = goSource()
		return files, "Go source of the toolchain", err
	}
	files, err = findFiles(c.Text)
	if len(c.Text) == 1 {
		return files, c.Text[0], err
	}
	return files, fmt.Sprintf("%q", c.Text), err
}

func (c *Corpus) load(config Config, files []file) error {
	hash := sha256.New()
	fmt.Fprintf(hash, "gputrain data 1\n%s %d %v\n", c.Tokens, len(files), config.Validation)
	segments := make([]segment, 0, len(files))
	vocab := 0
	for _, f := range files {
		s, v, err := c.segment(config, f)
		if err != nil {
			return err
		}
		segments, vocab = append(segments, s), max(vocab, v)
		sum, err := contentHash(s, f.size)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%q %d %x\n", f.name, f.size, sum)
	}
	all := newTokens(vocab, segments)
	if all.Len() == 0 {
		return fmt.Errorf("data: text %s: empty: 0 bytes in %d files found, want at least %d", c.Name, len(files), config.Context+1)
	}
	if err := c.split(config, all, segments); err != nil {
		return err
	}
	fmt.Fprintf(hash, "%s %d\n", c.Split, c.Train.Len())
	c.Fingerprint = hex.EncodeToString(hash.Sum(nil))
	return nil
}

// segment opens one file and returns its tokens and their vocabulary.
func (c *Corpus) segment(config Config, f file) (segment, int, error) {
	if c.Tokens == "bytes" {
		s := segment{name: f.path, width: 1, count: f.size}
		err := c.attach(&s, f, f.size >= heapLimit)
		if err == nil && s.looksLikeTokens() {
			err = fmt.Errorf("data: text %q: is a token file, not text: set data.tokens to u16 or u32", f.path)
		}
		return s, 256, err
	}
	s := segment{name: f.path}
	if f.size == 0 {
		return s, 0, fmt.Errorf("data: tokens %q: 0 bytes: empty, want %s tokens", f.path, c.Tokens)
	}
	if err := c.attach(&s, f, true); err != nil {
		return s, 0, err
	}
	h, err := tokenHeader(s.bytes, f.size, c.width(), config.Vocab)
	if err != nil {
		return s, 0, fmt.Errorf("data: tokens %q: %w", f.path, err)
	}
	s.width, s.count, s.offset = h.width, h.count, h.offset
	return s, h.vocab, nil
}

// attach gives s the bytes of f: mapped, or in memory.
func (c *Corpus) attach(s *segment, f file, mapped bool) error {
	if mapped {
		m, err := mapFile(f)
		if err != nil {
			return err
		}
		c.maps = append(c.maps, m)
		s.bytes, s.mapped = m, true
		return nil
	}
	content := f.content
	if content == nil {
		var err error
		if content, err = os.ReadFile(f.path); err != nil {
			return fmt.Errorf("data: text %q: %w", f.path, err)
		}
	}
	if int64(len(content)) != f.size {
		return fmt.Errorf("data: text %q: %d bytes, was %d a moment ago", f.path, len(content), f.size)
	}
	s.bytes = bytes.NewReader(content)
	return nil
}

func (s segment) looksLikeTokens() bool {
	return s.count >= binHeaderSize && hasMagic(s.bytes)
}

// width is the number of bytes a token.
func (c *Corpus) width() int {
	return map[string]int{"bytes": 1, "u16": 2, "u32": 4}[c.Tokens]
}

// hashLimit is the size above which a file's content hash is a sample: the first,
// the last and evenly spaced blocks, so that a start does not read a terabyte.
const (
	hashLimit  = 1 << 30
	hashBlock  = 64 << 10
	hashBlocks = 4096
)

func contentHash(s segment, size int64) ([]byte, error) {
	hash := sha256.New()
	if size > hashLimit {
		block := make([]byte, hashBlock)
		for i := range int64(hashBlocks) {
			at := (size - hashBlock) / (hashBlocks - 1) * i
			if i == hashBlocks-1 {
				at = size - hashBlock
			}
			if err := s.readBytes(block, at); err != nil {
				return nil, fmt.Errorf("data: read %q: %w", s.name, err)
			}
			hash.Write(block)
		}
		return hash.Sum(nil), nil
	}
	block := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; at += int64(len(block)) {
		block = block[:min(int64(len(block)), size-at)]
		if err := s.readBytes(block, at); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("data: read %q: %w", s.name, err)
		}
		hash.Write(block)
	}
	return hash.Sum(nil), nil
}
