package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"gputrain/internal/terminal"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/setup"
)

type dataCmd struct {
	Show dataShowCmd `cmd:"" help:"Show what a run learns from its data: documents as tokens, which of them are learned, and how full windows are."`
}

type dataShowCmd struct {
	runFlags
	Documents int  `help:"Number of documents of each source." default:"3"`
	JSON      bool `help:"One JSON object a line: documents, then what became of all documents of each source."`
}

// shownDocument is a document as --json has it.
type shownDocument struct {
	Source  string  `json:"source"`
	Number  int     `json:"number"` // among those to train on
	Tokens  []int32 `json:"tokens"`
	Learned []int   `json:"learned"`         // 1 for a token that is learned
	Left    int     `json:"left"`            // tokens that data.long leaves out
	Label   *int    `json:"label,omitempty"` // its class
	Text    string  `json:"text,omitempty"`  // with special tokens; "": no tokenizer is known
}

func (c *dataShowCmd) Run(ctx context.Context) error {
	if c.Documents < 0 {
		return usageError{fmt.Errorf("data show: --documents: found %d, wanted 0 or more", c.Documents)}
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	text, tokens, context, err := setup.Text(ctx, cfg, told)
	if err != nil {
		return err
	}
	defer text.Close()
	all, err := text.Show(c.Documents, context)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	if c.JSON {
		out = bufio.NewWriter(screen())
		err = writeShown(out, all, text.Tallies, tokens)
	} else {
		err = printShown(out, all, text, tokens, term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "")
	}
	return flushed(out, err)
}

func writeShown(out io.Writer, all []texts.Shown, tallies []texts.Tally, tokens setup.Tokens) error {
	for _, s := range all {
		d := shownDocument{Source: s.Source, Number: s.Number, Tokens: s.Tokens, Left: s.Left, Label: s.Label, Learned: make([]int, len(s.Learned))}
		for i, learned := range s.Learned {
			if learned {
				d.Learned[i] = 1
			}
		}
		var err error
		if d.Text, err = textOf(tokens, s.Tokens); err == nil {
			err = writeJSON(out, d)
		}
		if err != nil {
			return err
		}
	}
	for _, t := range tallies {
		if err := writeJSON(out, map[string]texts.Tally{"tally": t}); err != nil {
			return err
		}
	}
	return nil
}

// textOf is what tokens stand for, special ones too; "": nothing says.
func textOf(tokens setup.Tokens, ids []int32) (string, error) {
	switch {
	case tokens.Tokenizer != nil:
		return tokens.Tokenizer.Decode(ids, false)
	case tokens.Text() != nil:
		return data.DecodeBytes(ids), nil
	}
	return "", nil
}

// marks stand around what is learned: in colours, or where there are none in brackets.
type marks struct{ learned, given, end string }

// printShown writes documents as a person reads them, and what became of all.
func printShown(out io.Writer, all []texts.Shown, text *texts.Corpus, tokens setup.Tokens, colours bool) error {
	mark := marks{"[[", "", "]]"}
	if colours {
		mark = marks{"\x1b[1;32m", "\x1b[2m", "\x1b[0m"}
		fmt.Fprintf(out, "%slearned%s, %sgiven%s\n\n", mark.learned, mark.end, mark.given, mark.end)
	} else {
		fmt.Fprintf(out, "%slearned%s, given\n\n", mark.learned, mark.end)
	}
	for _, s := range all {
		learned := 0
		for _, l := range s.Learned {
			if l {
				learned++
			}
		}
		fmt.Fprintf(out, "%s, %d: %d tokens, %d learned", terminal.Name(s.Source), s.Number, len(s.Tokens), learned)
		if s.Left > 0 {
			fmt.Fprintf(out, ", %d left out (data.long)", s.Left)
		}
		if s.Label != nil {
			fmt.Fprintf(out, ", label %d", *s.Label)
		}
		fmt.Fprintln(out)
		if err := mark.print(out, s, tokens); err != nil {
			return err
		}
		fmt.Fprint(out, "\n\n")
	}
	if _, are := text.Train.(*data.Prompts); are { // they have no windows
		fmt.Fprintln(out, terminal.Text(strings.Join(text.Notes, "\n")))
		return nil
	}
	for _, t := range text.Tallies {
		fmt.Fprintln(out, terminal.Text(t.String()))
	}
	return nil
}

// print writes a document, whose stretches of tokens are learned or given in turn.
func (m marks) print(out io.Writer, s texts.Shown, tokens setup.Tokens) error {
	next, end := pieces(tokens)
	for from, to := 0, 0; from < len(s.Tokens); from = to {
		var text strings.Builder
		for to = from; to < len(s.Tokens) && s.Learned[to] == s.Learned[from]; to++ {
			piece, err := next(s.Tokens[to])
			if err != nil {
				return err
			}
			text.WriteString(piece)
		}
		if to == len(s.Tokens) {
			rest, err := end()
			if err != nil {
				return err
			}
			text.WriteString(rest)
		}
		m.put(out, terminal.Visible(text.String()), s.Learned[from])
	}
	return nil
}

func (m marks) put(out io.Writer, text string, learned bool) {
	switch {
	case learned:
		fmt.Fprint(out, m.learned, text, m.end)
	case m.given != "":
		fmt.Fprint(out, m.given, text, m.end)
	default:
		fmt.Fprint(out, text)
	}
}

// pieces give the text of tokens one by one, and what is left behind the last; a number for a token that nothing makes text of.
func pieces(tokens setup.Tokens) (next func(int32) (string, error), end func() (string, error)) {
	none := func() (string, error) { return "", nil }
	switch {
	case tokens.Tokenizer != nil:
		s := tokens.Tokenizer.NewStream(false)
		return s.Next, s.End
	case tokens.Text() != nil:
		return func(id int32) (string, error) { return data.DecodeBytes([]int32{id}), nil }, none
	}
	return func(id int32) (string, error) { return fmt.Sprintf("%d ", id), nil }, none
}
