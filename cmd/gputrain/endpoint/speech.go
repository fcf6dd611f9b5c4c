package endpoint

import (
	"slices"
	"strings"
	"unicode/utf8"

	"gputrain/run/rollout"
	"gputrain/run/train"
)

// A speech is the text of a completion, as its tokens come.
type speech struct {
	model  *Model
	stream train.TextStream
	stop   []string
	ends   []int32
	told   bool    // log-probabilities are wanted
	after  []int32 // what the text of one token is taken behind: first ones may lack a space

	length, characters int // of what was given, in bytes and in characters

	held    string  // not given yet: it may be part of a character or of a stop text
	entries []entry // of tokens that were not given yet
	cut     bool    // by a stop text
}

// An entry is what is told of a token: log-probabilities, and where its text begins.
type entry struct {
	likely
	top            []likely
	at, characters int // before it, in bytes and in characters
}

type likely struct {
	text    string
	logProb float32
}

func (m *Model) speech(prompt []int32, a *asked) *speech {
	s := &speech{model: m, stream: m.Text.Continue(prompt), stop: a.stop, ends: a.draw.Stop, told: a.logProbs}
	for i := len(prompt) - 1; s.told && s.after == nil && i >= 0; i-- {
		if text := s.textOf(prompt[i]); text != "" && utf8.ValidString(text) && !strings.Contains(text, unknown) {
			s.after = prompt[i:][:1]
		}
	}
	return s
}

// unknown stands for bytes that are no characters.
const unknown = "\uFFFD"

// textOf is the text of one token.
func (s *speech) textOf(id int32) string { return train.TextOf(s.model.Text, s.after, []int32{id}) }

// next is the text that is certain once there is one more token.
func (s *speech) next(t rollout.Token) string {
	if s.cut || slices.Contains(s.ends, t.ID) {
		return ""
	}
	if s.told {
		e := entry{likely: s.likely(t.ID, t.LogProb), at: s.length + len(s.held), characters: s.characters + utf8.RuneCountInString(s.held)}
		for _, one := range t.Top {
			e.top = append(e.top, s.likely(one.ID, one.LogProb))
		}
		s.entries = append(s.entries, e)
	}
	s.held += s.stream.Next(t.ID)
	return s.give(false)
}

// end is the text that was held back.
func (s *speech) end() string {
	if s.cut {
		return ""
	}
	s.held += s.stream.End()
	return s.give(true)
}

// give is what of the held text can be given, up to a stop text.
func (s *speech) give(all bool) string {
	n := len(s.held)
	for _, stop := range s.stop {
		if at := strings.Index(s.held, stop); at >= 0 && at <= n {
			n, s.cut = at, true
		}
	}
	if !s.cut && !all {
		n -= s.doubtful()
	}
	text := s.held[:n]
	s.held, s.length, s.characters = s.held[n:], s.length+n, s.characters+utf8.RuneCountInString(text)
	if s.cut {
		s.held = ""
		s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return e.at >= s.length })
	}
	return text
}

// doubtful is how many of the last bytes may be the beginning of a stop text, or of a character.
func (s *speech) doubtful() (most int) {
	for _, stop := range s.stop {
		for n := min(len(stop)-1, len(s.held)); n > most; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				most = n
			}
		}
	}
	for n := 1; n <= min(utf8.UTFMax-1, len(s.held)); n++ {
		if end := s.held[len(s.held)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRuneInString(end) {
				most = max(most, n)
			}
			break
		}
	}
	return most
}

// given are the entries since the last call.
func (s *speech) given() []entry {
	all := s.entries
	s.entries = nil
	return all
}

// least is told of what is less probable: JSON has no infinity.
const least = -9999

func (s *speech) likely(id int32, logProb float32) likely {
	return likely{s.textOf(id), max(logProb, least)}
}
