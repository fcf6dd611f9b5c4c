package texts

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/internal/formats"
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
	if t.group = p.group; p.Group() > 1 {
		t.Groups = t.Documents / p.Group()
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
	if len(t.Unread) > 0 {
		parts = append(parts, unreadText(t.Unread))
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
