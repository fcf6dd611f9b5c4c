package texts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gputrain/internal/terminal"
)

// account is what is known of rows besides their tokens. A token file keeps it, in JSON.
type account struct {
	Forms     form      `json:"forms"`
	Otherwise *otherRow `json:"otherwise,omitempty"` // the first of them
	Unread    []string  `json:"unread,omitempty"`    // keys that nothing reads, as far as keys has noted them
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
}

// in names the row among the files that it was read from.
func (o otherRow) in(texts []textFile) string {
	return fmt.Sprintf("jsonl %q: %s: %s", texts[o.File].path, o.Row, o.Why)
}

// Bounds of what is noted of keys, which may be as many as there are rows, and of what is told of them.
const (
	keysNoted = 64
	keysTold  = 8
	keyLength = 40 // bytes of each
)

// keys notes the keys of rows that nothing reads. Several goroutines may.
type keys struct {
	mu    sync.Mutex
	noted map[string]bool
}

func (k *keys) note(names []string) {
	if len(names) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		if len(k.noted) < keysNoted && !k.noted[name] {
			k.noted[strings.Clone(name)] = true
		}
	}
}

// all are those noted, the shortest first: many long ones are data, not names.
func (k *keys) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for name := range k.noted {
		all = append(all, cutName(name))
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

func cutName(name string) string {
	if len(name) <= keyLength {
		return name
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
