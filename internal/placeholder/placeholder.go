// Package placeholder knows what lies in place of a file that was not downloaded: people take it for the file.
package placeholder

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// HeadBytes is how much of a file What needs to see.
const HeadBytes = 512

var size = regexp.MustCompile(`(?m)^size (\d+)$`)

// What says what a file is that begins with head, and what to do; "" where it may be the file itself.
func What(head []byte) string {
	head = bytes.TrimLeft(bytes.TrimPrefix(head[:min(len(head), HeadBytes)], []byte("\ufeff")), " \t\r\n")
	low := strings.ToLower(string(head))
	switch {
	case strings.HasPrefix(low, "version https://git-lfs.github.com/spec/"):
		wanted := "the file"
		if m := size.FindSubmatch(head); m != nil {
			wanted = fmt.Sprintf("a file of %s bytes", m[1])
		}
		return "found a Git LFS pointer, wanted " + wanted + ": git lfs pull, in that directory, fetches it"
	case strings.HasPrefix(low, "<!doctype html"), strings.HasPrefix(low, "<html"):
		return "found a web page, wanted the file: download it anew, signed in where the model asks for that"
	case strings.HasPrefix(low, "access to model"), strings.HasPrefix(low, "invalid username or password"), strings.HasPrefix(low, "entry not found"),
		strings.HasPrefix(low, "repository not found"), strings.HasPrefix(low, `{"error":`):
		return fmt.Sprintf("found a server's refusal, %.120q, wanted the file: download it anew, signed in where the model asks for that", firstLine(head))
	}
	return ""
}

func firstLine(head []byte) []byte {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return line
}
