package texts

import (
	"fmt"
	"slices"

	"gputrain/internal/formats"
	"gputrain/run/data"
)

// Shown is a document that is trained on, or a window of a text.
type Shown struct {
	Source  string // its files
	Number  int    // in the source's part to train on, from 1 on
	Tokens  []int32
	Learned []bool // each
	Left    int    // tokens that Layout.Long leaves out
	Label   *int   // that stands at its last token; nil: it has none, or that of all
}

// Show returns the first documents of each source, prompts, or windows of a text.
func (c *Corpus) Show(count, context int) (all []Shown, err error) {
	for _, part := range c.parts {
		some, err := part.Show(count, context)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	switch source := c.Train.(type) {
	case *Documents:
		all, err = source.Show(count, context)
	case *data.Prompts:
		all, err = shown(min(count, source.Len()), func(i int) (Shown, error) {
			tokens := source.At(i).Tokens
			return Shown{Tokens: tokens, Learned: make([]bool, len(tokens))}, nil
		})
	case *data.Tokens:
		windows := (source.Len() + int64(context) - 1) / int64(context)
		all, err = shown(int(min(int64(count), windows)), func(i int) (Shown, error) { return showText(source, i, context) })
	}
	if err != nil {
		return nil, fmt.Errorf("data: show: %s: %w", c.Name, err)
	}
	for i := range all {
		all[i].Source = c.Name
	}
	return all, nil
}

// Show returns the first of the documents, as Corpus.Show does.
func (d *Documents) Show(count, context int) ([]Shown, error) {
	if count == 0 || d.tokens == nil {
		return nil, nil
	}
	var first []span
	err := d.each(d.later(), func(_ int, s span) (bool, error) {
		first = append(first, s)
		return len(first) < count, nil
	})
	if err != nil {
		return nil, err
	}
	return shown(len(first), func(i int) (Shown, error) { return d.show(first[i], context) })
}

// shown are the first of what show gives.
func shown(count int, show func(i int) (Shown, error)) (all []Shown, err error) {
	for i := range count {
		s, err := show(i)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
		s.Number = i + 1
		all = append(all, s)
	}
	return all, nil
}

// show is a document as it is laid into windows of so many tokens.
func (d *Documents) show(document span, context int) (s Shown, err error) {
	kept := document.kept(context, d.layout.WithDefaults().Long)
	raw := make([]uint32, kept.count)
	if err := d.tokens.store.read(raw, kept.start); err != nil {
		return s, err
	}
	s.Left = int(document.count - kept.count)
	if last := len(raw) - 1; d.group.ends {
		if d.config.Format == formats.Classes {
			s.Label = new(int(raw[last]))
		}
		raw = raw[:last]
	}
	for j, token := range raw {
		s.Tokens, s.Learned = append(s.Tokens, int32(token&^unlabelled)), append(s.Learned, j > 0 && token&unlabelled == 0)
	}
	return s, nil
}

// showText is a window of a text, all of which is learned but its first token.
func showText(t *data.Tokens, i, context int) (s Shown, err error) {
	begin := int64(i) * int64(context)
	s.Tokens = make([]int32, min(int64(context), t.Len()-begin))
	s.Learned = make([]bool, len(s.Tokens))
	for j := range s.Learned {
		s.Learned[j] = begin > 0 || j > 0
	}
	return s, t.Read(s.Tokens, begin)
}

// Count is how many documents there are, as Open has counted them.
func (d *Documents) Count() int { return int(d.laid.documents) }

// Lengths are the tokens of each document.
func (d *Documents) Lengths() (all []int, err error) {
	err = d.each(d.later(), func(_ int, s span) (bool, error) {
		if d.group.ends {
			s.count--
		}
		all = append(all, int(s.count))
		return true, nil
	})
	return all, err
}

// Question is the beginning of a document, of which nothing is learned, and how it goes on there as far as that is learned.
type Question struct{ Prompt, Answer []int32 }

// looked is how many documents are looked at for a question.
const looked = 50

// Question is the first that is held out, else the first that is trained on: one that stands in a window of so many tokens with all of its document,
// if there is any, else one that stands there alone. Where no document begins with what is not learned there is none.
func (c *Corpus) Question(context int) (q Question, ok bool, err error) {
	for _, part := range c.parts {
		if q, ok, err = part.Question(context); ok || err != nil {
			return q, ok, err
		}
	}
	for _, source := range []data.Source{c.Validation, c.Train} {
		documents, is := source.(*Documents)
		if !is {
			continue
		}
		all, err := documents.Show(looked, context)
		if err != nil {
			return q, false, err
		}
		least := 2 // one token alone stands also before a text that is learned, but no completion is without a prompt
		if documents.group.windows() {
			least = 1
		}
		whole := slices.DeleteFunc(slices.Clone(all), func(s Shown) bool { return s.Left > 0 || len(s.Tokens) > context+1 })
		for _, s := range slices.Concat(whole, all) {
			if q, ok = s.question(least, context); ok {
				return q, true, nil
			}
		}
	}
	return q, false, nil
}

// Question is that of a document, which has at most so many tokens.
func (s Shown) Question(most int) (q Question, ok bool) { return s.question(2, most) }

func (s Shown) question(least, most int) (q Question, ok bool) {
	from := slices.Index(s.Learned, true)
	if from < least || from > most {
		return q, false
	}
	to := from
	for to < len(s.Learned) && s.Learned[to] {
		to++
	}
	return Question{s.Tokens[:from], s.Tokens[from:to]}, true
}
