package converse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
	"gputrain/text/tokenizer"
)

// Model continues text: *state.Model is one.
type Model interface {
	// Extend gives the logits of the token that follows a window, and how many of its tokens were not computed again.
	Extend(ctx context.Context, window []int32) (logits []float32, kept int, err error)
	// Decode appends a token to that window and gives the logits of the next one.
	Decode(ctx context.Context, token int32) ([]float32, error)
}

// Config is what a dialogue consists of.
type Config struct {
	Model     Model
	Tokenizer *tokenizer.Tokenizer
	Encoder   *chat.Encoder
	Sampling  train.SampleConfig // its tokens are the most that an answer has
	Window    int                // tokens that the model sees at most
	System    string             // a message of the system; "": none
}

// Dialogue is a conversation with a model. It is used from one goroutine.
type Dialogue struct {
	config  Config
	text    train.Tokenizer
	talk    chat.Conversation
	answers int
	kept    int // of these, in the conversation
}

// How an answer has ended.
const (
	endOfTurn   = "end"         // by the model
	endOfTokens = "tokens"      // it has as many tokens as it may have
	endOfWindow = "context"     // the window is full
	interrupted = "interrupted" // by the user
)

// Answer is what a model has said, with its figures.
type Answer struct {
	Message      string  `json:"message"`
	Text         string  `json:"answer"`
	End          string  `json:"end"`
	PromptTokens int     `json:"prompt_tokens"` // of the conversation up to the answer
	KeptTokens   int     `json:"kept_tokens"`   // of these, known from the turn before
	Tokens       int     `json:"answer_tokens"`
	Speed        float64 `json:"tokens_per_second,omitempty"` // from the first token to the last
	DroppedTurns int     `json:"dropped_turns,omitempty"`     // the oldest, for which the window has no room

	decoded int // tokens that the seconds were for
	seconds float64
}

// MessageError says that a message cannot be answered. The dialogue is as it was before.
type MessageError struct{ Err error }

func (e *MessageError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong with the message.
func (e *MessageError) Unwrap() error { return e.Err }

// New begins a dialogue. A template that refuses such a conversation is an error.
func New(c Config) (*Dialogue, error) {
	c.Sampling.Stop = append(slices.Clone(c.Sampling.Stop), c.Encoder.Ends()...)
	d := &Dialogue{config: c, text: setup.NewTokenizer(c.Tokenizer)}
	return d, d.begin(c.System)
}

// begin forgets what was said, and begins anew with a message of the system; "": without one.
func (d *Dialogue) begin(system string) error {
	talk := chat.Conversation{}
	if system != "" {
		talk.Add("system", system)
	}
	probe := chat.Conversation{Messages: slices.Clone(talk.Messages)}
	probe.Add("user", "?")
	ids, err := d.config.Encoder.Prompt(&probe)
	if err == nil && d.room(ids) < 1 {
		what := "the system's message and what the template adds"
		if system == "" {
			what = "what the template adds to the shortest message"
		}
		err = fmt.Errorf("chat: %s: found %d tokens, wanted fewer than the window of %d (--window)", what, len(ids), d.config.Window)
	}
	if err != nil {
		return &MessageError{err}
	}
	d.config.System, d.talk = system, talk
	return nil
}

// system is the message of the system.
func (d *Dialogue) system() string { return d.config.System }

// Ask gives the model a message. yield gets the answer as it comes, in whole characters. An answer that ctx ends is kept as far as it has come.
func (d *Dialogue) Ask(ctx context.Context, message string, yield func(text string) error) (*Answer, error) {
	if strings.TrimSpace(message) == "" || !utf8.ValidString(message) {
		return nil, &MessageError{errors.New("chat: message: found nothing, or bytes that are not UTF-8, wanted a text")}
	}
	talk, prompt, dropped, err := d.fit(message)
	if err != nil {
		return nil, &MessageError{err}
	}
	a := &Answer{Message: message, PromptTokens: len(prompt), DroppedTurns: dropped}
	sampling := d.config.Sampling
	sampling.Tokens = min(sampling.Tokens, d.room(prompt))
	sampling.Seed += uint64(d.answers)
	stream, m := d.text.Continue(prompt), &measured{Model: d.config.Model, vocabulary: d.config.Tokenizer.VocabSize()}
	var text strings.Builder
	var broken error
	say := func(more string) bool {
		text.WriteString(more)
		if more != "" && broken == nil {
			broken = yield(more)
		}
		return broken == nil
	}
	err = train.GenerateTokens(ctx, sampling, prompt, m, func(token int32) bool {
		a.Tokens++
		return say(stream.Next(token))
	})
	say(stream.End())
	switch {
	case broken != nil:
		return nil, broken
	case err != nil && ctx.Err() != nil:
		a.End = interrupted
	case err != nil:
		return nil, err
	case a.Tokens < sampling.Tokens:
		a.End = endOfTurn
	case sampling.Tokens < d.config.Sampling.Tokens:
		a.End = endOfWindow
	default:
		a.End = endOfTokens
	}
	a.Text, a.KeptTokens = text.String(), m.kept
	if a.decoded = m.decoded; a.decoded > 0 {
		a.seconds = max(time.Since(m.begun).Seconds(), 1e-9) // some clocks are coarse
		a.Speed = float64(a.decoded) / a.seconds
	}
	if a.Text != "" || a.End != interrupted {
		talk.Add("assistant", a.Text)
		d.talk = talk
		d.kept++
	}
	d.answers++
	return a, nil
}

// undo takes back the last message and the answer to it; "" is none.
func (d *Dialogue) undo() (message string) {
	messages := d.talk.Messages
	last := len(messages) - 1
	for last >= 0 && !fromUser(messages[last]) {
		last--
	}
	if last < 0 {
		return ""
	}
	content, _ := messages[last].Get("content")
	message, _ = content.(string)
	d.talk = chat.Conversation{Messages: messages[:last:last], Train: d.talk.Train[:last:last]}
	return message
}

// retry answers the last message anew, by other random numbers.
func (d *Dialogue) retry(ask func(message string) error) error {
	before, kept := d.talk, d.kept
	message := d.undo()
	if message == "" {
		return errNothing
	}
	err := ask(message)
	if d.kept == kept {
		d.talk = before
	}
	return err
}

// correct puts a text in place of the last answer.
func (d *Dialogue) correct(answer string) error {
	if !utf8.ValidString(answer) {
		return &MessageError{errors.New("chat: command: found bytes that are not UTF-8, wanted a text")}
	}
	message := d.undo()
	if message == "" {
		return errNothing
	}
	d.talk.Add("user", message)
	d.talk.Add("assistant", answer)
	return nil
}

var errNothing = &MessageError{errors.New("chat: command: found no answer in the conversation, wanted one")}

// save appends the conversation to a file of rows that training reads.
func (d *Dialogue) save(path string) error {
	if len(d.talk.Messages) == 0 || fromUser(d.talk.Messages[len(d.talk.Messages)-1]) || d.system() != "" && len(d.talk.Messages) == 1 {
		return errNothing
	}
	type message struct {
		Role    any `json:"role"`
		Content any `json:"content"`
	}
	var row struct {
		Messages []message `json:"messages"`
	}
	for _, m := range d.talk.Messages {
		role, _ := m.Get("role")
		content, _ := m.Get("content")
		row.Messages = append(row.Messages, message{role, content})
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	err := out.Encode(row)
	if err == nil {
		err = appendLine(path, text.Bytes())
	}
	if err != nil {
		return &MessageError{fmt.Errorf("chat: /save: %w", err)}
	}
	return nil
}

// appendLine appends a line to a file, which begins on a line of its own.
func appendLine(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	var last [1]byte
	if size, err := file.Seek(0, io.SeekEnd); err == nil && size > 0 {
		if _, err := file.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			text = append([]byte("\n"), text...)
		}
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// room is how many tokens an answer to a prompt may have in the window.
func (d *Dialogue) room(prompt []int32) int { return d.config.Window - len(prompt) }

// least is the room that an answer is to have: a quarter of the window, if it may be as long.
func (d *Dialogue) least() int { return max(1, min(d.config.Sampling.Tokens, d.config.Window/4)) }

// fit is the conversation with one more message, and its tokens, without as many of the oldest turns as the window has no room for.
func (d *Dialogue) fit(message string) (talk chat.Conversation, prompt []int32, dropped int, err error) {
	talk = chat.Conversation{Messages: slices.Clone(d.talk.Messages), Train: slices.Clone(d.talk.Train)}
	talk.Add("user", message)
	for {
		if prompt, err = d.config.Encoder.Prompt(&talk); err != nil || d.room(prompt) >= d.least() {
			return talk, prompt, dropped, err
		}
		first := 0
		if d.config.System != "" {
			first = 1
		}
		next := slices.IndexFunc(talk.Messages[first+1:], fromUser)
		if next < 0 {
			return talk, nil, 0, fmt.Errorf("chat: message: found %d tokens with what the template adds, wanted at most %d: the window of %d (--window) with room for an answer",
				len(prompt), d.config.Window-d.least(), d.config.Window)
		}
		talk.Messages = slices.Delete(talk.Messages, first, first+1+next)
		talk.Train = slices.Delete(talk.Train, first, first+1+next)
		dropped++
	}
}

func fromUser(m *template.Object) bool {
	role, _ := m.Get("role")
	return role == "user"
}

// measured is a model that the tokenizer has a token for every logit of, and what it was asked for.
type measured struct {
	Model
	vocabulary    int
	kept, decoded int
	begun         time.Time // of the first token after the prompt
}

// Window bounds nothing: a dialogue keeps to its own.
func (m *measured) Window() int { return int(^uint(0) >> 1) }

func (m *measured) Logits(ctx context.Context, window []int32) (logits []float32, err error) {
	logits, m.kept, err = m.Extend(ctx, window)
	m.begun = time.Now()
	return logits[:min(m.vocabulary, len(logits))], err
}

func (m *measured) Decode(ctx context.Context, token int32) ([]float32, error) {
	logits, err := m.Model.Decode(ctx, token)
	m.decoded++
	return logits[:min(m.vocabulary, len(logits))], err
}
