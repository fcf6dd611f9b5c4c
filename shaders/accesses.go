package shaders

import (
	"regexp"
	"strings"
)

var assignForm = regexp.MustCompile(`^(?:\.\w+)?\s*([-+*/]?=)(?:[^=]|$)`)

var storeForm = regexp.MustCompile(`^\s*([-+*/]?)=(?:[^=]|$)`)

// replaceAccesses puts what read and store say in the place of name[index], and of the statement name[index] = value; in whose value the reads are
// replaced already. It is false where the name stands without an index, where an element is written in part, and where one is written and store is nil.
func replaceAccesses(source, name string, read func(index string) string, store func(index, value string) string) (string, bool) {
	var out strings.Builder
	written := 0 // of the source
	for at := range named(source, name) {
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
		index, rest := bracketed(source[end:])
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

// Passes is how often a dispatch moves the elements of an array that it may write, at every place where a source without comments names it: twice where
// it reads and writes them, else once.
func Passes(source, name string) int {
	var read, written bool
	for at := range named(source, name) {
		before, after := strings.TrimRight(source[:at], " "), source[at+len(name):]
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
		_, rest := bracketed(after)
		m := assignForm.FindStringSubmatch(rest)
		read = read || m == nil || m[1] != "="
		written = written || m != nil
	}
	if read && written {
		return 2
	}
	return 1
}
