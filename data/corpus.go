package data

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gputrain/internal/caught"
)

// Corpus is what [Open] found. Close it when nothing reads from it any more.
type Corpus struct {
	Train      Source
	Validation Source // nil when Config.Validation is 0
	Name       string // for people: "go source", or the patterns
	Tokens     string // the kind of tokens: one of Config.Tokens, or "ids" where a JSONL file lists them
	Files      int
	Paths      []string // of these files
	Bytes      int64    // of text, whose tokens are bytes or made of them; 0 for documents and for ids
	Split      string   // how validation was parted: "by file", "tail", "by document", "none"
	Notes      []string // what a person should know of it, such as documents without a label
	Tallies    []Tally  // of each source of documents
	// Fingerprint is the SHA-256, in hexadecimal, of sizes and contents of the files in their
	// order, of the split and of what else decides the windows, wherever the files lie and
	// whatever they are called: a resumed run compares it.
	Fingerprint string

	files []io.Closer
	parts []*Corpus // of a mixture
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
// leaves one part less than a window, a token file that contradicts itself. Open reads all
// there is, which takes a while: it ends with ctx, whose cause the error then wraps.
func Open(ctx context.Context, c Config) (*Corpus, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &reading{ctx: ctx, config: c}
	done := make(chan opened, 1)
	go func() {
		var o opened
		o.err = caught.Do(func() (err error) {
			o.corpus, err = r.open(c)
			return err
		})
		done <- o
	}()
	return r.wait(done)
}

// open opens a corpus, or one that is part of it.
func (r *reading) open(c Config) (*Corpus, error) {
	if len(c.Mixture) > 0 {
		return r.openMixture(c)
	}
	files, name, err := r.find(c)
	if err != nil {
		return nil, err
	}
	corpus := &Corpus{Name: name, Tokens: c.kind(), Files: len(files)}
	for _, f := range files {
		corpus.Paths = append(corpus.Paths, f.path)
	}
	if len(c.JSONL) == 0 && (c.tokenizes() || corpus.Tokens == "bytes") {
		for _, f := range files {
			corpus.Bytes += f.size
		}
	}
	load := corpus.load
	switch {
	case len(c.JSONL) > 0:
		load = corpus.loadDocuments
	case c.tokenizes():
		load = corpus.loadTokenized
	}
	if err := load(r, c, files); err != nil {
		corpus.Close()
		return nil, err
	}
	return corpus, nil
}

func (r *reading) find(c Config) (files []file, name string, err error) {
	patterns := slices.Concat(c.Text, c.JSONL)
	if len(patterns) == 0 {
		files, err = goSource(r)
		return files, "Go source of the toolchain", err
	}
	files, err = findFiles(c.Dir, patterns)
	if len(patterns) == 1 {
		return files, patterns[0], err
	}
	return files, fmt.Sprintf("%q", patterns), err
}

func (c *Corpus) load(r *reading, config Config, files []file) error {
	print := newFingerprint("data", fmt.Sprintf("%s %d %v", c.Tokens, len(files), config.Validation))
	segments := make([]stretch, 0, len(files))
	vocab := 0
	for _, f := range files {
		s, v, err := c.segment(r, config, f)
		if err != nil {
			return err
		}
		segments, vocab = append(segments, s), max(vocab, v)
		sum, err := contentHash(r, s, f.size, v)
		if err != nil {
			return err
		}
		c.noteSampled(f)
		print.file(f, sum)
	}
	return c.part(config, print, newTokens(vocab, segments), segments)
}

// noteSampled tells that a file is too large to be hashed as a whole.
func (c *Corpus) noteSampled(f file) {
	if f.size > hashLimit {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: larger than %d MiB: whether it is what it was is told by %d samples of it", f.path, hashLimit>>20, hashBlocks))
	}
}

// part parts a text into training and validation, and ends its fingerprint.
func (c *Corpus) part(config Config, print fingerprint, all *Tokens, segments []stretch) error {
	if all.Len() == 0 {
		return fmt.Errorf("data: text %s: empty: 0 bytes in %d files found, want at least %d", c.Name, len(segments), config.Context+1)
	}
	train, validation, err := c.split(config, all, segments)
	if err != nil {
		return err
	}
	c.Train = train
	if validation != nil {
		c.Validation = validation
	}
	print.add("%s %d\n", c.Split, train.Len())
	print.set(c)
	return nil
}

// segment opens one file and returns its tokens and their vocabulary.
func (c *Corpus) segment(r *reading, config Config, f file) (stretch, int, error) {
	if c.Tokens == "bytes" {
		s := stretch{name: f.path, width: 1, count: f.size}
		err := c.attach(r, &s, f, f.size >= heapLimit)
		if kind := compression(s.bytes, err); kind != "" {
			err = compressedError(f.path, kind)
		}
		if err == nil && s.looksLikeTokens() {
			err = tokensError(f.path)
		}
		return s, 256, err
	}
	s := stretch{name: f.path}
	if f.size == 0 {
		return s, 0, fmt.Errorf("data: tokens %q: 0 bytes: empty, want %s tokens", f.path, c.Tokens)
	}
	if err := c.attach(r, &s, f, f.size >= heapLimit); err != nil {
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
func (c *Corpus) attach(r *reading, s *stretch, f file, onDisk bool) error {
	if onDisk {
		open, err := os.Open(f.path)
		if err != nil {
			return fmt.Errorf("data: open %q: %w", f.path, err)
		}
		c.files = append(c.files, open)
		info, err := open.Stat()
		if err != nil {
			return fmt.Errorf("data: open %q: %w", f.path, err)
		}
		if info.Size() != f.size {
			return fmt.Errorf("data: open %q: %d bytes, was %d a moment ago", f.path, info.Size(), f.size)
		}
		s.bytes = diskFile{open, info}
		return nil
	}
	content := f.content
	if content == nil {
		var err error
		if content, err = r.file(f.path); err != nil {
			return fmt.Errorf("data: text %q: %w", f.path, err)
		}
	}
	if int64(len(content)) != f.size {
		return fmt.Errorf("data: text %q: %d bytes, was %d a moment ago", f.path, len(content), f.size)
	}
	s.bytes = bytes.NewReader(content)
	return nil
}

// compressions are how compressed files begin.
var compressions = map[string]string{
	"gzip": "\x1f\x8b\x08", "zstd": "\x28\xb5\x2f\xfd", "xz": "\xfd7zXZ\x00", "zip": "PK\x03\x04", "bzip2": "BZh91AY&SY",
}

// compression tells how the bytes of a file, opened without err, are compressed.
func compression(r io.ReaderAt, err error) string {
	if err != nil {
		return ""
	}
	var begin [10]byte
	n, _ := r.ReadAt(begin[:], 0) // a shorter file is read as far as it goes
	for kind, with := range compressions {
		if strings.HasPrefix(string(begin[:n]), with) {
			return kind
		}
	}
	return ""
}

func compressedError(path, kind string) error {
	return fmt.Errorf("data: text %q: is compressed (%s), and its bytes are no text: unpack it first", path, kind)
}

func tokensError(path string) error {
	return fmt.Errorf("data: text %q: is a token file, not text: set data.tokens to u16 or u32", path)
}

func (s stretch) looksLikeTokens() bool {
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

// contentHash hashes a file, and holds the tokens of one that it reads as a whole to their vocabulary.
func contentHash(r *reading, s stretch, size int64, vocab int) ([]byte, error) {
	hash := sha256.New()
	if size > hashLimit {
		block := make([]byte, hashBlock)
		for i := range int64(hashBlocks) {
			at := (size - hashBlock) / (hashBlocks - 1) * i
			if i == hashBlocks-1 {
				at = size - hashBlock
			}
			if err := r.at(s.name, s.bytes, block, at); err != nil {
				return nil, fmt.Errorf("data: read %q: %w", s.name, err)
			}
			hash.Write(block)
		}
		return hash.Sum(nil), nil
	}
	block := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; at += int64(len(block)) {
		block = block[:min(int64(len(block)), size-at)]
		if err := r.at(s.name, s.bytes, block, at); err != nil {
			return nil, fmt.Errorf("data: read %q: %w", s.name, err)
		}
		hash.Write(block)
		if err := s.check(block, at, vocab); err != nil {
			return nil, err
		}
	}
	return hash.Sum(nil), nil
}

// check holds the tokens in bytes of the file, from an offset on, to their vocabulary.
func (s stretch) check(raw []byte, at int64, vocab int) error {
	if s.width == 1 || s.width == 2 && vocab >= 1<<16 {
		return nil
	}
	skip := max(0, s.offset-at)
	for i := skip; i+int64(s.width) <= int64(len(raw)); i += int64(s.width) {
		if v := s.token(raw[i:]); uint64(v) >= uint64(vocab) {
			return s.beyond((at+i-s.offset)/int64(s.width), v, vocab)
		}
	}
	return nil
}
