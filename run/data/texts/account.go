package texts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gputrain/internal/terminal"
)

// account is what is known of rows besides their tokens. A token file keeps it, in JSON.
type account struct {
	Forms     form      `json:"forms"`
	Otherwise *otherRow `json:"otherwise,omitempty"` // the first of them
	Unread    []string  `json:"unread,omitempty"`    // keys that nothing reads, the first keysNoted
}

// otherRow is a row that has other tokens than earlier programs made of it.
type otherRow struct {
	File int    `json:"file"` // its place among the files
	Row  string `json:"row"`  // "line 3"
	Why  string `json:"why"`
}

// add adds what is known of a document.
func (a *account) add(file int, d document) {
	a.Forms |= d.form
	if a.Otherwise == nil && d.otherwise != "" {
		a.Otherwise = &otherRow{file, d.row, d.otherwise}
	}
	for _, key := range d.unread {
		if key = cutName(key); len(a.Unread) < keysNoted && !slices.Contains(a.Unread, key) {
			a.Unread = append(a.Unread, key)
		}
	}
}

// sorted has the shortest of the keys that nothing reads first: many long ones are data, not names.
func (a account) sorted() account {
	slices.SortFunc(a.Unread, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return a
}

// Bounds of what is noted of keys, which may be as many as there are rows, and of what is told of them.
const (
	keysNoted = 64
	keysTold  = 8
	keyLength = 40 // bytes of each
)

func cutName(name string) string {
	if len(name) <= keyLength {
		return strings.Clone(name) // and not its row
	}
	return strings.ToValidUTF8(name[:keyLength], "") + "..."
}

// unreadText tells of keys that nothing reads.
func unreadText(names []string) string {
	var told []string
	for _, name := range names[:min(len(names), keysTold)] {
		told = append(told, terminal.Name(name))
	}
	text := "not read: " + strings.Join(told, ", ")
	if more := len(names) - len(told); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
