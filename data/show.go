package data

import "fmt"

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
	var show func(i int) (Shown, error)
	switch source := c.Train.(type) {
	case *Documents:
		count, show = min(count, len(source.spans)), func(i int) (Shown, error) { return source.show(i, context) }
	case *Tokens:
		windows := (source.Len() + int64(context) - 1) / int64(context)
		count, show = int(min(int64(count), windows)), func(i int) (Shown, error) { return source.show(i, context) }
	default:
		return all, nil
	}
	for i := range count {
		s, err := show(i)
		if err != nil {
			return nil, fmt.Errorf("data: show: %s: %d: %w", c.Name, i+1, err)
		}
		s.Source, s.Number = c.Name, i+1
		all = append(all, s)
	}
	return all, nil
}

// show is a document as it is laid into windows of so many tokens.
func (d *Documents) show(i, context int) (s Shown, err error) {
	layout := d.layout.withDefaults()
	kept := d.spans[i].kept(context, layout.Long)
	raw := make([]uint32, kept.count)
	if err := d.store.read(raw, kept.start); err != nil {
		return s, err
	}
	s.Left = int(d.spans[i].count - kept.count)
	for j, token := range raw {
		s.Tokens, s.Learned = append(s.Tokens, int32(token&^unlabelled)), append(s.Learned, j > 0 && token&unlabelled == 0)
	}
	return s, nil
}

// show is a window of a text, all of which is learned but its first token.
func (t *Tokens) show(i, context int) (s Shown, err error) {
	begin := int64(i) * int64(context)
	s.Tokens = make([]int32, min(int64(context), t.Len()-begin))
	s.Learned = make([]bool, len(s.Tokens))
	for j := range s.Learned {
		s.Learned[j] = begin > 0 || j > 0
	}
	return s, t.Read(s.Tokens, begin)
}

// Held returns the first documents that are kept for validation, as Show does; none where the source has no documents.
func (c *Corpus) Held(count, context int) (all []Shown, err error) {
	d, ok := c.Validation.(*Documents)
	if !ok {
		return nil, nil
	}
	for i := range min(count, len(d.spans)) {
		s, err := d.show(i, context)
		if err != nil {
			return nil, fmt.Errorf("data: held out: %s: %d: %w", c.Name, i+1, err)
		}
		s.Source, s.Number = c.Name, i+1
		all = append(all, s)
	}
	return all, nil
}

// Lengths are the tokens of each document.
func (d *Documents) Lengths() (all []int) {
	for _, s := range d.spans {
		all = append(all, int(s.count))
	}
	return all
}
