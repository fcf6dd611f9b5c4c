package converse

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gputrain/run/rollout"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// Each is a list of conversations, one a line, which a model is to go on with by an answer to each, as many at once as it has rows.
type Each struct {
	config Config
	lines  []questionLine
}

type questionLine struct {
	number int
	id     json.RawMessage
	last   string // message
	prompt []int32
}

// ReadEach reads a line as a message, or as a JSON object with the "messages" of a conversation, as rows of data have them but for the answer that is asked for, or a
// "prompt". Config.Model is not asked. A line that cannot be answered is an error.
func ReadEach(c Config, in io.Reader) (*Each, error) {
	c.Sampling.Stop = append(c.Sampling.Stop, c.Encoder.Ends()...)
	e := &Each{config: c}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mostLine)
	number := 0
	for lines.Scan() {
		if number++; strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		l, err := e.read(lines.Text())
		if err != nil {
			return nil, &MessageError{fmt.Errorf("chat: line %d: %w", number, err)}
		}
		l.number = number
		e.lines = append(e.lines, l)
	}
	err := lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &MessageError{fmt.Errorf("chat: line %d: found %d bytes or more, wanted a shorter message", number+1, mostLine)}
	case err != nil:
		return nil, fmt.Errorf("chat: standard input: %w", err)
	case len(e.lines) == 0:
		return nil, &MessageError{errors.New("chat: --each: found no line on standard input, wanted a message or a conversation on each")}
	}
	return e, nil
}

func (e *Each) read(text string) (l questionLine, err error) {
	if !utf8.ValidString(text) {
		return l, errors.New("found bytes that are not UTF-8, wanted a text")
	}
	talk := &chat.Conversation{}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		if talk, l.id, err = conversationOf(text); err != nil {
			return l, err
		}
	} else {
		talk.Add("user", text)
	}
	if role, _ := talk.Messages[0].Get("role"); e.config.System != "" && role != "system" {
		first := &chat.Conversation{}
		first.Add("system", e.config.System)
		talk.Messages, talk.Train = append(first.Messages, talk.Messages...), append(first.Train, talk.Train...)
	}
	content, _ := talk.Messages[len(talk.Messages)-1].Get("content")
	l.last, _ = content.(string)
	if l.prompt, err = e.config.Encoder.Prompt(talk); err == nil && e.config.Window <= len(l.prompt) {
		err = fmt.Errorf("found %d tokens with what the template adds, wanted fewer than the window of %d (--window)", len(l.prompt), e.config.Window)
	}
	return l, err
}

// conversationOf is what a row has up to the answer that is asked for.
func conversationOf(text string) (*chat.Conversation, json.RawMessage, error) {
	var has struct {
		ID json.RawMessage `json:"id"`
	}
	value, err := template.Decode([]byte(text))
	if err == nil {
		err = json.Unmarshal([]byte(text), &has)
	}
	row, is := value.(*template.Object)
	if err != nil || !is {
		return nil, nil, errors.Join(errors.New("found no JSON object behind {"), err)
	}
	talk := &chat.Conversation{}
	prompt, _ := row.Get("prompt")
	_, messages := row.Get("messages")
	if said, plain := prompt.(string); plain && !messages {
		talk.Add("user", said)
		return talk, has.ID, nil
	}
	if list, listed := prompt.([]any); listed && !messages {
		row.Set("messages", list)
	}
	if _, there := row.Get("messages"); !there {
		return nil, nil, fmt.Errorf("found an object with the keys %q, wanted messages or prompt", row.Keys())
	}
	if talk, err = chat.FromRow(row, "messages"); err != nil {
		return nil, nil, err
	}
	for n := len(talk.Messages) - 1; n >= 0; n-- { // an answer that is known already
		if role, _ := talk.Messages[n].Get("role"); role != "assistant" {
			break
		}
		talk.Messages, talk.Train = talk.Messages[:n], talk.Train[:n]
	}
	if len(talk.Messages) == 0 {
		return nil, nil, errors.New("messages: found none to be answered, wanted one of the user")
	}
	return talk, has.ID, nil
}

// Window is how many tokens a model has to see for the longest conversation with its answer, at most Config.Window.
func (e *Each) Window() int {
	longest := 0
	for _, l := range e.lines {
		longest = max(longest, len(l.prompt))
	}
	return min(e.config.Window, longest+e.config.Sampling.Tokens)
}

// Lines is how many are to be answered.
func (e *Each) Lines() int { return len(e.lines) }

// Answer writes the answers in the order of lines: as text, or each as an object.
func (e *Each) Answer(ctx context.Context, m rollout.Model, out io.Writer, asJSON bool) error {
	questions := make([]train.Question, len(e.lines))
	for i, l := range e.lines {
		questions[i] = train.Question{Prompt: l.prompt, Tokens: e.config.Sampling.Tokens}
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return train.Answers(ctx, e.config.Sampling, setup.NewTokenizer(e.config.Tokenizer), m, questions, func(i int, a train.Answer) error {
		l := e.lines[i]
		if a.Err != nil {
			return fmt.Errorf("chat: line %d: %w", l.number, a.Err)
		}
		if !asJSON {
			_, err := io.WriteString(out, a.Text+"\n")
			return err
		}
		end := endOfTurn
		switch {
		case !a.Ended && a.Drawn < e.config.Sampling.Tokens:
			end = endOfWindow
		case !a.Ended:
			end = endOfTokens
		}
		return encoder.Encode(struct {
			Line         int             `json:"line"`
			ID           json.RawMessage `json:"id,omitempty"`
			Message      string          `json:"message"`
			Text         string          `json:"answer"`
			End          string          `json:"end"`
			PromptTokens int             `json:"prompt_tokens"`
			Tokens       int             `json:"answer_tokens"`
		}{l.number, l.id, l.last, a.Text, end, len(l.prompt), a.Drawn})
	})
}
