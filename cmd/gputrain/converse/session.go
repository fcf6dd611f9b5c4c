package converse

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"gputrain/internal/suggest"
)

// mostLine bounds a message, which lies in memory several times.
const mostLine = 16 << 20

// Session is a dialogue with somebody.
type Session struct {
	Dialogue *Dialogue
	In       io.Reader // a message a line
	Out      io.Writer // answers, and nothing else
	Notes    func(format string, args ...any)
	JSON     bool // answers are objects, one a line

	// Person says that somebody sits at a terminal, who is asked for messages, may give commands and make mistakes.
	Person bool
	// Interrupts end an answer, or for a person that has nothing to be ended the second one in a row the session.
	Interrupts <-chan os.Signal

	answers, decoded, tokens int
	seconds                  float64
	again                    bool // an interrupt ends the session
	typed                    string
}

// errLeft ends a session.
var errLeft = errors.New("left")

const help = `/reset        begins the conversation anew
/system TEXT  begins it anew with a message of the system; without TEXT without one
/undo         takes back the last message and its answer
/retry        answers the last message anew
/correct TEXT puts TEXT in place of the last answer
/save FILE    appends the conversation to FILE, a row that gputrain tune learns from
/exit         ends it, as Ctrl-D does
Ctrl-C ends an answer, and twice in a row the program. A line that ends with \ goes on in the next one. A message that begins with / is written with //.
`

// line is one that was read, or why there are no more.
type line struct {
	text string
	err  error
}

// Run reads messages and answers them until there are no more.
func (s *Session) Run(ctx context.Context) error {
	over := make(chan struct{})
	defer close(over)
	lines := make(chan line)
	go s.read(lines, over)
	if s.Person {
		s.Notes("a message a line; /help lists the commands\n")
	}
	for number := 1; ; number++ {
		err := s.turn(ctx, lines)
		var wrong *MessageError
		switch {
		case errors.Is(err, errLeft) || errors.Is(err, io.EOF):
			s.sum()
			return nil
		case errors.As(err, &wrong) && s.Person:
			s.Notes("gputrain: %v\n", err)
		case errors.As(err, &wrong):
			return fmt.Errorf("line %d: %w", number, err)
		case err != nil:
			return err
		}
	}
}

// read hands out the lines of the input until the session is over.
func (s *Session) read(lines chan<- line, over <-chan struct{}) {
	in := bufio.NewScanner(s.In)
	in.Buffer(nil, mostLine)
	hand := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-over:
			return false
		}
	}
	for in.Scan() {
		if !hand(line{text: in.Text()}) {
			return
		}
	}
	err := in.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = &MessageError{fmt.Errorf("found a line of %d bytes or more, wanted a shorter message", mostLine)}
	}
	if err != nil && !hand(line{err: fmt.Errorf("chat: standard input: %w", err)}) {
		return
	}
	hand(line{err: io.EOF})
}

// turn waits for a line and does what it says.
func (s *Session) turn(ctx context.Context, lines <-chan line) error {
	if s.Person {
		s.Notes("%s", map[bool]string{false: "> ", true: "... "}[s.typed != ""])
	}
	var l line
	select {
	case l = <-lines:
	case <-s.Interrupts:
		s.typed = ""
		if s.again {
			s.Notes("\n")
			return errLeft
		}
		s.again = true
		s.Notes("\nCtrl-C again, or Ctrl-D, ends the program\n")
		return nil
	}
	s.again = false
	if l.err != nil {
		if s.Person {
			s.Notes("\n")
		}
		return l.err
	}
	if !s.Person {
		if strings.TrimSpace(l.text) == "" {
			return nil
		}
		return s.Ask(ctx, l.text)
	}
	begun, more := strings.CutSuffix(l.text, `\`)
	if s.typed += begun; more {
		s.typed += "\n"
		return nil
	}
	message := s.typed
	s.typed = ""
	switch {
	case strings.TrimSpace(message) == "":
		return nil
	case strings.HasPrefix(message, "//"):
		message = message[1:]
	case strings.HasPrefix(message, "/"):
		return s.command(ctx, message)
	}
	return s.Ask(ctx, message)
}

// command does what a line that begins with a slash says.
func (s *Session) command(ctx context.Context, text string) error {
	name, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	known := []string{"/help", "/reset", "/system", "/undo", "/retry", "/correct", "/save", "/exit"}
	switch name {
	case "/help":
		s.Notes("%s", help)
	case "/exit":
		return errLeft
	case "/reset":
		s.Notes("the conversation begins anew\n")
		return s.Dialogue.begin(s.Dialogue.system())
	case "/system":
		if err := s.Dialogue.begin(rest); err != nil {
			return err
		}
		with := "with this message of the system"
		if rest == "" {
			with = "without a message of the system"
		}
		s.Notes("the conversation begins anew, %s\n", with)
	case "/undo":
		message := s.Dialogue.undo()
		if message == "" {
			return errNothing
		}
		s.Notes("taken back: %s\n", shortened(message))
	case "/retry":
		return s.Dialogue.retry(func(message string) error { return s.Ask(ctx, message) })
	case "/correct", "/save":
		if rest == "" {
			return &MessageError{fmt.Errorf("chat: command: found %s alone, wanted %s behind it", name, map[string]string{"/correct": "the answer", "/save": "a file"}[name])}
		}
		do, done := s.Dialogue.save, "saved: a row of "+rest
		if name == "/correct" {
			do, done = s.Dialogue.correct, "corrected"
		}
		if err := do(rest); err != nil {
			return err
		}
		s.Notes("%s\n", done)
	default:
		return &MessageError{fmt.Errorf("chat: command: found %q, wanted one of %s%s; // begins a message with a slash", name, strings.Join(known, ", "), suggest.DidYouMean(name, known))}
	}
	return nil
}

// shortened is the beginning of a text, on one line.
func shortened(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return string(runes)
}

// Ask writes the answer to a message, and its figures to the notes.
func (s *Session) Ask(ctx context.Context, message string) error {
	ctx, stop := s.interruptible(ctx)
	defer stop()
	a, err := s.Dialogue.Ask(ctx, message, func(text string) error {
		if s.JSON {
			return nil
		}
		_, err := io.WriteString(s.Out, text)
		return err
	})
	if err != nil {
		return err
	}
	s.answers++
	s.tokens += a.Tokens
	s.decoded += a.decoded
	s.seconds += a.seconds
	if s.JSON {
		out := json.NewEncoder(s.Out)
		out.SetEscapeHTML(false)
		err = out.Encode(struct {
			Turn int `json:"turn"`
			*Answer
		}{s.answers, a})
	} else {
		_, err = io.WriteString(s.Out, "\n")
	}
	if err != nil {
		return err
	}
	if a.DroppedTurns > 0 {
		s.Notes("[the window of %d tokens is full: turns left out, the oldest: %d]\n", s.Dialogue.config.Window, a.DroppedTurns)
	}
	if why := map[string]string{
		endOfTokens: "the answer has as many tokens as it may have (--tokens)", endOfWindow: "the window is full (--window): the answer ends early", interrupted: "interrupted",
	}[a.End]; why != "" {
		s.Notes("[%s]\n", why)
	}
	s.Notes("[%s%s; the conversation has %d of %d, %d of them from the turn before]\n", count(a.Tokens, "token"), pace(a.decoded, a.seconds),
		a.PromptTokens+a.Tokens, s.Dialogue.config.Window, a.KeptTokens)
	return nil
}

// interruptible is a context that an interrupt ends, until stop.
func (s *Session) interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-s.Interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-over // it takes no interrupt any more
	}
}

// sum tells the figures of all answers.
func (s *Session) sum() {
	if s.answers > 0 {
		s.Notes("%s, %s%s\n", count(s.answers, "answer"), count(s.tokens, "token"), pace(s.decoded, s.seconds))
	}
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func pace(tokens int, seconds float64) string {
	if tokens == 0 {
		return ""
	}
	speed := float64(tokens) / seconds
	if speed >= 100 {
		return fmt.Sprintf(", %.0f tokens a second", speed)
	}
	return fmt.Sprintf(", %.3g tokens a second", speed)
}
