package texts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gputrain/internal/formats"
	"gputrain/internal/terminal"
)

// Tally is what became of the documents of a source.
type Tally struct {
	Source    string   `json:"source"`             // its files
	Template  string   `json:"template,omitempty"` // of conversations
	Forms     []string `json:"forms"`              // of its rows
	Documents int      `json:"documents"`
	Groups    int      `json:"pairs,omitempty"` // that the documents are
	Held      int      `json:"held,omitempty"`  // documents, or groups of them, that are held out
	Tokens    int64    `json:"tokens"`          // of all documents
	Longest   int      `json:"longest"`         // tokens of the longest document
	Cut       int      `json:"cut"`             // documents of which Layout.Long leaves tokens out
	Divided   int      `json:"divided"`         // documents that several windows share
	Unlearned int      `json:"unlearned"`
	Unread    []string `json:"unread,omitempty"` // keys of rows that nothing reads, as far as they were noted
	Windows   int64    `json:"windows"`
	Room      int64    `json:"room"`    // tokens that the windows have room for
	Filled    int64    `json:"filled"`  // tokens in them
	Learned   int64    `json:"learned"` // labels that count

	group group
}

// of adds what windows hold.
func (t *Tally) of(p *packed) {
	t.Documents, t.Tokens, t.Longest = t.Documents+int(p.documents), t.Tokens+p.tokens, max(t.Longest, int(p.longest))
	t.Cut, t.Divided, t.Unlearned = t.Cut+int(p.cut), t.Divided+int(p.divided), t.Unlearned+int(p.left)
	if t.group = p.group; p.group.windows() {
		t.Groups = t.Documents / p.group.size()
	}
	t.Windows, t.Room = t.Windows+p.Windows(), t.Room+p.Windows()*int64(p.size)
	t.Filled, t.Learned = t.Filled+p.filled, t.Learned+p.learned
}

// String is the line that a run begins with.
func (t Tally) String() string {
	parts := []string{
		fmt.Sprintf("%s: %s of %d tokens in %d windows of %d, %.0f %% full", t.Source, t.Counted(), t.Tokens, t.Windows, t.Room/max(t.Windows, 1), share(t.Filled, t.Room)),
		fmt.Sprintf("%.0f %% of the tokens learned", share(t.Learned, t.Tokens)), fmt.Sprintf("longest %d", t.Longest), fmt.Sprintf("%d cut", t.Cut),
	}
	if t.Template != "" {
		parts = slices.Insert(parts, 1, t.Template)
	}
	if t.Held > 0 {
		parts = append(parts, fmt.Sprintf("%d held out", t.Held))
	}
	if t.Divided > 0 {
		parts = append(parts, fmt.Sprintf("%d in several windows", t.Divided))
	}
	if t.Unlearned > 0 {
		parts = append(parts, fmt.Sprintf("%d have no label that counts and are left out", t.Unlearned))
	}
	if unread := t.NotRead(); unread != "" {
		parts = append(parts, unread)
	}
	return strings.Join(parts, ", ")
}

// Counted says how many documents there are, or groups of them, and of which forms.
func (t Tally) Counted() string {
	text := fmt.Sprintf("%d documents", t.Documents)
	if t.Groups > 0 {
		text = fmt.Sprintf("%d %ss", t.Groups, t.group.name)
	}
	if len(t.Forms) > 0 {
		text += " (" + strings.Join(t.Forms, ", ") + ")"
	}
	return text
}

// share is a part in percent.
func share(part, whole int64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// form is a bit for each form that a row may have, as a token file keeps them.
type form uint32

// forms are their names, in the order of their bits.
var forms = []string{"text", "tokens", formats.Messages, formats.Conversations, formats.Completion, formats.Alpaca}

// ofChats are those of conversations.
var ofChats = formOf(formats.Messages) | formOf(formats.Conversations) | formOf(formats.Completion) | formOf(formats.Alpaca)

func formOf(name string) form { return 1 << slices.Index(forms, name) }

// names are those of the forms that are there.
func (f form) names() (all []string) {
	for i, name := range forms {
		if f>>i&1 == 1 {
			all = append(all, name)
		}
	}
	return all
}

// account is what is known of rows besides their tokens. A token file keeps it, in JSON.
type account struct {
	Forms     form      `json:"forms"`
	Held      int64     `json:"held,omitempty"`      // documents of files that are held out, which come first
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

// NotRead tells of keys of rows that nothing reads, as thoughts of a template that writes none. "": all are read.
func (t Tally) NotRead() string {
	if len(t.Unread) == 0 {
		return ""
	}
	var told []string
	for _, name := range t.Unread[:min(len(t.Unread), keysTold)] {
		told = append(told, terminal.Name(name))
	}
	text := "not read: " + strings.Join(told, ", ")
	if more := len(t.Unread) - len(told); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
