package tokenizer

import (
	"errors"
	"fmt"
	"time"
)

// Tokenizers come from strangers, and a few words in one can ask for more memory or time than any machine has. So what its steps may take for a text is
// bounded by the text.
const (
	growthRate  = 16               // bytes that all steps together may add, for each byte of a text
	growthBase  = 64 << 10         // and beside that
	searchBase  = 10 * time.Second // that all searches of regular expressions may take
	searchBytes = 100_000          // and a second more for each so many bytes
)

// An allowance is what the steps of a tokenizer may still take for a text. Without one, which is nil, they may take anything.
type allowance struct {
	bytes  int // of the text
	growth int // bytes that steps may still add
	base   time.Duration
	search time.Duration // that searches may still take
}

// newAllowance begins a text, in which searches may take most beside what its bytes give them; 0: searchBase.
func newAllowance(most time.Duration) *allowance {
	if most <= 0 || most > searchBase {
		most = searchBase
	}
	return &allowance{growth: growthBase, base: most, search: most}
}

// add adds to the text.
func (a *allowance) add(bytes int) {
	a.bytes += bytes
	a.growth += growthRate * bytes
	a.search += time.Duration(bytes) * (time.Second / searchBytes)
}

// grow takes so many bytes, for a step that is about to add them.
func (a *allowance) grow(bytes int) error {
	if a == nil || bytes <= 0 {
		return nil
	}
	if bytes > a.growth {
		most := growthBase + growthRate*a.bytes
		return &growthError{fmt.Sprintf("found %d bytes put into a text of %d, wanted at most %d by all steps (%d for each of its bytes, and %d)",
			most-a.growth+bytes, a.bytes, most, growthRate, growthBase)}
	}
	a.growth -= bytes
	return nil
}

// A growthError is a step that makes more of a text than it may.
type growthError struct{ text string }

func (e *growthError) Error() string { return e.text }

// A searchError is a regular expression whose searches have taken too long.
type searchError struct {
	pattern string
	at      int64  // byte of the text near which it searched
	text    string // that stands there
	wanted  string
}

func (e *searchError) Error() string {
	return fmt.Sprintf("pattern %s: near byte %d, %s: found searches without an end, wanted it %s", excerpt(e.pattern), e.at, excerpt(e.text), e.wanted)
}

// placed is err, of a part of a text that begins at a byte.
func placed(err error, begin int64) error {
	var late *searchError
	if errors.As(err, &late) {
		late.at += begin
	}
	return err
}

// failed is an error of a text; one of what the tokenizer does with it names the tokenizer.
func (t *Tokenizer) failed(doing string, err error) error {
	var late *searchError
	var grown *growthError
	if len(t.files) > 0 && (errors.As(err, &late) || errors.As(err, &grown)) {
		return fmt.Errorf("tokenizer: %s: %s: %w", doing, t.files[0], err)
	}
	return fmt.Errorf("tokenizer: %s: %w", doing, err)
}

// excerpt quotes the beginning of a text.
func excerpt(text string) string {
	const most = 40
	if chars := []rune(text[:min(len(text), 4*most)]); len(chars) > most {
		return fmt.Sprintf("%q...", string(chars[:most]))
	}
	return fmt.Sprintf("%q", text)
}
