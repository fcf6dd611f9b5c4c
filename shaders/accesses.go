package shaders

import (
	"regexp"
	"strings"
)

var storeForm = regexp.MustCompile(`^\s*([-+*/]?)=(?:[^=]|$)`)

// replaceAccesses puts what read and store say in the place of name[index], and of the statement name[index] = value; in whose value the reads are
// replaced already. It is false where the name stands without an index, where an element is written in part, and where one is written and store is nil.
func replaceAccesses(source, name string, read func(index string) string, store func(index, value string) string) (string, bool) {
	var out strings.Builder
	written := 0 // of the source
	for at := range Named(source, name) {
		if at < written {
			continue // within the brackets of the last
		}
		end := at + len(name)
		line := source[strings.LastIndexByte(source[:at], '\n')+1 : at]
		before := strings.TrimRight(source[:at], " ")
		switch {
		case strings.HasSuffix(before, "&"):
			return "", false
		case strings.Contains(line, "//") || strings.HasSuffix(before, ".") || !strings.HasPrefix(source[end:], "["):
			continue // a comment, a member, or a variable of a function
		}
		index, rest := Bracketed(source[end:])
		index, ok := replaceAccesses(index, name, read, store)
		if !ok {
			return "", false
		}
		var text string
		if m := storeForm.FindStringSubmatch(strings.TrimLeft(rest, ".xyzw")); m != nil && store != nil {
			value, after, ended := strings.Cut(rest[strings.IndexByte(rest, '=')+1:], ";")
			value, ok := replaceAccesses(strings.TrimSpace(value), name, read, store)
			if !ok || !ended || strings.HasPrefix(rest, ".") {
				return "", false
			}
			if m[1] != "" {
				value = read(index) + " " + m[1] + " (" + value + ")"
			}
			text, rest = store(index, value)+";", after
		} else if m != nil {
			return "", false
		} else {
			text = read(index)
		}
		out.WriteString(source[written:at] + text)
		written = len(source) - len(rest)
	}
	out.WriteString(source[written:])
	return out.String(), true
}
