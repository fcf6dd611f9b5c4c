package shaders

import (
	"fmt"
	"regexp"
	"strings"
)

var numbersForm = `@group\(0\)\s*@binding\(%d\)\s*var<storage(?:,\s*(read|read_write))?>\s*(\w+)\s*:\s*array<(vec4<f32>|f32)>;`

// BF16 rewrites a final source so that the array of f32, or of vec4s of these, at a binding has its elements in bf16, two to a word: loads widen
// them, stores round them to nearest even, both by the functions of shared/bf16.wgsl. It is false, and the source as it was, for what is another
// array, is used otherwise than by loading and storing elements, or is written by single numbers, two of which share a word. wide: words are read
// four at a time, as texels want them (see Texels). half: they are in f16, by the functions of shared/halves.wgsl.
func BF16(source string, binding int, wide, half bool) (string, bool) {
	as := "bf16"
	if half {
		as = "half"
	}
	m := regexp.MustCompile(fmt.Sprintf(numbersForm, binding)).FindStringSubmatchIndex(source)
	if m == nil {
		return source, false
	}
	access, name, element := "read", source[m[4]:m[5]], source[m[6]:m[7]]
	if m[2] >= 0 {
		access = source[m[2]:m[3]]
	}
	reader, reads := as+"_of_"+name, false
	read := func(index string) string {
		reads = true
		return reader + "(u32(" + index + "))"
	}
	store := func(index, value string) string { return name + "[" + index + "] = " + as + "_pack4(" + value + ")" }
	if access == "read" || element == "f32" {
		store = nil
	}
	head, inHead := replaceAccesses(source[:m[0]], name, read, store)
	body, inBody := replaceAccesses(source[m[1]:], name, read, store)
	if !inHead || !inBody {
		return source, false
	}
	words, load := "vec2<u32>", fmt.Sprintf("return %s_unpack4(%s[i]);", as, name)
	switch {
	case element == "f32" && half:
		return source, false
	case element == "f32":
		words, load = "u32", fmt.Sprintf("let w = %s[i / 2u]; return bitcast<f32>(select(w << 16u, w & 0xffff0000u, (i & 1u) == 1u));", name)
	case wide && access == "read":
		words, load = "vec4<u32>", fmt.Sprintf("let w = %s[i / 2u]; return %s_unpack4(select(w.xy, w.zw, (i & 1u) == 1u));", name, as)
	}
	declaration := fmt.Sprintf("@group(0) @binding(%d) var<storage, %s> %s: array<%s>;", binding, access, name, words)
	if reads {
		declaration += fmt.Sprintf("\nfn %s(i: u32) -> %s { %s }", reader, element, load)
	}
	source = head + declaration + body
	if half {
		return with(with(source, "half4", "shared/half.wgsl"), "half_pack4", "shared/halves.wgsl"), true
	}
	return with(source, "bf16_pack4", "shared/bf16.wgsl"), true
}

// with is a source with the functions of a file, of which one is function.
func with(source, function, file string) string {
	if strings.Contains(source, "fn "+function+"(") {
		return source
	}
	text, err := sources.ReadFile(file)
	if err != nil {
		panic(err) // it is embedded
	}
	return source + "\n" + string(text)
}
