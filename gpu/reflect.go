package gpu

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The source of a kernel is the one place that says what it binds, in workgroups of which size, and what its params are.

// figuresForm are the figures of an expression, which in WGSL may end with their type.
var figuresForm = regexp.MustCompile(`\b(\d+)[ui]\b`)

var accessOf = map[string]Access{"uniform": Uniform, "storage": Read, "storage,read": Read, "storage,read_write": ReadWrite}

// reflect reads the source. A kernel may be a hundred kilobytes of text and thousands are made, so it looks for the few words that matter.
func (k *Kernel) reflect() error {
	i := 0
	for text := range declared(k.Source, "@group(0)", ";") {
		number, kind, name, of, ok := bindingOf(text)
		if !ok {
			continue
		}
		access, ok := accessOf[strings.ReplaceAll(kind, " ", "")]
		if !ok || number != strconv.Itoa(i) {
			return fmt.Errorf("binding %s var<%s> %s: want bindings in order from 0, uniform or storage", number, kind, name)
		}
		k.Bindings = append(k.Bindings, Binding{name, access})
		if i == 0 && access == Uniform {
			k.params = wordsOfWGSL(k.Source, name, of)
		}
		i++
	}
	for text := range declared(k.Source, "@workgroup_size(", ")") {
		k.workgroup = workgroupOf(text)
		break
	}
	k.matrix = matrixUseOf(k.Source, k.workgroup)
	var err error
	k.shared, err = sharedBytes(k.Source)
	return err
}

// workgroupOf are up to three figures, zeros where there is anything else.
func workgroupOf(text string) [3]int {
	size := [3]int{1, 1, 1}
	for i, figures := range strings.Split(strings.TrimSuffix(strings.TrimSpace(text), ","), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(figures))
		if err != nil || i > 2 {
			return [3]int{}
		}
		size[i] = n
	}
	return size
}

// declared are the texts that follow a word of the source, up to an end. Comments have none.
func declared(source, word, end string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := 0; ; {
			i := strings.Index(source[at:], word)
			if i < 0 {
				return
			}
			line := source[strings.LastIndexByte(source[:at+i], '\n')+1 : at+i]
			at += i + len(word)
			if strings.Contains(line, "//") {
				continue
			}
			if text, _, ended := strings.Cut(source[at:], end); ended && !yield(text) {
				return
			}
		}
	}
}

// bindingOf are the parts of " @binding(number) var<kind> name: of".
func bindingOf(text string) (number, kind, name, of string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimSpace(text), "@binding(")
	if !ok {
		return
	}
	number, text, _ = strings.Cut(text, ")")
	if text, ok = strings.CutPrefix(strings.TrimSpace(text), "var<"); !ok {
		return
	}
	kind, text, _ = strings.Cut(text, ">")
	name, of, ok = strings.Cut(text, ":")
	return number, kind, strings.TrimSpace(name), strings.TrimSpace(of), ok
}

// withoutComments is a source without what follows // on its lines.
func withoutComments(source string) string {
	var code strings.Builder
	for line := range strings.Lines(source) {
		line, _, commented := strings.Cut(line, "//")
		if code.WriteString(line); commented {
			code.WriteByte('\n')
		}
	}
	return code.String()
}

// sharedBytes is the workgroup memory that a source declares, as WebGPU counts it: each variable in units of 16 bytes.
func sharedBytes(source string) (bytes int, err error) {
	for text := range declared(source, "var<workgroup>", ";") {
		name, kind, _ := strings.Cut(text, ":")
		n, err := sizeOfWGSL(source, strings.ReplaceAll(strings.TrimSpace(kind), " ", ""))
		if err != nil {
			return 0, fmt.Errorf("var<workgroup> %s: %w", strings.TrimSpace(name), err)
		}
		bytes += int(alignUp(uint64(n), 16))
	}
	return bytes, nil
}

// sizeOfWGSL is the bytes of a type: a number, a vector of them, or an array.
func sizeOfWGSL(source, kind string) (int, error) {
	if inner, ok := strings.CutPrefix(kind, "array<"); ok && strings.Contains(inner, ",") {
		comma := strings.LastIndexByte(inner, ',')
		of, err := sizeOfWGSL(source, inner[:comma])
		if err != nil {
			return 0, err
		}
		length, err := figureOfWGSL(source, strings.TrimSuffix(inner[comma+1:], ">"))
		return length * of, err
	}
	switch kind {
	case "f32", "u32", "i32", "atomic<u32>", "atomic<i32>":
		return 4, nil
	}
	if n, _ := vectorOf(kind); n > 0 {
		return 4 * n, nil
	}
	return 0, fmt.Errorf("type %s: wanted numbers of 32 bits, vec2 or vec4 of them, or arrays", kind)
}

// figureOfWGSL is the value of an expression of figures and the source's constants.
func figureOfWGSL(source, text string) (int, error) {
	expr, err := parser.ParseExpr(figuresForm.ReplaceAllString(text, "$1"))
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	var value func(e ast.Expr) (int, error)
	value = func(e ast.Expr) (int, error) {
		switch x := e.(type) {
		case *ast.BasicLit:
			return strconv.Atoi(x.Value)
		case *ast.ParenExpr:
			return value(x.X)
		case *ast.Ident:
			for text := range declared(source, "const ", ";") {
				name, value, _ := strings.Cut(text, "=")
				if name, _, _ = strings.Cut(name, ":"); strings.TrimSpace(name) == x.Name {
					return figureOfWGSL(source, value)
				}
			}
		case *ast.BinaryExpr:
			a, err := value(x.X)
			if err != nil {
				return 0, err
			}
			b, err := value(x.Y)
			if err != nil {
				return 0, err
			}
			switch x.Op {
			case token.ADD:
				return a + b, nil
			case token.SUB:
				return a - b, nil
			case token.MUL:
				return a * b, nil
			}
		}
		return 0, fmt.Errorf("%q: wanted sums and products of figures and constants", text)
	}
	return value(expr)
}

// word is 32 bits of a kernel's params.
type word struct{ name, kind string } // u32, i32 or f32

func (w word) String() string { return strings.TrimSpace(w.name + " " + w.kind) }

// wordsOfWGSL lists the words of a variable. What Go has no equal for is of another kind, so that it matches nothing.
func wordsOfWGSL(source, name, kind string) (words []word) {
	if n, of := vectorOf(kind); n > 0 {
		return slices.Repeat([]word{{name, of}}, n)
	}
	for text := range declared(source, "struct ", "}") {
		if found, body, _ := strings.Cut(text, "{"); strings.TrimSpace(found) == kind {
			return wordsOfMembers(body)
		}
	}
	return []word{{name, kind}}
}

// wordsOfMembers lists the words of the body of a struct.
func wordsOfMembers(body string) (words []word) {
	for text := range strings.SplitSeq(withoutComments(body), ",") {
		name, kind, ok := strings.Cut(text, ":")
		if !ok {
			continue // after the last comma
		}
		name = strings.TrimSpace(name)
		member := wordsOfWGSL("", name, strings.TrimSpace(kind))
		for len(words)%len(member) != 0 {
			words = append(words, word{name, "padding"})
		}
		words = append(words, member...)
	}
	return words
}

// vectorOf is the length of a vec2 or vec4 and the type of its elements; 0 for all else.
func vectorOf(kind string) (n int, of string) {
	for prefix, n := range map[string]int{"vec2<": 2, "vec4<": 4} {
		if of, ok := strings.CutPrefix(kind, prefix); ok && strings.HasSuffix(of, ">") {
			return n, strings.TrimSuffix(of, ">")
		}
	}
	return 0, ""
}

// wordsOfGo lists the words of a value; those of a list have no names.
func wordsOfGo(v reflect.Value, name string) (words []word) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			words = append(words, wordsOfGo(v.Field(i), v.Type().Field(i).Name)...)
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			words = append(words, wordsOfGo(v.Index(i), name)...)
		}
	default:
		kind, ok := map[reflect.Kind]string{reflect.Uint32: "u32", reflect.Int32: "i32", reflect.Float32: "f32"}[v.Kind()]
		if !ok {
			kind = v.Type().String()
		}
		words = append(words, word{name, kind})
	}
	return words
}

// matches compares a value with the shader's params.
func (k *Kernel) matches(value any) error {
	v := reflect.ValueOf(value)
	if _, known := k.known.Load(v.Type()); known {
		return nil
	}
	if k.params == nil {
		return fmt.Errorf("params given, but binding 0 is not a uniform")
	}
	found := wordsOfGo(v, "")
	for i, want := range k.params {
		switch {
		case i >= len(found) && strings.HasPrefix(want.name, "pad"):
		case i >= len(found):
			return fmt.Errorf("params %T: found %d words, wanted %s of the shader next", value, len(found), want)
		case found[i].kind != want.kind || found[i].name != "" && !strings.EqualFold(found[i].name, strings.ReplaceAll(want.name, "_", "")):
			return fmt.Errorf("params %T: word %d: found %s, wanted %s of the shader", value, i, found[i], want)
		}
	}
	if len(found) > len(k.params) {
		return fmt.Errorf("params %T: found %d words, wanted %d of the shader", value, len(found), len(k.params))
	}
	if v.Kind() == reflect.Struct { // a list may be of another length the next time
		k.known.Store(v.Type(), nil)
	}
	return nil
}
