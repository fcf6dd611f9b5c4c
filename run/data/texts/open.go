package texts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"gputrain/internal/formats"
	"gputrain/run/data"
)

// loadDocuments reads files of rows.
func (c *Corpus) loadDocuments(r *reading, config Config, files []file) error {
	reader, err := newJSONL(config)
	if err != nil {
		return err
	}
	how, err := json.Marshal([]any{config.Fields, cmp.Or(config.Format, formats.Auto), config.Layout.WithDefaults(), config.Validation, c.Tokens, len(files)})
	if err != nil {
		return err
	}
	all := &Documents{corpus: c, config: config, layout: config.Layout, group: config.group()}
	if all.group.windows() {
		all.layout = data.Layout{End: config.Layout.End, Packing: data.PackNone}
		if all.places = config.PerWindow; all.places > 1 {
			all.layout.Packing = data.PackFirstFit
		}
	}
	print := newFingerprint("documents", string(how))
	if c.held.files > 0 {
		print.add("held %d\n", c.held.files)
	}
	texts, err := c.hashFiles(r, files, isRows)
	if err != nil {
		return err
	}
	if config.tokenizes() {
		print.add("%s\n", config.how(config.border()))
	}
	if all.group.ends {
		print.add("%s\n", all.group.how(config))
	}
	if err := c.encodeDocuments(r, config, reader, texts, all); err != nil {
		return err
	}
	for _, t := range texts {
		print.file(t.file, t.sum)
	}
	known := all.tokens.account
	if known.Forms&ofChats != 0 {
		print.add("%s\n", config.Chats.how())
	}
	if all.vocab = reader.vocab; known.Forms&formOf("tokens") == 0 {
		all.vocab = reader.ofText
	} else {
		c.Tokens = "ids"
	}
	if err := c.splitDocuments(r, config, all); err != nil {
		return err
	}
	if o := known.Otherwise; o != nil {
		c.Earlier = data.Earlier{Fingerprint: print.text(), Why: fmt.Sprintf("jsonl %q: %s: %s", texts[o.File].path, o.Row, o.Why)}
		print.add("rows 2\n")
	}
	c.Fingerprint = print.text()
	return nil
}

// eachFile reads files of rows one after the other.
func (r *reading) eachFile(phase string, texts []textFile, read func(t textFile, from io.ReaderAt) error) error {
	r.begin(phase, filesOf(texts))
	r.tell(func(p *Progress) { p.OfRows = true })
	for _, t := range texts {
		if err := t.reading(r, func(from io.ReaderAt) error { return read(t, countedReader{r, t.path, from}) }); err != nil {
			return err
		}
	}
	return nil
}

// encodeDocuments reads documents into a token file, or takes them from where they were kept.
func (c *Corpus) encodeDocuments(r *reading, config Config, reader *jsonl, texts []textFile, all *Documents) error {
	begun, phase, how := time.Now(), "reading", fmt.Sprintf("%s %s", c.Tokens, config.invalid())
	if config.tokenizes() {
		phase, how = "tokenizing", config.how(config.border())
	}
	how += all.group.how(config)
	if c.held.files > 0 {
		how += fmt.Sprintf(" held %d", c.held.files)
	}
	how += " " + ending(config.Layout) // of lists of ids, which have no end of their own, also where a tokenizer has the same one
	key := tokenKeyOf(fmt.Sprintf("documents %s %q %q %s %d", how, config.Fields, cmp.Or(config.Format, formats.Auto), config.Chats.how(), reader.vocab), texts)
	tokens, kept, err := c.tokenFile(r, key, tokenWidth(reader.vocab), func(w *tokenWriter) error {
		reader.to, reader.apart, reader.rowDone = w, c.held, func() { r.tell(func(p *Progress) { p.Rows++ }) }
		err := r.eachFile(phase, texts, func(t textFile, from io.ReaderAt) error { return reader.file(r.ctx, t.path, from, t.size) })
		if err == nil {
			err = reader.apart.check()
		}
		w.account = reader.account.sorted()
		return err
	})
	if err != nil {
		return err
	}
	all.tokens, all.key = tokens, key
	if config.tokenizes() {
		c.noteTokens(texts, kept, tokens.count, time.Since(begun))
		return nil
	}
	for _, t := range texts {
		c.noteSampled(t.file)
	}
	return nil
}

// ending is the end token as a key has it.
func ending(l data.Layout) string {
	if l.End == nil {
		return "as it suits"
	}
	return fmt.Sprint(*l.End)
}

// part is a document as a token file has it.
func (d document) part() uint64 {
	masked := uint64(0)
	if d.masked {
		masked = 1
	}
	return uint64(math.Float32bits(d.beside))<<32 | uint64(len(d.tokens))<<1 | masked
}

// countedReader tells how far a file has been read.
type countedReader struct {
	*reading
	name string
	from io.ReaderAt
}

// ReadAt is a read that may hang.
func (c countedReader) ReadAt(p []byte, at int64) (int, error) {
	return c.do(c.name, func() (int, error) { return c.from.ReadAt(p, at) })
}

// splitDocuments parts the documents and lays each part into windows.
func (c *Corpus) splitDocuments(r *reading, config Config, all *Documents) error {
	if all.tokens.parts.count == 0 {
		return fmt.Errorf("data: jsonl %s: found no rows, wanted at least one", c.Name)
	}
	train, validation := all, (*Documents)(nil)
	count, what := all.counted(int64(all.tokens.parts.count))
	c.Split = "none"
	if held := all.tokens.account.Held; c.held.files > 0 {
		if held == 0 || held == int64(all.tokens.parts.count) {
			return fmt.Errorf("data: jsonl %s, held %s: found %d and %d rows, wanted 1 or more of each", c.Name, c.held.name, int64(all.tokens.parts.count)-held, held)
		}
		train, validation = all.split(0, held)
		c.Split = "held files"
	}
	if config.Validation > 0 {
		if err := all.enough(config.Validation); err != nil {
			return fmt.Errorf("data: jsonl %s: %w", c.Name, err)
		}
		train, validation = all.split(config.Validation, 0)
		c.Split = "by " + what
	}
	known := all.tokens.account
	tally := Tally{Source: c.Name, Forms: known.Forms.names(), Unread: known.Unread}
	if known.Forms&ofChats != 0 {
		tally.Template = config.Chats.Name
	}
	for _, part := range []struct {
		name      string
		documents *Documents
	}{{"training", train}, {"validation", validation}} {
		if part.documents == nil {
			continue
		}
		laid, err := part.documents.pack(r, config.Context)
		if err != nil {
			left, _ := all.counted(int64(part.documents.count(r)))
			if c.held.files > 0 {
				return fmt.Errorf("data: jsonl %s, held %s: %s: %w", c.Name, c.held.name, part.name, err)
			}
			return fmt.Errorf("data: jsonl %s: validation %v of %d %ss leaves %d for %s: %w", c.Name, config.Validation, count, what, left, part.name, err)
		}
		part.documents.laid = laid
		tally.of(laid)
	}
	c.Train = train
	if validation != nil {
		c.Validation = validation
		held, _ := all.counted(validation.laid.documents)
		tally.Held = int(held)
	}
	c.Tallies, c.Notes = append(c.Tallies, tally), append(c.Notes, tally.String())
	return nil
}

// loadMixture opens each part as a corpus of its own.
func (c *Corpus) loadMixture(r *reading, config Config, _ []file) error {
	end := cmp.Or(config.MixtureEnd, data.Ends[0])
	how := fmt.Sprintf("%s %d", end, len(config.Mixture))
	print, earlier := newFingerprint("mixture", how), newFingerprint("mixture", how)
	var train, validation []data.Source
	var weights []float64
	for i, p := range config.Mixture {
		one := config
		one.Mixture, one.Text, one.JSONL, one.Fields = nil, p.Text, p.JSONL, p.Fields
		part, err := r.open(one)
		if err != nil {
			return fmt.Errorf("data: mixture: source %d: %w", i, err)
		}
		c.files, c.parts = append(c.files, part), append(c.parts, part)
		print.add("%v %s\n", p.Weight, part.Fingerprint)
		earlier.add("%v %s\n", p.Weight, cmp.Or(part.Earlier.Fingerprint, part.Fingerprint))
		c.Earlier.Why = cmp.Or(c.Earlier.Why, part.Earlier.Why)
		train, validation, weights = append(train, part.Train), append(validation, part.Validation), append(weights, p.Weight)
		c.Files += part.Files
		c.Paths = append(c.Paths, part.Paths...)
		c.Notes, c.Tallies = append(c.Notes, part.Notes...), append(c.Tallies, part.Tallies...)
		if part.Tokens != c.Tokens {
			c.Tokens = part.Tokens
		}
		if i > 0 {
			c.Name += " + "
		}
		c.Name += part.Name
	}
	c.Split = "by source"
	mixed, err := data.NewMixture(train, weights, end)
	if err != nil {
		return fmt.Errorf("data: mixture: %w", err)
	}
	c.Train = mixed
	if config.Validation == 0 {
		c.Split = "none"
	} else if c.Validation, err = data.NewMixture(validation, weights, end); err != nil {
		return fmt.Errorf("data: mixture: %w", err)
	}
	if c.Fingerprint = print.text(); c.Earlier.Why != "" {
		c.Earlier.Fingerprint = earlier.text()
	}
	return nil
}
