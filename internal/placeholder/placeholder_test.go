package placeholder

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhat(t *testing.T) {
	for head, says := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 2471645608\n": "found a Git LFS pointer, wanted a file of 2471645608 bytes: git lfs pull",
		"version https://git-lfs.github.com/spec/v1\r\n":                                 "wanted the file: git lfs pull",
		"\ufeff\n<!DOCTYPE html>\n<html>":                                                "found a web page",
		"<HTML lang=en>":                                                                 "found a web page",
		"Access to model google/gemma-3-1b-pt is restricted. You must have access":       `found a server's refusal, "Access to model google/gemma-3-1b-pt is restricted.`,
		`{"error":"Access to model meta-llama/Llama-3.2-1B is restricted"}`:              "signed in",
		"Entry not found": "Entry not found",
	} {
		assert.Contains(t, What([]byte(head)), says, head)
	}
	for _, head := range []string{"", "{", `{"model_type": "llama"}`, "version 2", "\x10\x00\x00\x00\x00\x00\x00\x00{}", strings.Repeat(" ", 600) + "<html>"} {
		assert.Empty(t, What([]byte(head)), head)
	}
}
