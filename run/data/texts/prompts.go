package texts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// promptKey is the column of a row that has its prompt.
const promptKey = "prompt"

// besideMessages are columns that a template reads beside the messages of a prompt.
var besideMessages = []string{"system", "system_prompt", "tools", "functions", "chat_template_kwargs"}

// A promptRow is a row, read.
type promptRow struct {
	data.Prompt
	form form
	sum  uint64 // of its tokens, where files are held out
}

// prompt reads a row: a prompt of text, messages or tokens, and its columns.
func (j *jsonl) prompt(line []byte) (p promptRow, err error) {
	object, err := objectOf(line)
	if err != nil {
		return p, err
	}
	raw := object[promptKey]
	if none(object, promptKey) {
		return p, missing(object, promptKey)
	}
	if err := json.Unmarshal(line, &p.Columns); err != nil {
		return p, err
	}
	if raw[0] == '[' && len(messagesOf(raw)) > 0 {
		p.form = formOf(formats.Messages)
		if p.Tokens, err = j.asked(object); err != nil {
			return p, fmt.Errorf("%s: %w", promptKey, err)
		}
	} else {
		var d document
		if err := j.append(&d, raw); err != nil {
			return p, fmt.Errorf("%s: %w", promptKey, err)
		}
		p.Tokens = signed(d.tokens)
		if raw[0] == '"' && j.encode != nil {
			front, _ := chat.Around(p.Tokens, j.around.before, nil)
			p.Tokens = append(front, p.Tokens...)
		}
		p.form = d.form
	}
	if len(p.Tokens) == 0 {
		return p, fmt.Errorf("%s: found no token, wanted at least one", promptKey)
	}
	for i, id := range p.Tokens {
		if int(id) >= j.vocab {
			return p, fmt.Errorf("%s: token %d: is %d, want less than the vocabulary %d (model.vocab)", promptKey, i, id, j.vocab)
		}
	}
	return p, nil
}

// asked are messages up to where the next answer begins.
func (j *jsonl) asked(object map[string]json.RawMessage) ([]int32, error) {
	switch {
	case j.chats == nil:
		return nil, errors.New("found messages, wanted a tokenizer for them: data.tokenizer, or a directory in model.from that has one")
	case j.lacking != nil:
		return nil, j.lacking
	}
	row := map[string]json.RawMessage{"messages": object[promptKey]}
	for _, key := range besideMessages {
		if !none(object, key) {
			row[key] = object[key]
		}
	}
	line, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	decoded, err := template.Decode(line)
	if err != nil {
		return nil, err
	}
	c, err := chat.FromRow(decoded.(*template.Object), formats.Messages)
	if err != nil {
		return nil, err
	}
	return j.chats.Prompt(c)
}

// loadPrompts reads rows of prompts, which stay in memory with all their columns.
func (c *Corpus) loadPrompts(r *reading, config Config, files []file) error {
	reader, err := newJSONL(config)
	if err != nil {
		return err
	}
	how, err := json.Marshal([]any{formats.Prompts, config.Validation, c.Tokens, len(files)})
	if err != nil {
		return err
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
	var all []promptRow
	phase := "reading"
	if config.tokenizes() {
		phase = "tokenizing"
	}
	read := func(_ rowAt, row []byte) (p promptRow, err error) {
		if p, err = reader.prompt(reader.mended(row)); c.held.files > 0 {
			p.sum = sumOf(marked(p.Tokens, 0))
		}
		return p, err
	}
	number := -1
	err = r.eachFile(phase, texts, func(t textFile, from io.ReaderAt) error {
		number++
		print.file(t.file, t.sum)
		c.noteSampled(t.file)
		return useRows(r.ctx, t.path, from, t.size, reader.limit, func(file rowFile) error {
			return eachRow(r.ctx, file, read, func(_ rowAt, p promptRow) error {
				c.held.add(number, p.sum)
				if p.Row = int64(len(all)); number >= c.held.files {
					p.Row -= int64(c.held.rows) // of the files to train on
				}
				all = append(all, p)
				r.tell(func(p *Progress) { p.Rows++ })
				return nil
			})
		})
	})
	if err == nil {
		err = c.held.check()
	}
	if err != nil {
		return err
	}
	return c.splitPrompts(config, print, all, reader)
}

// splitPrompts parts them as documents are parted.
func (c *Corpus) splitPrompts(config Config, print fingerprint, all []promptRow, reader *jsonl) error {
	var parts [2][]data.Prompt
	tally := Tally{Source: c.Name, Documents: len(all)}
	form := form(0)
	for i, p := range all {
		held := 0
		if i < c.held.rows {
			held = 1
		}
		if share := config.Validation; share > 0 && int64(float64(i+1)*share) > int64(float64(i)*share) {
			held = 1
		}
		parts[held] = append(parts[held], p.Prompt)
		form |= p.form
		tally.Tokens, tally.Longest = tally.Tokens+int64(len(p.Tokens)), max(tally.Longest, len(p.Tokens))
	}
	switch {
	case len(all) == 0:
		return fmt.Errorf("data: jsonl %s: found no rows, wanted at least one", c.Name)
	case c.held.files > 0 && len(parts[0])*len(parts[1]) == 0:
		return fmt.Errorf("data: jsonl %s, held %s: found %d and %d prompts, wanted 1 or more of each", c.Name, c.held.name, len(parts[0]), len(parts[1]))
	case len(parts[0]) == 0 || config.Validation > 0 && len(parts[1]) == 0:
		return fmt.Errorf("data: jsonl %s: validation %v of %d prompts leaves %d for training and %d for validation, wanted 1 or more of each: "+
			"data.validation %.2g or more, or 0, which keeps none", c.Name, config.Validation, len(all), len(parts[0]), len(parts[1]), math.Min(0.5, 1/float64(len(all))))
	}
	tally.Forms, tally.Held = form.names(), len(parts[1])
	vocab := reader.ofText
	if form&formOf("tokens") != 0 {
		vocab, c.Tokens = reader.vocab, "ids"
	}
	c.Train, c.Split = data.NewPrompts(vocab, parts[0]), "none"
	if parts[1] != nil {
		c.Validation, c.Split = data.NewPrompts(vocab, parts[1]), "by prompt"
	}
	note := fmt.Sprintf("%s: %d prompts of %d tokens, longest %d", c.Name, tally.Documents, tally.Tokens, tally.Longest)
	if form&formOf(formats.Messages) != 0 {
		print.add("%s\n", config.Chats.how())
		tally.Template = cmp.Or(config.Chats.Name, "template")
		note += ", " + tally.Template
	}
	if tally.Held > 0 {
		note += fmt.Sprintf(", %d held out", tally.Held)
	}
	c.Tallies, c.Notes, c.Fingerprint = append(c.Tallies, tally), append(c.Notes, note), print.text()
	return nil
}
