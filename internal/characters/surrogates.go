package characters

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A HalfError is half of a surrogate pair in JSON, which encoding/json makes U+FFFD without a word.
type HalfError struct{ Found string }

// Error names it.
func (e *HalfError) Error() string {
	return fmt.Sprintf("half of a surrogate pair (%s), which is no character", e.Found)
}

// CheckJSON refuses the first escape in JSON that is half of a pair.
func CheckJSON(raw []byte) error {
	if all := halves(raw); len(all) > 0 {
		return &HalfError{string(raw[all[0] : all[0]+6])}
	}
	return nil
}

// ReplacedJSON is JSON with U+FFFD in place of halves of pairs.
func ReplacedJSON(raw []byte) []byte {
	all := halves(raw)
	if len(all) > 0 {
		raw = slices.Clone(raw)
	}
	for _, at := range all {
		copy(raw[at:], `\ufffd`)
	}
	return raw
}

// halves are where escapes in JSON, each of six bytes, are halves of pairs.
func halves(raw []byte) (all []int) {
	for at := 0; ; {
		next := bytes.IndexByte(raw[at:], '\\')
		if next < 0 {
			return all
		}
		at += next
		first := escaped(raw[at:])
		switch {
		case first < 0:
			at += min(2, len(raw)-at)
			continue
		case !utf16.IsSurrogate(first):
		case utf16.DecodeRune(first, escaped(raw[at+6:])) != utf8.RuneError:
			at += 6
		default:
			all = append(all, at)
		}
		at += 6
	}
}

// escaped is what \uXXXX stands for at the beginning of JSON; -1 where there is something else.
func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
