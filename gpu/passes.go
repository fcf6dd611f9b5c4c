package gpu

import (
	"regexp"
	"strings"

	"gputrain/shaders"
)

var assignForm = regexp.MustCompile(`^(?:\.\w+)?\s*([-+*/]?=)(?:[^=]|$)`)

// Passes tells of each binding how often a dispatch moves its elements between memory and the device if it moves each as seldom as it can: once where the
// kernel reads it or writes it, twice where it does both. A uniform counts 0.
func (k *Kernel) Passes() []int {
	source := commentForm.ReplaceAllString(k.Source, "")
	out := make([]int, len(k.Bindings))
	for i, b := range k.Bindings {
		switch b.Access {
		case Read, Texels:
			out[i] = 1
		case ReadWrite:
			out[i] = passesOf(source, b.Name)
		}
	}
	return out
}

// passesOf looks at every place where the source names an array that may be written.
func passesOf(source, name string) int {
	var read, written bool
	for _, at := range regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).FindAllStringIndex(source, -1) {
		before, after := strings.TrimRight(source[:at[0]], " "), source[at[1]:]
		atomic := strings.HasSuffix(before, "&")
		switch {
		case strings.HasSuffix(before, "."), !strings.HasPrefix(after, "[") && !atomic: // a member, the declaration, a variable of that name
			continue
		case strings.HasSuffix(before, "arrayLength(&"):
			continue
		case atomic:
			read, written = true, true
			continue
		}
		_, rest := shaders.Bracketed(after)
		m := assignForm.FindStringSubmatch(rest)
		read = read || m == nil || m[1] != "="
		written = written || m != nil
	}
	if read && written {
		return 2
	}
	return 1
}
