package data

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
)

// loadDocuments reads files of JSON lines.
func (c *Corpus) loadDocuments(r *reading, config Config, files []file) error {
	vocab := config.Vocab
	if vocab == 0 {
		vocab = 256
	}
	if end := config.Layout.End; end != nil && *end >= vocab {
		if config.Vocab > 0 || *end >= 1<<31-1 {
			return fmt.Errorf("data: end token: %d, want less than the vocabulary %d", *end, vocab)
		}
		vocab = *end + 1
	}
	spool := newSpool(vocab, spoolLimit)
	c.files = append(c.files, spool)
	reader := &jsonl{fields: config.Fields, end: config.Layout.End, vocab: vocab, text: c.Tokens == "bytes", limit: maxLine, spool: spool}
	how, err := json.Marshal([]any{config.Fields, config.Layout.withDefaults(), config.Validation, c.Tokens, len(files)})
	if err != nil {
		return err
	}
	print := newFingerprints("documents", string(how))
	for _, f := range files {
		content, err := readDocuments(r, reader, f)
		if err != nil {
			return err
		}
		print.file(f, content)
	}
	all := &Documents{spans: reader.spans, layout: config.Layout, vocab: vocab}
	if !reader.lists {
		all.vocab = 256
		if config.Layout.End != nil {
			all.vocab = max(256, *config.Layout.End+1)
		}
	} else {
		c.Tokens = "ids"
	}
	if all.store, err = spool.store(); err != nil {
		return err
	}
	if err := c.splitDocuments(config, all); err != nil {
		return err
	}
	print.set(c)
	return nil
}

// readDocuments reads one file and returns the hash of its bytes.
func readDocuments(r *reading, reader *jsonl, f file) ([]byte, error) {
	open, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("data: open %q: %w", f.path, err)
	}
	defer open.Close()
	counted := &hashed{reading: r, name: f.path, r: open, sum: sha256.New()}
	if err := reader.file(f.path, counted); err != nil {
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
	print := newFingerprints("mixture", fmt.Sprintf("%s %d", end, len(config.Mixture)))
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
		fmt.Fprintf(print.now, "%v %s\n", p.Weight, part.Fingerprint)
		fmt.Fprintf(print.former, "%v %s\n", p.Weight, part.Former)
		train, validation, weights = append(train, part.Train), append(validation, part.Validation), append(weights, p.Weight)
		c.Files += part.Files
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
