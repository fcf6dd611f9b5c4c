package data

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"time"
)

// loadDocuments reads files of JSON lines.
func (c *Corpus) loadDocuments(r *reading, config Config, files []file) error {
	reader, err := newJSONL(config)
	if err != nil {
		return err
	}
	how, err := json.Marshal([]any{config.Fields, config.Layout.withDefaults(), config.Validation, c.Tokens, len(files)})
	if err != nil {
		return err
	}
	all := &Documents{layout: config.Layout}
	print := newFingerprint("documents", string(how))
	if config.tokenizes() {
		print.add("%s\n", config.how(config.border()))
		err = c.tokenizeDocuments(r, config, reader, files, print, all)
	} else {
		err = c.spoolDocuments(r, reader, files, print, all)
	}
	if err != nil {
		return err
	}
	if all.vocab = reader.vocab; !reader.lists {
		all.vocab = reader.ofText
	} else {
		c.Tokens = "ids"
	}
	if err := c.splitDocuments(config, all); err != nil {
		return err
	}
	print.set(c)
	return nil
}

// spoolDocuments reads documents into memory or a temporary file.
func (c *Corpus) spoolDocuments(r *reading, reader *jsonl, files []file, print fingerprint, all *Documents) (err error) {
	spool := newSpool(reader.vocab, spoolLimit)
	c.files = append(c.files, spool)
	reader.to = spool
	for _, f := range files {
		content, err := readDocuments(r, reader, f)
		if err != nil {
			return err
		}
		print.file(f, content)
	}
	all.spans = reader.spans
	all.store, err = spool.store()
	return err
}

// readDocuments reads one file and returns the hash of its bytes.
func readDocuments(r *reading, reader *jsonl, f file) ([]byte, error) {
	open, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("data: open %q: %w", f.path, err)
	}
	defer open.Close()
	counted := &hashed{reading: r, name: f.path, r: open, sum: sha256.New()}
	if err := reader.file(r.ctx, f.path, counted); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return nil, fmt.Errorf("data: read %q: %w", f.path, err)
	}
	if counted.size != f.size {
		return nil, fmt.Errorf("data: read %q: %d bytes, was %d a moment ago", f.path, counted.size, f.size)
	}
	return counted.sum.Sum(nil), nil
}

// tokenizeDocuments reads documents into a token file, or takes them from where they were kept.
func (c *Corpus) tokenizeDocuments(r *reading, config Config, reader *jsonl, files []file, print fingerprint, all *Documents) error {
	texts, err := r.hashFiles(files, func(*textFile, io.ReaderAt) error { return nil })
	if err != nil {
		return err
	}
	for _, t := range texts {
		print.file(t.file, t.sum)
	}
	begun := time.Now()
	key := tokenKeyOf(fmt.Sprintf("documents %s %q %d", config.how(config.border()), config.Fields, reader.vocab), texts)
	tokens, kept, err := c.tokenFile(r, key, tokenWidth(reader.vocab), func(w *tokenWriter) error {
		r.begin("tokenizing", files)
		reader.to = w
		for _, t := range texts {
			err := t.reading(func(from io.ReaderAt) error {
				return reader.file(r.ctx, t.path, &countedReader{reading: r, name: t.path, r: io.NewSectionReader(from, 0, t.size)})
			})
			if err != nil {
				return err
			}
		}
		for _, s := range reader.spans {
			w.parts = append(w.parts, s.part())
		}
		w.lists = reader.lists
		return nil
	})
	if err != nil {
		return err
	}
	all.store, all.spans, reader.lists = tokens.store, spansOf(tokens.parts), tokens.lists
	c.noteTokens(texts, kept, all.tokens(), time.Since(begun))
	return nil
}

// part is a span as a token file has it.
func (s span) part() uint64 {
	masked := uint64(0)
	if s.masked {
		masked = 1
	}
	return uint64(s.count)<<1 | masked
}

func spansOf(parts []uint64) []span {
	spans, start := make([]span, len(parts)), int64(0)
	for i, p := range parts {
		spans[i] = span{start: start, count: int32(p >> 1), masked: p&1 == 1}
		start += int64(p >> 1)
	}
	return spans
}

// countedReader tells how far a file has been read.
type countedReader struct {
	*reading
	name string
	r    io.Reader
}

func (c *countedReader) Read(p []byte) (int, error) {
	return c.do(c.name, func() (int, error) { return c.r.Read(p) })
}

// hashed counts and hashes what is read through it.
type hashed struct {
	*reading
	name string
	r    io.Reader
	sum  hash.Hash
	size int64
}

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.do(h.name, func() (int, error) { return h.r.Read(p) })
	h.sum.Write(p[:n])
	h.size += int64(n)
	return n, err
}

// splitDocuments parts the documents and lays each part into windows.
func (c *Corpus) splitDocuments(config Config, all *Documents) error {
	train, validation := all, (*Documents)(nil)
	c.Split = "none"
	if config.Validation > 0 {
		train, validation = all.split(config.Validation)
		c.Split = "by document"
	}
	left := 0
	for _, part := range []struct {
		name      string
		documents *Documents
	}{{"training", train}, {"validation", validation}} {
		if part.documents == nil {
			continue
		}
		laid, err := part.documents.pack(config.Context)
		if err != nil {
			return fmt.Errorf("data: jsonl %s: validation %v of %d documents leaves %d for %s: %w", c.Name, config.Validation, len(all.spans), len(part.documents.spans), part.name, err)
		}
		part.documents.laid = laid
		left += laid.left
	}
	c.Train = train
	if validation != nil {
		c.Validation = validation
	}
	c.Notes = append(c.Notes, fmt.Sprintf("%s: %d documents of %d tokens in %d windows of %d", c.Name, len(all.spans), all.tokens(), train.laid.windows(), config.Context))
	if left > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %d documents have no label that counts and are left out", c.Name, left))
	}
	return nil
}

// openMixture opens each part as a corpus of its own.
func (r *reading) openMixture(c Config) (*Corpus, error) {
	out := &Corpus{Tokens: c.kind()}
	err := out.loadMixture(r, c)
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

func (c *Corpus) loadMixture(r *reading, config Config) error {
	end := config.MixtureEnd
	if end == "" {
		end = EndRestart
	}
	print := newFingerprint("mixture", fmt.Sprintf("%s %d", end, len(config.Mixture)))
	var train, validation []Source
	var weights []float64
	for i, p := range config.Mixture {
		one := config
		one.Mixture, one.Text, one.JSONL, one.Fields = nil, p.Text, p.JSONL, p.Fields
		part, err := r.open(one)
		if err != nil {
			return fmt.Errorf("data: mixture: source %d: %w", i, err)
		}
		c.files = append(c.files, part)
		print.add("%v %s\n", p.Weight, part.Fingerprint)
		train, validation, weights = append(train, part.Train), append(validation, part.Validation), append(weights, p.Weight)
		c.Files += part.Files
		c.Paths = append(c.Paths, part.Paths...)
		c.Notes = append(c.Notes, part.Notes...)
		if part.Tokens != c.Tokens {
			c.Tokens = part.Tokens
		}
		if i > 0 {
			c.Name += " + "
		}
		c.Name += part.Name
	}
	c.Split = "by source"
	mixed, err := newMixture(train, weights, end)
	if err != nil {
		return fmt.Errorf("data: mixture: %w", err)
	}
	c.Train = mixed
	if config.Validation == 0 {
		c.Split = "none"
	} else if c.Validation, err = newMixture(validation, weights, end); err != nil {
		return fmt.Errorf("data: mixture: %w", err)
	}
	print.set(c)
	return nil
}
