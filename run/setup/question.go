package setup

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/text/chat"
)

// ask makes samples go on from something that the text has: a question with all that the template writes around it, and up to where its answer ends.
func ask(run *train.Config, cfg *runfile.Config, text *texts.Corpus, tokens Tokens) error {
	ends, err := tokens.answerEnds(text)
	if err != nil {
		return err
	}
	s := &run.Sample
	s.Prompt, s.Stop, s.Seed = prompt(cfg), tokens.Ends(), cfg.Train.Seed
	for _, end := range ends {
		s.Stop = with(s.Stop, end)
	}
	if end := cfg.Data.Layout.End; end != nil && *end >= 0 {
		s.Stop = with(s.Stop, int32(*end))
	}
	if run.Tokenizer == nil || tokens.Tokenizer == nil && text.Tokens != plan.ByteTokens { // nothing makes text of tokens
		s.Tokens = 0
	}
	if s.Tokens == 0 || cfg.Train.Sample.Prompt != "" {
		return nil
	}
	question, found, err := text.Question(run.State.Sequence)
	if err != nil {
		return err
	}
	if !found {
		s.Prompt = known(run.Tokenizer, s.Prompt)
		return nil
	}
	s.Begin, s.Prompt = question.Prompt, Spoken(run.Tokenizer, question.Prompt)
	return nil
}

// asked lays the questions of a run, for answers that its windows have room for.
func asked(run *train.Config, cfg *runfile.Config, tokens Tokens) error {
	all := cfg.Train.Ask
	if len(all) == 0 {
		if s := cfg.Train.AskSystem; s != "" {
			return cfg.Invalid("train.ask_system", s, "questions with it (train.ask)")
		}
		return nil
	}
	switch {
	case run.Sample.Tokens == 0:
		return cfg.Invalid("train.ask", all[0], "none where answers have no tokens (train.sample_tokens is 0)")
	case tokens.Tokenizer == nil:
		return cfg.Invalid("train.ask", all[0], "none without a tokenizer: data.tokenizer, or a directory in model.from that has one")
	case tokens.Chats.Template == nil:
		return cfg.Wrong("train.ask", tokens.Chats.Lacking)
	}
	encoder, err := chat.NewEncoder(tokens.Tokenizer, tokens.Chats.Template, tokens.Chats.Options)
	if err != nil {
		return cfg.Wrong("train.ask", err)
	}
	for _, question := range all {
		q := train.Question{Stop: encoder.Ends()}
		if q.Prompt, err = encoder.Ask(cfg.Train.AskSystem, question); err != nil {
			return cfg.Wrong("train.ask", fmt.Errorf("%q: %w", question, err))
		}
		if q.Tokens = min(run.Sample.Tokens, run.State.Sequence-len(q.Prompt)); q.Tokens < 1 {
			return cfg.Invalid("train.ask", question, fmt.Sprintf("one of fewer than %d tokens with what the template adds, found %d: the window has %d", run.State.Sequence, len(q.Prompt), run.State.Sequence))
		}
		run.Asked = append(run.Asked, q)
	}
	return nil
}

// mostSpoken is how many characters of a prompt people are shown: its end, about what fits on a screen.
const mostSpoken = 1000

// Spoken is the text of a prompt for people. It has no special tokens: a line ends where they stand. Of a long one it is the end.
func Spoken(t train.Tokenizer, prompt []int32) string {
	special := specialOf(t)
	text := ""
	for len(prompt) > 0 {
		n := slices.IndexFunc(prompt, func(id int32) bool { return slices.Contains(special, id) })
		if n < 0 {
			n = len(prompt)
		}
		part := train.TextOf(t, nil, prompt[:n])
		if strings.HasSuffix(text, "\n") {
			part = strings.TrimLeft(part, "\n")
		}
		text += part
		if prompt = prompt[n:]; len(prompt) > 0 {
			prompt = prompt[1:]
			if text != "" && !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
		}
	}
	said := strings.TrimLeft(text, " \n")
	if runes := []rune(said); len(runes) > mostSpoken {
		said = "…" + string(runes[len(runes)-mostSpoken:])
	}
	return said
}
