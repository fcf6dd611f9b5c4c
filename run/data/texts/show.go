package texts

import (
	"fmt"

	"gputrain/run/data"
)

// Shown is a document that is trained on, or a window of a text.
type Shown struct {
	Source  string // its files
	Number  int    // in the source's part to train on, from 1 on
	Tokens  []int32
	Learned []bool // each
	Left    int    // tokens that Layout.Long leaves out
}

// Show returns the first documents of each source, or windows of a text.
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
		all = append(all, int(s.count))
		return true, nil
	})
	return all, err
}
