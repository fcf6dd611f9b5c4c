package runfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A placedError knows the line of what is wrong: 0 where that is not known.
type placedError struct {
	line int
	err  error
}

func (e placedError) Error() string { return e.err.Error() }
func (e placedError) Unwrap() error { return e.err }

// lineOf is the line of what is wrong, otherwise when it is not known.
func lineOf(err error, otherwise int) int {
	if placed, ok := errors.AsType[placedError](err); ok && placed.line > 0 {
		return placed.line
	}
	return otherwise
}

// parse reads YAML, but none with anchors: what an alias stands for is said elsewhere, and an alias of aliases can be of any size. Its
// errors are placed.
func parse(text []byte) (*ast.File, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // as some editors write it
	if err := checkUTF8(text); err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(string(text))
	if err := cmp.Or(checkDepth(tokens), checkKeys(tokens)); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, placed(err)
	}
	if len(file.Docs) > 1 {
		return nil, placedError{line(file.Docs[1]), fmt.Errorf("found %d documents, wanted one", len(file.Docs))}
	}
	for _, doc := range file.Docs {
		if err := checkPlain(doc.Body); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// checkDepth refuses brackets in brackets, and entries within entries of one line, in numbers that the parser takes minutes for: its time
// grows with their square.
func checkDepth(tokens token.Tokens) error {
	const most = 100
	brackets, entries, at := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != at {
			at, entries = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		}
		if brackets+entries > most {
			return placedError{at, fmt.Errorf("found values more than %d deep in each other, wanted a run file", most)}
		}
	}
	return nil
}

// checkKeys refuses keys in numbers, and of lengths, that no run file has: the time of the parser grows with the square of the one, that of a
// suggestion with the other.
func checkKeys(tokens token.Tokens) error {
	const most, longest = 10_000, 200
	keys := 0
	for _, t := range tokens {
		if t.Type != token.MappingValueType {
			continue
		}
		if keys++; keys > most {
			return placedError{t.Position.Line, fmt.Errorf("found more than %d keys, wanted a run file", most)}
		}
		if key := t.Prev; key != nil && len(key.Value) > longest {
			return placedError{key.Position.Line, fmt.Errorf("found a key of %d bytes, wanted a run file", len(key.Value))}
		}
	}
	return nil
}

func checkPlain(body ast.Node) error {
	if body == nil {
		return nil
	}
	for _, hidden := range []struct {
		kind ast.NodeType
		name string
	}{{ast.AnchorType, "an anchor"}, {ast.AliasType, "an alias"}, {ast.MergeKeyType, "a merge key"}} {
		if nodes := ast.Filter(hidden.kind, body); len(nodes) > 0 {
			n := nodes[0]
			return placedError{line(n), fmt.Errorf("found %s (%s), wanted values that stand where they are used", hidden.name, shown(n))}
		}
	}
	return nil
}

func checkUTF8(text []byte) error {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return placedError{1, errors.New("found UTF-16, wanted text in UTF-8")}
	}
	for i, n := 0, 1; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return placedError{n, fmt.Errorf("found byte 0x%02x, wanted text in UTF-8", text[i])}
		}
		if r == '\n' {
			n++
		}
		i += size
	}
	return nil
}

// position is how the parser writes one within a message.
var position = regexp.MustCompile(`at \[([0-9]+):[0-9]+\]`)

// placed takes an error of the parser apart, which writes "[2:1] message".
func placed(err error) error {
	of, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return err
	}
	at := 0
	if t := of.GetToken(); t != nil && t.Position != nil {
		at = t.Position.Line
	}
	return placedError{at, errors.New(position.ReplaceAllString(of.GetMessage(), "in line $1"))}
}

// shown is a node as an error quotes it: on one line, and not endless.
func shown(node ast.Node) string {
	const most = 200
	text := strings.Join(strings.Fields(node.String()), " ")
	if node.Type() == ast.NullType && node.GetToken().Type == token.ImplicitNullType {
		text = "nothing"
	}
	if cut := []rune(text); len(cut) > most {
		text = string(cut[:most]) + "..."
	}
	return text
}
