package shaders

import (
	"fmt"
	"regexp"
	"strings"
)

var numbersForm = `@group\(0\)\s*@binding\(%d\)\s*var<storage(?:,\s*(read|read_write))?>\s*(\w+)\s*:\s*array<(vec4<f32>|f32)>;`

// sixteen are numbers of 16 bits, two to a word: what their functions are called, and how one is taken from a word.
type sixteen struct{ name, one string }

var (
	bf16 = sixteen{"bf16", "bitcast<f32>(select(w << 16u, w & 0xffff0000u, (i & 1u) == 1u))"}
	f16  = sixteen{"f16", "f16_unpack1(select(w, w >> 16u, (i & 1u) == 1u))"}
)

// BF16 rewrites a final source so that the array of f32, or of vec4s of these, at a binding has its elements in bf16, two to a word: loads widen
// them, stores round them to nearest even, both by the functions of shared/bf16.wgsl. It is false, and the source as it was, for what is another
// array, is used otherwise than by loading and storing elements, or is written by single numbers, two of which share a word. wide: words are read
// four at a time, as texels want them (see Texels).
func BF16(source string, binding int, wide bool) (string, bool) {
	return bf16.store(source, binding, wide)
}

// F16 is BF16 for elements in f16, by the functions of shared/f16.wgsl.
func F16(source string, binding int, wide bool) (string, bool) {
	return f16.store(source, binding, wide)
}

func (of sixteen) store(source string, binding int, wide bool) (string, bool) {
	m := regexp.MustCompile(fmt.Sprintf(numbersForm, binding)).FindStringSubmatchIndex(source)
	if m == nil {
		return source, false
	}
	access, name, element := "read", source[m[4]:m[5]], source[m[6]:m[7]]
	if m[2] >= 0 {
		access = source[m[2]:m[3]]
	}
	reader, reads := of.name+"_of_"+name, false
	read := func(index string) string {
		reads = true
		return reader + "(u32(" + index + "))"
	}
	store := func(index, value string) string {
		return name + "[" + index + "] = " + of.name + "_pack4(" + value + ")"
	}
	if access == "read" || element == "f32" {
		store = nil
	}
	head, inHead := replaceAccesses(source[:m[0]], name, read, store)
	body, inBody := replaceAccesses(source[m[1]:], name, read, store)
	if !inHead || !inBody {
		return source, false
	}
	words, load := "vec2<u32>", fmt.Sprintf("return %s_unpack4(%s[i]);", of.name, name)
	switch {
	case element == "f32":
		words, load = "u32", fmt.Sprintf("let w = %s[i / 2u]; return %s;", name, of.one)
	case wide && access == "read":
		words, load = "vec4<u32>", fmt.Sprintf("let w = %s[i / 2u]; return %s_unpack4(select(w.xy, w.zw, (i & 1u) == 1u));", name, of.name)
	}
	declaration := fmt.Sprintf("@group(0) @binding(%d) var<storage, %s> %s: array<%s>;", binding, access, name, words)
	if reads {
		declaration += fmt.Sprintf("\nfn %s(i: u32) -> %s { %s }", reader, element, load)
	}
	return of.with(head + declaration + body), true
}

// with is a source with the functions.
func (of sixteen) with(source string) string {
	if strings.Contains(source, "fn "+of.name+"_pack4(") {
		return source
	}
	text, err := sources.ReadFile("shared/" + of.name + ".wgsl")
	if err != nil {
		panic(err) // it is embedded
	}
	return source + "\n" + string(text)
}
