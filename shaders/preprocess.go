package shaders

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// node is a line of text, or a directive with the nodes it governs.
type node struct {
	file string
	line int
	kind string // "text", "import", "if", "for"
	text string // the line, the imported file or the flag

	negated        bool   // if
	body, other    []node // if and for; other is the #else part
	given          string // import: "NAME=text NAME=text"
	variable, a, b string // for
}

func (n *node) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", n.file, n.line, fmt.Errorf(format, args...))
}

// parsed is a file as it stands, whatever the variant, with the flags and constants that it names in whatever branch.
type parsed struct {
	nodes            []node
	flags, constants map[string]bool
}

// library keeps the files that are parsed: a few dozen of them make thousands of kernels.
type library struct {
	files fs.FS
	known sync.Map // by name, *parsed
}

type preprocessor struct {
	library          *library
	variant          Variant
	imported         map[string]bool
	flags, constants map[string]bool // that the files use, in whatever branch
}

var (
	importForm = regexp.MustCompile(`^#import\s+"([^"]+)"((?:\s+[A-Z_]+=\S+)*)$`)
	ifForm     = regexp.MustCompile(`^#if\s+(!?)\s*([A-Za-z_]\w*)$`)
	forForm    = regexp.MustCompile(`^#for\s+([A-Za-z_]\w*)\s+in\s+(\S+?)\.\.(\S+)$`)
)

func (l *library) load(name string) (*parsed, error) {
	if known, ok := l.known.Load(name); ok {
		return known.(*parsed), nil
	}
	raw, err := fs.ReadFile(l.files, name)
	if err != nil {
		return nil, fmt.Errorf("no file %q", name)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	at := 0
	p := &parsed{flags: map[string]bool{}, constants: map[string]bool{}}
	var end string
	if p.nodes, end, err = p.parse(name, lines, &at); err != nil {
		return nil, err
	}
	if end != "" {
		return nil, fmt.Errorf("%s:%d: %s without its beginning", name, at, end)
	}
	l.known.Store(name, p)
	return p, nil
}

// parse reads nodes up to the directive that ends the block it is in, which it returns.
func (p *parsed) parse(file string, lines []string, at *int) (nodes []node, end string, err error) {
	for *at < len(lines) {
		text := lines[*at]
		*at++
		n := node{file: file, line: *at, kind: "text", text: text}
		for _, name, rest, ok := cutPlaceholder(text); ok; _, name, rest, ok = cutPlaceholder(rest) {
			p.constants[name] = true
		}
		directive := strings.TrimSpace(text)
		if i := strings.Index(directive, "//"); i > 0 && strings.HasPrefix(directive, "#") {
			directive = strings.TrimSpace(directive[:i])
		}
		switch {
		case !strings.HasPrefix(directive, "#"):
		case directive == "#else" || directive == "#endif" || directive == "#end":
			return nodes, directive, nil
		case importForm.MatchString(directive):
			form := importForm.FindStringSubmatch(directive)
			n.kind, n.text, n.given = "import", form[1], form[2]
		case ifForm.MatchString(directive):
			err = p.parseIf(&n, ifForm.FindStringSubmatch(directive), lines, at)
		case forForm.MatchString(directive):
			err = p.parseFor(&n, forForm.FindStringSubmatch(directive), lines, at)
		default:
			err = n.errorf("unknown directive %q, want #import \"file\" [NAME=text], #if [!]FLAG, #else, #endif, #for I in A..B or #end", directive)
		}
		if err != nil {
			return nil, "", err
		}
		nodes = append(nodes, n)
	}
	return nodes, "", nil
}

func (p *parsed) parseIf(n *node, form, lines []string, at *int) (err error) {
	n.kind, n.negated, n.text = "if", form[1] == "!", form[2]
	p.flags[n.text] = true
	var end string
	if n.body, end, err = p.parse(n.file, lines, at); err != nil {
		return err
	}
	if end == "#else" {
		if n.other, end, err = p.parse(n.file, lines, at); err != nil {
			return err
		}
	}
	if end != "#endif" {
		return n.errorf("#if %s ends with %q, want #endif", n.text, end)
	}
	return nil
}

func (p *parsed) parseFor(n *node, form, lines []string, at *int) (err error) {
	n.kind, n.variable, n.a, n.b = "for", form[1], form[2], form[3]
	for _, bound := range []string{n.a, n.b} {
		p.constants[strings.Trim(bound, "{} ")] = true
	}
	var end string
	if n.body, end, err = p.parse(n.file, lines, at); err != nil {
		return err
	}
	if end != "#end" {
		return n.errorf("#for %s ends with %q, want #end", n.variable, end)
	}
	return nil
}

// emit writes nodes; vars are the variables of the loops around them.
func (p *preprocessor) emit(out *strings.Builder, nodes []node, vars map[string]string) error {
	for i := range nodes {
		n := &nodes[i]
		var err error
		switch n.kind {
		case "text":
			var text string
			if text, err = p.expand(n, n.text, vars, 0); err == nil {
				out.WriteString(text)
				out.WriteByte('\n')
			}
		case "import":
			err = p.emitImport(out, n, vars)
		case "if":
			set, known := p.variant.Flags[n.text]
			if !known {
				return n.errorf("unknown flag %s, the variant gives %v", n.text, sortedKeys(p.variant.Flags))
			}
			if set != n.negated {
				err = p.emit(out, n.body, vars)
			} else {
				err = p.emit(out, n.other, vars)
			}
		case "for":
			err = p.emitFor(out, n, vars)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// emitImport writes a file once for every set of names that it is given; it sees them and the constants, but no loops around the import.
func (p *preprocessor) emitImport(out *strings.Builder, n *node, vars map[string]string) error {
	given, err := p.expand(n, n.given, vars, 0)
	if err != nil {
		return err
	}
	if p.imported[n.text+given] {
		return nil
	}
	p.imported[n.text+given] = true
	file, err := p.library.load(n.text)
	if err != nil {
		return n.errorf("import: %w", err)
	}
	maps.Copy(p.flags, file.flags)
	inner := map[string]string{}
	for _, pair := range strings.Fields(given) {
		name, text, _ := strings.Cut(pair, "=")
		if inner[name] = text; !file.constants[name] {
			return n.errorf("import: %q has no {{%s}}", n.text, name)
		}
	}
	for name := range file.constants {
		if _, taken := inner[name]; !taken {
			p.constants[name] = true
		}
	}
	return p.emit(out, file.nodes, inner)
}

func (p *preprocessor) emitFor(out *strings.Builder, n *node, vars map[string]string) error {
	a, err := p.bound(n, n.a, vars)
	if err != nil {
		return err
	}
	b, err := p.bound(n, n.b, vars)
	if err != nil {
		return err
	}
	if _, taken := vars[n.variable]; taken {
		return n.errorf("%s is the variable of a #for around this one", n.variable)
	}
	if b-a > 4096 {
		return n.errorf("%d iterations, at most 4096", b-a)
	}
	inner := map[string]string{}
	maps.Copy(inner, vars)
	for i := a; i < b; i++ {
		inner[n.variable] = strconv.Itoa(i)
		if err := p.emit(out, n.body, inner); err != nil {
			return err
		}
	}
	return nil
}

func (p *preprocessor) bound(n *node, text string, vars map[string]string) (int, error) {
	text, err := p.expand(n, text, vars, 0)
	if err != nil {
		return 0, err
	}
	if v, err := strconv.Atoi(text); err == nil {
		return v, nil
	}
	value, err := p.expand(n, "{{"+text+"}}", vars, 0)
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(strings.TrimSuffix(value, "u"))
	if err != nil {
		return 0, n.errorf("bound %s is %q, want an integer", text, value)
	}
	return v, nil
}

// expand puts constants and loop variables into a line.
func (p *preprocessor) expand(n *node, text string, vars map[string]string, depth int) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	if depth > 8 {
		return "", n.errorf("constants that hold each other")
	}
	var out strings.Builder
	for {
		before, name, rest, found := cutPlaceholder(text)
		out.WriteString(before)
		if !found {
			break
		}
		value, ok := vars[name]
		if !ok {
			p.constants[name] = true
			value, ok = p.variant.Constants[name]
		}
		if !ok {
			return "", n.errorf("unknown constant %s, the variant gives %v", name, sortedKeys(p.variant.Constants))
		}
		value, err := p.expand(n, value, vars, depth+1)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = rest
	}
	if strings.Contains(out.String(), "{{") {
		return "", n.errorf("%q: want {{NAME}}", strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// cutPlaceholder cuts a text around its first {{NAME}}, spaces in which do not count.
func cutPlaceholder(text string) (before, name, rest string, found bool) {
	for at := 0; ; at++ {
		i := strings.Index(text[at:], "{{")
		if i < 0 {
			return text, "", "", false
		}
		at += i
		inner, rest, closed := strings.Cut(text[at+2:], "}}")
		if name = strings.TrimSpace(inner); closed && isWord(name) {
			return text[:at], name, rest, true
		}
	}
}

func isWord(s string) bool {
	return s != "" && strings.Trim(s, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
