package gpu

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// The source of a kernel is the one place that says what it binds, in workgroups of which size, and what its params are.

var (
	bindingForm   = regexp.MustCompile(`@group\(0\)\s*@binding\((\d+)\)\s*var<([^>]*)>\s*(\w+)\s*:\s*([^;]+);`)
	workgroupForm = regexp.MustCompile(`@workgroup_size\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*(\d+)\s*)?,?\s*\)`)
	structForm    = `struct\s+%s\s*\{([^}]*)\}`
	memberForm    = regexp.MustCompile(`(\w+)\s*:\s*([^,]+)`)
	vectorForm    = regexp.MustCompile(`^vec([24])<(\w+)>$`)
	commentForm   = regexp.MustCompile(`//[^\n]*`)
	sharedForm    = regexp.MustCompile(`var<workgroup>\s*(\w+)\s*:\s*([^;]+);`)
	arrayForm     = regexp.MustCompile(`^array<(.*),([^,<>]*)>$`)
	constForm     = `const\s+%s\s*(?::\s*\w+\s*)?=\s*([^;]+);`
	figuresForm   = regexp.MustCompile(`\b(\d+)[ui]\b`)
)

var accessOf = map[string]Access{"uniform": Uniform, "storage": Read, "storage,read": Read, "storage,read_write": ReadWrite}

// reflect reads the source.
func (k *Kernel) reflect() error {
	for i, m := range bindingForm.FindAllStringSubmatch(k.Source, -1) {
		access, ok := accessOf[strings.ReplaceAll(m[2], " ", "")]
		if !ok || m[1] != strconv.Itoa(i) {
			return fmt.Errorf("binding %s var<%s> %s: want bindings in order from 0, uniform or storage", m[1], m[2], m[3])
		}
		k.Bindings = append(k.Bindings, Binding{m[3], access})
		if i == 0 && access == Uniform {
			k.params = wordsOfWGSL(k.Source, m[3], m[4])
		}
	}
	if m := workgroupForm.FindStringSubmatch(k.Source); m != nil {
		k.workgroup = [3]int{1, 1, 1}
		for i, figures := range m[1:] {
			if figures != "" {
				k.workgroup[i], _ = strconv.Atoi(figures)
			}
		}
	}
	var err error
	k.shared, err = sharedBytes(commentForm.ReplaceAllString(k.Source, ""))
	return err
}

// sharedBytes is the workgroup memory that a source declares, as WebGPU counts it: each variable in units of 16 bytes.
func sharedBytes(source string) (bytes int, err error) {
	for _, m := range sharedForm.FindAllStringSubmatch(source, -1) {
		n, err := sizeOfWGSL(source, strings.ReplaceAll(m[2], " ", ""))
		if err != nil {
			return 0, fmt.Errorf("var<workgroup> %s: %w", m[1], err)
		}
		bytes += int(alignUp(uint64(n), 16))
	}
	return bytes, nil
}

// sizeOfWGSL is the bytes of a type: a number, a vector of them, or an array.
func sizeOfWGSL(source, kind string) (int, error) {
	if m := arrayForm.FindStringSubmatch(kind); m != nil {
		of, err := sizeOfWGSL(source, m[1])
		if err != nil {
			return 0, err
		}
		length, err := figureOfWGSL(source, m[2])
		return length * of, err
	}
	switch kind {
	case "f32", "u32", "i32", "atomic<u32>", "atomic<i32>":
		return 4, nil
	}
	if v := vectorForm.FindStringSubmatch(kind); v != nil {
		n, _ := strconv.Atoi(v[1])
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
			if m := regexp.MustCompile(fmt.Sprintf(constForm, x.Name)).FindStringSubmatch(source); m != nil {
				return figureOfWGSL(source, m[1])
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
	if v := vectorForm.FindStringSubmatch(kind); v != nil {
		n, _ := strconv.Atoi(v[1])
		for range n {
			words = append(words, word{name, v[2]})
		}
		return words
	}
	body := regexp.MustCompile(fmt.Sprintf(structForm, regexp.QuoteMeta(kind))).FindStringSubmatch(source)
	if body == nil {
		return []word{{name, kind}}
	}
	for _, m := range memberForm.FindAllStringSubmatch(commentForm.ReplaceAllString(body[1], ""), -1) {
		member := wordsOfWGSL("", m[1], strings.TrimSpace(m[2]))
		for len(words)%len(member) != 0 {
			words = append(words, word{m[1], "padding"})
		}
		words = append(words, member...)
	}
	return words
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
	if k.params == nil {
		return fmt.Errorf("params given, but binding 0 is not a uniform")
	}
	found := wordsOfGo(reflect.ValueOf(value), "")
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
	return nil
}
