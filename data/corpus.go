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
)

// Corpus is what [Open] found. Close it when nothing reads from it any more.
type Corpus struct {
	Train      Source
	Validation Source // nil when Config.Validation is 0
	Name       string // for people: "go source", or the patterns
	Tokens     string // the kind of tokens: one of Config.Tokens, or "ids" where a JSONL file lists them
	Files      int
	Split      string   // how validation was parted: "by file", "tail", "by document", "none"
	Notes      []string // what a person should know of it, such as documents without a label
	// Fingerprint is the SHA-256, in hexadecimal, of names, sizes and contents of
	// the files, of the split and of what else decides the windows: a resumed run compares it.
	Fingerprint string

	files []io.Closer
}

// Close closes the files and removes the temporary ones.
func (c *Corpus) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	c.files = nil
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
	if len(c.Mixture) > 0 {
		return openMixture(c)
	}
	files, name, err := c.find()
	if err != nil {
		return nil, err
	}
	corpus := &Corpus{Name: name, Tokens: c.kind(), Files: len(files)}
	load := corpus.load
	if len(c.JSONL) > 0 {
		load = corpus.loadDocuments
	}
	if err := load(c, files); err != nil {
		corpus.Close()
		return nil, err
	}
	return corpus, nil
}

func (c Config) find() (files []file, name string, err error) {
	patterns := slices.Concat(c.Text, c.JSONL)
	if len(patterns) == 0 {
		files, err = goSource()
		return files, "Go source of the toolchain", err
	}
	files, err = findFiles(patterns)
	if len(patterns) == 1 {
		return files, patterns[0], err
	}
	return files, fmt.Sprintf("%q", patterns), err
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
	train, validation, err := c.split(config, all, segments)
	if err != nil {
		return err
	}
	c.Train = train
	if validation != nil {
		c.Validation = validation
	}
	fmt.Fprintf(hash, "%s %d\n", c.Split, train.Len())
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
	if err := c.attach(&s, f, f.size >= heapLimit); err != nil {
		return s, 0, err
	}
	h, err := tokenHeader(s.bytes, f.size, c.width(), config.Vocab)
	if err != nil {
		return s, 0, fmt.Errorf("data: tokens %q: %w", f.path, err)
	}
	s.width, s.count, s.offset = h.width, h.count, h.offset
	return s, h.vocab, nil
}

// attach gives s the bytes of f: on the disk, or in memory.
func (c *Corpus) attach(s *segment, f file, onDisk bool) error {
	if onDisk {
		r, err := os.Open(f.path)
		if err != nil {
			return fmt.Errorf("data: open %q: %w", f.path, err)
		}
		c.files = append(c.files, r)
		info, err := r.Stat()
		if err != nil {
			return fmt.Errorf("data: open %q: %w", f.path, err)
		}
		if info.Size() != f.size {
			return fmt.Errorf("data: open %q: %d bytes, was %d a moment ago", f.path, info.Size(), f.size)
		}
		s.bytes = r
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
			if err := readBytes(s.bytes, block, at); err != nil {
				return nil, fmt.Errorf("data: read %q: %w", s.name, err)
			}
			hash.Write(block)
		}
		return hash.Sum(nil), nil
	}
	block := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; at += int64(len(block)) {
		block = block[:min(int64(len(block)), size-at)]
		if err := readBytes(s.bytes, block, at); err != nil {
			return nil, fmt.Errorf("data: read %q: %w", s.name, err)
		}
		hash.Write(block)
	}
	return hash.Sum(nil), nil
}
