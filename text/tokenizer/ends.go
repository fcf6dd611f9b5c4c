package tokenizer

import (
	"slices"
)

// endNames are what tokens that end a text are called, in tokenizers that nothing lies beside.
var endNames = []string{"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}

// ends are the id that is put behind a text, and those that end one, where text is the eos_token. Those that the model has and the tokenizer lacks
// are none of its own.
func (s *settings) ends(t *Tokenizer, text string) (end int32, all []int32) {
	ids, end := slices.Clone(s.ids), int32(-1)
	if id, ok := t.ID(text); ok {
		ids, end = append(ids, id), id
	}
	for _, name := range endNames {
		if id, ok := t.ID(name); ok && t.special[id] && len(ids) == 0 {
			ids = append(ids, id)
		}
	}
	kept := ids[:0]
	for _, id := range ids {
		if _, err := t.Token(id); err == nil && !slices.Contains(kept, id) {
			kept = append(kept, id)
		}
	}
	if end < 0 && len(kept) > 0 {
		end = kept[0]
	}
	return end, kept
}
