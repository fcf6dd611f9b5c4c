package texts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"gputrain/internal/characters"
	"gputrain/run/data"
	"gputrain/text/chat"
)

// among refuses a field that none of the columns is; nil: they are not known.
func among(columns []string, f data.Fields) error {
	for _, name := range []string{f.Text, f.Prompt, f.Mask} {
		if columns != nil && name != "" && !slices.Contains(columns, name) {
			return fmt.Errorf("found columns %q, wanted %q", columns, name)
		}
	}
	return nil
}

// jsonl turns objects of JSON into documents.
type jsonl struct {
	fields  data.Fields
	end     *int
	vocab   int // every token is below it
	ofText  int // and those of text below this
	text    bool
	replace bool                               // what is not UTF-8
	encode  func(text string) ([]int32, error) // nil: bytes are tokens
	around  border                             // of documents of text that is encoded
	format  string                             // of rows
	group   group                              // that they make
	labels  int                                // of classes
	names   []string                           // of those; nil: none have names
	chats   *chat.Encoder                      // of conversations; nil: there is no tokenizer
	lacking error                              // why there is no template; nil: there is
	limit   int                                // bytes a row
	to      *tokenWriter                       // where documents go

	documents int
	learn     int   // documents with a label that counts
	files     int   // that have been read
	apart     apart // rows that no other file may have
	account
	rowDone func() // is called after each row; may be nil
}

// newJSONL reads as a configuration says.
func newJSONL(config Config) (*jsonl, error) {
	j := &jsonl{
		fields: config.Fields, end: config.Layout.End, vocab: config.Vocab, ofText: 256, text: config.kind() == "bytes" || config.tokenizes(),
		replace: config.Invalid == invalidReplace, limit: maxRow,
	}
	if config.tokenizes() {
		j.ofText, j.around = config.limit(), config.border()
		j.encode = func(text string) ([]int32, error) { return config.Tokenizer.Encode(text, config.options()) }
		of := config.Chats.Options
		of.End = j.end
		var err error
		if j.chats, err = chat.NewEncoder(config.Tokenizer, config.Chats.Template, of); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	j.labels, j.names = config.Labels, config.Names
	j.format, j.group, j.lacking = config.Format, config.group(), config.Chats.Lacking
	if j.vocab == 0 {
		j.vocab = j.ofText
	}
	if end := j.end; end != nil {
		if *end >= j.vocab && (config.Vocab > 0 || *end >= 1<<31-1) {
			return nil, fmt.Errorf("data: end token (data.eos): %d, want less than the vocabulary %d (model.vocab)", *end, j.vocab)
		}
		j.vocab, j.ofText = max(j.vocab, *end+1), max(j.ofText, *end+1)
	}
	return j, nil
}

// document is the tokens of one document.
type document struct {
	tokens []uint32
	masked bool    // some of them are no labels
	form   form    // of its row
	beside float32 // group.laid

	sum            uint64   // of the first of a row: of all its tokens, where files are held out
	row, otherwise string   // where it has other tokens than earlier programs made of it: which it is, and why
	unread         []string // keys of its row that nothing reads
}

// learns tells whether a token of a document is to be predicted: the first never is.
func (d document) learns() bool {
	return len(d.tokens) > 1 && (!d.masked || slices.ContainsFunc(d.tokens[1:], func(t uint32) bool { return t&unlabelled == 0 }))
}

// add adds documents to those that there are.
func (j *jsonl) add(documents []document) error {
	if len(documents) > 0 {
		j.apart.add(j.files, documents[0].sum)
	}
	if j.files < j.apart.files {
		j.Held += int64(len(documents))
	}
	for _, d := range documents {
		if int64(len(d.tokens)) > math.MaxInt32 {
			return fmt.Errorf("a document of %d tokens, wanted at most %d", len(d.tokens), math.MaxInt32)
		}
		j.documents++
		j.account.add(j.files, d)
		if d.learns() {
			j.learn++
		}
		if err := j.to.add(d.tokens); err != nil {
			return err
		}
		if err := j.to.part(d.part()); err != nil {
			return err
		}
	}
	return nil
}

// mended is a row with U+FFFD in place of what is no character, where that is asked for.
func (j *jsonl) mended(line []byte) []byte {
	if !j.replace {
		return line
	}
	if !utf8.Valid(line) {
		line = []byte(characters.Replaced(line))
	}
	return characters.ReplacedJSON(line)
}

// document is what one row says.
func (j *jsonl) document(line []byte) (d document, err error) {
	object, err := objectOf(line)
	if err != nil {
		return d, err
	}
	if format := j.formatOf(object); format != "" {
		return j.conversation(line, format)
	}
	name, err := j.fieldOf(object)
	var refused error // which says more than that there is no such field
	if d.unread, refused = j.look(object, name, err == nil && object[name][0] == '['); refused != nil {
		return d, refused
	}
	if err != nil {
		return d, err
	}
	first := object[name]
	if j.fields.Prompt != "" {
		raw, ok := object[j.fields.Prompt]
		if !ok {
			return d, missing(object, j.fields.Prompt)
		}
		first = raw
		if err = j.append(&d, first); err != nil {
			return d, fmt.Errorf("field %q: %w", j.fields.Prompt, err)
		}
		for i := range d.tokens {
			d.tokens[i] |= unlabelled
		}
	}
	prompt := len(d.tokens)
	d.masked = prompt > 0
	if err = j.append(&d, object[name]); err != nil {
		return d, fmt.Errorf("field %q: %w", name, err)
	}
	if j.fields.Mask != "" {
		raw, ok := object[j.fields.Mask]
		if !ok {
			return d, missing(object, j.fields.Mask)
		}
		if err := ofMask(j.fields.Mask, d.tokens[prompt:], raw); err != nil {
			return d, fmt.Errorf("field %q: %w", j.fields.Mask, err)
		}
		d.masked = true
	}
	if object[name][0] == '[' {
		if err := j.masks(&d, prompt, object); err != nil {
			return d, err
		}
	}
	j.surround(&d, prompt, first[0] == '"', object[name][0] == '"')
	return d, nil
}

// objectOf reads a row.
func objectOf(line []byte) (object map[string]json.RawMessage, err error) {
	switch begin := bytes.TrimSpace(line); {
	case bytes.HasPrefix(line, []byte("\ufeff")):
		return nil, errors.New("found a byte-order mark, wanted an object: save the file as UTF-8 without one")
	case !utf8.Valid(line):
		return nil, fmt.Errorf("not UTF-8: %w", characters.Check(string(line), 0))
	case begin[0] == '[':
		return nil, errors.New("found the beginning of an array, wanted an object: one array of objects has a file for itself")
	}
	var other *json.UnmarshalTypeError
	if err := json.Unmarshal(line, &object); errors.As(err, &other) {
		return nil, fmt.Errorf("found a %s, wanted an object", other.Value)
	} else if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errors.New("found null, wanted an object")
	}
	if n := pairs(line); n != len(object) {
		return nil, fmt.Errorf("found %d keys, %d of them different (%q): wanted each once, as only the last would count", n, len(object), slices.Sorted(maps.Keys(object)))
	}
	return object, nil
}

// pairs counts the keys of a JSON object, which is known to be one: the colons that stand in it and in nothing deeper.
func pairs(line []byte) (n int) {
	depth, text := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ':' && depth == 1:
			n++
		}
	}
	return n
}

// fieldOf is the field that has the document.
func (j *jsonl) fieldOf(object map[string]json.RawMessage) (string, error) {
	wanted := j.fields.Documents()
	for _, name := range wanted {
		if _, ok := object[name]; ok {
			return name, nil
		}
	}
	err := missing(object, wanted...)
	if j.fields == (data.Fields{}) {
		err = fmt.Errorf("%w, or the keys of a conversation (data.format)", err)
	}
	return "", err
}

// surround puts around a document, which has a prompt of so many tokens, what stands before a text, if it begins with text, and what ends it. That is learned
// where the token before it is.
func (j *jsonl) surround(d *document, prompt int, begins, ends bool) {
	var before, behind []int32
	if begins {
		before = j.around.before
	}
	switch {
	case ends && j.encode != nil:
		behind = j.around.behind
	case j.end != nil && *j.end >= 0:
		behind = []int32{int32(*j.end)}
	case j.end == nil && ends:
		behind = []int32{0}
	}
	front, back := before, behind
	if j.encode != nil {
		if front, _ = chat.Around(signed(d.tokens[:min(len(before), len(d.tokens))]), before, nil); ends {
			text := d.tokens[prompt:]
			_, back = chat.Around(signed(text[max(len(text)-len(behind), 0):]), nil, behind)
		}
		if len(front) < len(before) || len(back) < len(behind) {
			d.otherwise = "what stands around a text is there already"
		}
	}
	hidden, last := uint32(0), uint32(0)
	if j.fields.Prompt != "" {
		hidden = unlabelled
	}
	if n := len(d.tokens); n > 0 {
		last = d.tokens[n-1] & unlabelled
	} else if len(front) > 0 {
		last = hidden
	}
	d.tokens = slices.Insert(d.tokens, 0, marked(front, hidden)...)
	d.tokens = append(d.tokens, marked(back, last)...)
}

// signed are tokens as chat has them.
func signed(tokens []uint32) (ids []int32) {
	for _, t := range tokens {
		ids = append(ids, int32(t&^unlabelled))
	}
	return ids
}

// marked are tokens, each with a mark.
func marked(ids []int32, mark uint32) (tokens []uint32) {
	for _, id := range ids {
		tokens = append(tokens, uint32(id)|mark)
	}
	return tokens
}

func missing(object map[string]json.RawMessage, wanted ...string) error {
	return fmt.Errorf("found fields %q, wanted %q", slices.Sorted(maps.Keys(object)), wanted)
}
