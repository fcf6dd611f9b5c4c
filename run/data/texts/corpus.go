package texts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"gputrain/internal/caught"
	"gputrain/internal/formats"
	"gputrain/run/data"
)

// Corpus is what [Open] found. Close it when nothing reads from it any more.
type Corpus struct {
	Train      data.Source
	Validation data.Source // nil where nothing is held out
	Name       string      // for people: "go source", or the patterns
	Tokens     string      // the kind of tokens: one of Config.Tokens, or "ids" where a JSONL file lists them
	Files      int
	Paths      []string // of these files
	Bytes      int64    // of text, whose tokens are bytes or made of them; 0 for documents and for ids
	Split      string   // how validation was parted: "by file", "tail", "by document", "by pair", "held files", "none"
	Notes      []string // what a person should know of it, such as documents without a label
	Tallies    []Tally  // of each source of documents
	// Fingerprint is the SHA-256, in hexadecimal, of sizes and contents of the files in their
	// order, of the split and of what else decides the windows, wherever the files lie and
	// whatever they are called: a resumed run compares it.
	Fingerprint string
	Earlier     data.Earlier // what earlier programs made of the files

	held    apart // files that are held out, of the first of Paths
	files   []io.Closer
	packing sync.Mutex // one at a time
	parts   []*Corpus  // of a mixture
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
	r := &reading{config: c}
	r.ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	done := make(chan opened, 1)
	go func() {
		var o opened
		o.err = caught.Do(func() (err error) {
			o.corpus, err = r.open(c)
			return err
		})
		done <- o
	}()
	corpus, err := r.wait(done)
	return corpus, c.wayOut(err)
}

// open opens a corpus, or one that is part of it.
func (r *reading) open(c Config) (*Corpus, error) {
	corpus := &Corpus{Tokens: c.kind()}
	var files []file
	if len(c.Mixture) == 0 {
		var note string
		var err error
		if files, corpus.Name, note, err = r.find(c); err != nil {
			return nil, err
		}
		if note != "" {
			corpus.Notes = append(corpus.Notes, note)
		}
		if len(c.Held) > 0 {
			if files, corpus.held, err = r.findHeld(c, files); err != nil {
				return nil, err
			}
		}
	}
	corpus.Files = len(files)
	for _, f := range files {
		corpus.Paths = append(corpus.Paths, f.path)
		if len(c.JSONL) == 0 && (c.tokenizes() || corpus.Tokens == "bytes") {
			corpus.Bytes += f.size
		}
	}
	load := corpus.load
	switch {
	case len(c.Mixture) > 0:
		load = corpus.loadMixture
	case c.Format == formats.Prompts:
		load = corpus.loadPrompts
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

func (r *reading) find(c Config) (files []file, name, note string, err error) {
	patterns := slices.Concat(c.Text, c.JSONL)
	if len(patterns) == 0 {
		return builtIn(r)
	}
	kind := ofText
	if len(c.JSONL) > 0 {
		kind = ofRows
	}
	files, err = findFiles(c.Dir, patterns, kind)
	if len(patterns) == 1 {
		return files, patterns[0], "", err
	}
	return files, fmt.Sprintf("%q", patterns), "", err
}

func (c *Corpus) load(r *reading, config Config, files []file) error {
	texts, err := c.hashFiles(r, files, func(f file, from io.ReaderAt) (data.Stretch, error) { return c.segment(config, f, from) })
	if err != nil {
		return err
	}
	print := newFingerprint("data", fmt.Sprintf("%s %d %v", c.Tokens, len(files), config.Validation))
	open := &openFiles{open: map[string]diskFile{}}
	c.files = append(c.files, open)
	segments := make([]data.Stretch, 0, len(files))
	vocab := 0
	for _, t := range texts {
		t.Bytes = openFile{open, t.path, t.info}
		segments, vocab = append(segments, t.Stretch), max(vocab, t.Vocab)
		c.noteSampled(t.file)
		print.file(t.file, t.sum)
	}
	if c.Tokens == "bytes" {
		c.noteRows(texts)
	}
	return c.part(config, print, data.NewTokens(vocab, segments), segments)
}

// noteSampled tells that a file is too large to be hashed as a whole.
func (c *Corpus) noteSampled(f file) {
	if f.size > hashLimit {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: larger than %d MiB: whether it is what it was is told by %d samples of it", f.path, hashLimit>>20, hashBlocks))
	}
}

// part parts a text into training and validation, and ends its fingerprint.
func (c *Corpus) part(config Config, print fingerprint, all *data.Tokens, segments []data.Stretch) error {
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
	c.Fingerprint = print.text()
	return nil
}

// segment is the tokens of one file.
func (c *Corpus) segment(config Config, f file, from io.ReaderAt) (data.Stretch, error) {
	if c.Tokens == "bytes" {
		return isText(f, from)
	}
	if f.size == 0 {
		return data.Stretch{}, fmt.Errorf("data: tokens %q: 0 bytes: empty, want %s tokens", f.path, c.Tokens)
	}
	h, err := tokenHeader(from, f.size, map[string]int{"u16": 2, "u32": 4}[c.Tokens], config.Vocab)
	if err != nil {
		return data.Stretch{}, fmt.Errorf("data: tokens %q: %w", f.path, err)
	}
	return data.Stretch{Name: f.path, Width: h.width, Count: h.count, Offset: h.offset, Vocab: h.vocab}, nil
}

// hashLimit is the size above which a file's content hash is a sample: the first,
// the last and evenly spaced blocks, so that a start does not read a terabyte.
const (
	hashLimit  = 1 << 30
	hashBlock  = 64 << 10
	hashBlocks = 4096
)

// contentHash hashes a file, and holds the tokens of one that it reads as a whole to their vocabulary.
func contentHash(r *reading, s data.Stretch, size int64) ([]byte, error) {
	whole := size <= hashLimit
	block, blocks := make([]byte, min(size, 1<<20)), (size+1<<20-1)>>20
	if !whole {
		block, blocks = block[:hashBlock], hashBlocks
	}
	hash := sha256.New()
	for i := range blocks {
		at := i << 20
		switch {
		case whole:
			block = block[:min(int64(len(block)), size-at)]
		case i == hashBlocks-1:
			at = size - hashBlock
		default:
			at = (size - hashBlock) / (hashBlocks - 1) * i
		}
		if err := r.at(s.Name, s.Bytes, block, at); err != nil {
			return nil, fmt.Errorf("data: read %q: %w", s.Name, err)
		}
		hash.Write(block)
		if whole {
			if err := s.Check(block, at); err != nil {
				return nil, err
			}
		}
	}
	return hash.Sum(nil), nil
}
