package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fields names what the lines of a JSONL file have.
type Fields struct {
	// Text is the field of the document: text, whose bytes are the tokens, or a list of tokens. "": "text", or "input_ids" where a line
	// lacks that.
	Text string
	// Prompt is a field of the same form that stands before it and is not to be predicted. "": none.
	Prompt string
	// Mask is a list as long as that of the tokens: 1 for those to be predicted, 0 for those not. "": none.
	Mask string
}

// maxLine is the length of the longest line that is read.
const maxLine = 64 << 20

// jsonl turns lines of JSON into documents.
type jsonl struct {
	fields Fields
	end    *int
	vocab  int  // every token is below it
	text   bool // text may be given: its bytes are tokens
	limit  int  // bytes a line

	spool *spool
	spans []span
	lists bool // a line had a list of tokens
	line  []uint32
}

// file reads the documents of one file. Compression is known by the name.
func (j *jsonl) file(name string, r io.Reader) error {
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("data: jsonl %q: %w", name, err)
		}
		r = z
	}
	lines := bufio.NewReaderSize(r, 1<<20)
	for number := 1; ; number++ {
		line, err := readLine(lines, j.limit)
		if len(bytes.TrimSpace(line)) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			if docErr := j.document(line); docErr != nil {
				return fmt.Errorf("data: jsonl %q: line %d: %w", name, number, docErr)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("data: jsonl %q: line %d: %w", name, number, err)
		}
	}
}

// readLine returns the next line; with the last, which may lack its end, comes io.EOF.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(long)+len(part) > limit {
			return nil, fmt.Errorf("longer than %d bytes: is it JSON, one document a line?", limit)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
		case long == nil:
			return part, err
		default:
			return append(long, part...), err
		}
	}
}

// document adds what one line says.
func (j *jsonl) document(line []byte) error {
	object, err := objectOf(line)
	if err != nil {
		return err
	}
	name, err := j.fieldOf(object)
	if err != nil {
		return err
	}
	tokens := j.line[:0]
	if j.fields.Prompt != "" {
		raw, ok := object[j.fields.Prompt]
		if !ok {
			return missing(object, j.fields.Prompt)
		}
		if tokens, err = j.tokens(tokens, raw); err != nil {
			return fmt.Errorf("field %q: %w", j.fields.Prompt, err)
		}
		for i := range tokens {
			tokens[i] |= unlabelled
		}
	}
	masked, prompt := len(tokens) > 0, len(tokens)
	if tokens, err = j.tokens(tokens, object[name]); err != nil {
		return fmt.Errorf("field %q: %w", name, err)
	}
	if j.fields.Mask != "" {
		raw, ok := object[j.fields.Mask]
		if !ok {
			return missing(object, j.fields.Mask)
		}
		if err := mask(tokens[prompt:], raw); err != nil {
			return fmt.Errorf("field %q: %w", j.fields.Mask, err)
		}
		masked = true
	}
	tokens = j.ended(tokens, object[name])
	j.line = tokens
	j.spans = append(j.spans, span{start: j.spool.count, count: int32(len(tokens)), masked: masked})
	return j.spool.add(tokens)
}

// objectOf reads a line.
func objectOf(line []byte) (object map[string]json.RawMessage, err error) {
	switch begin := bytes.TrimSpace(line); {
	case bytes.HasPrefix(line, []byte("\ufeff")):
		return nil, errors.New("found a byte-order mark, wanted an object: save the file as UTF-8 without one")
	case !utf8.Valid(line):
		return nil, errors.New("not UTF-8")
	case begin[0] == '[':
		return nil, errors.New("found the beginning of an array, wanted an object a line: jq -c '.[]' FILE writes an array so")
	}
	if err := json.Unmarshal(line, &object); err != nil {
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
	wanted := []string{j.fields.Text}
	if j.fields.Text == "" {
		wanted = []string{"text", "input_ids"}
	}
	for _, name := range wanted {
		if _, ok := object[name]; ok {
			return name, nil
		}
	}
	return "", missing(object, wanted...)
}

// ended puts the end token behind a document; it counts where the token before it does.
func (j *jsonl) ended(tokens []uint32, raw json.RawMessage) []uint32 {
	end := -1
	switch {
	case j.end != nil:
		end = *j.end
	case raw[0] == '"':
		end = 0
	}
	if end < 0 {
		return tokens
	}
	last := uint32(0)
	if len(tokens) > 0 {
		last = tokens[len(tokens)-1] & unlabelled
	}
	return append(tokens, uint32(end)|last)
}

func missing(object map[string]json.RawMessage, wanted ...string) error {
	return fmt.Errorf("found fields %q, wanted %q", slices.Sorted(maps.Keys(object)), wanted)
}
