package shaders

import (
	"fmt"
	"iter"
	"regexp"
	"strings"
)

// texelRow is the texels in a row of a texture that holds an array: texel i is at (i % texelRow, i / texelRow).
const texelRow = 4096

var arrayForm = `@group\(0\)\s*@binding\(%d\)\s*var<storage(%s)>\s*(\w+)\s*:\s*array<((?:vec4<)?)(f32|u32|i32)>{1,2};`

// Texels rewrites a final source so that the read-only array at a binding is read from a texture of four f32 a texel, with the same elements
// in the same order. It is false, and the source as it was, for what is no array of f32, u32 or i32, or of vec4s of these, or is used otherwise
// than by reading elements.
func Texels(source string, binding int) (string, bool) {
	form := regexp.MustCompile(fmt.Sprintf(arrayForm, binding, `|,\s*read`))
	m := form.FindStringSubmatchIndex(source)
	if m == nil {
		return source, false
	}
	name, vector, scalar := source[m[4]:m[5]], m[6] != m[7], source[m[8]:m[9]]
	read := func(index string) string { return texelReader(name) + "(u32(" + index + "))" }
	body, ok := replaceAccesses(source[m[1]:], name, read, nil)
	head, inHead := replaceAccesses(source[:m[0]], name, read, nil)
	if !ok || !inHead {
		return source, false
	}
	return head + texelDeclaration(name, binding, vector, scalar) + body, true
}

// WrittenTexels is Texels for an array of vec4s of f32 that is written and never read.
func WrittenTexels(source string, binding int) (string, bool) {
	form := regexp.MustCompile(fmt.Sprintf(arrayForm, binding, `,\s*read_write`))
	m := form.FindStringSubmatchIndex(source)
	if m == nil || source[m[6]:m[9]] != "vec4<f32" {
		return source, false
	}
	name, read := source[m[4]:m[5]], false
	load := func(string) string {
		read = true
		return ""
	}
	store := func(index, value string) string {
		return fmt.Sprintf("textureStore(%s, vec2<u32>((%s) & %du, (%s) >> 12u), %s)", name, index, texelRow-1, index, value)
	}
	body, ok := replaceAccesses(source[m[1]:], name, load, store)
	head, inHead := replaceAccesses(source[:m[0]], name, load, store)
	if !ok || !inHead || read {
		return source, false
	}
	return head + fmt.Sprintf("@group(0) @binding(%d) var %s: texture_storage_2d<rgba32float, write>;", binding, name) + body, true
}

// texelDeclaration declares the texture and the function that reads an element of it.
func texelDeclaration(name string, binding int, vector bool, scalar string) string {
	load := fmt.Sprintf("textureLoad(%s, vec2<u32>(%%[1]s & %du, %%[1]s >> %du))", name, texelRow-1, 12)
	texel := func(index string) string {
		text := fmt.Sprintf(load, index)
		if scalar != "f32" {
			return "bitcast<vec4<" + scalar + ">>(" + text + ")"
		}
		return text
	}
	declaration := fmt.Sprintf("@group(0) @binding(%d) var %s: texture_storage_2d<rgba32float, read>;\n", binding, name)
	if vector {
		return declaration + fmt.Sprintf("fn %s(i: u32) -> vec4<%s> { return %s; }", texelReader(name), scalar, texel("i"))
	}
	return declaration + fmt.Sprintf("fn %s(i: u32) -> %s { let v = %s; return select(select(v.x, v.y, (i & 1u) == 1u), select(v.z, v.w, (i & 1u) == 1u), (i & 2u) == 2u); }",
		texelReader(name), scalar, texel("(i >> 2u)"))
}

func texelReader(name string) string { return "texel_of_" + name }

// named are the places in a source where a name stands as a whole word.
func named(source, name string) iter.Seq[int] {
	letter := func(i int) bool {
		return i >= 0 && i < len(source) && (source[i] == '_' || '0' <= source[i] && source[i] <= '9' || 'a' <= source[i]|0x20 && source[i]|0x20 <= 'z')
	}
	return func(yield func(int) bool) {
		for from := 0; ; from++ {
			i := strings.Index(source[from:], name)
			if i < 0 {
				return
			}
			from += i
			if !letter(from-1) && !letter(from+len(name)) && !yield(from) {
				return
			}
		}
	}
}

// bracketed splits "[a[i] + 1] * b" into "a[i] + 1" and " * b".
func bracketed(s string) (inner, rest string) {
	depth := 0
	for i, c := range s {
		switch c {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return s[1:i], s[i+1:]
			}
		}
	}
	return "", ""
}
