package rollout

import "slices"

// Said are the tokens of a text, which a penalty makes less likely than they were.
type Said struct {
	penalty float32
	tokens  map[int32]bool
}

// NewSaid begins with those of a prompt; a penalty of 0 or 1 is none.
func NewSaid(penalty float64, prompt []int32) *Said {
	s := &Said{penalty: float32(penalty), tokens: map[int32]bool{}}
	s.Add(prompt...)
	return s
}

func (s *Said) none() bool { return s.penalty == 0 || s.penalty == 1 }

// Add adds tokens to the text.
func (s *Said) Add(tokens ...int32) {
	if s.none() {
		return
	}
	for _, token := range tokens {
		s.tokens[token] = true
	}
}

// Penalized are logits with the penalty, in numbers of their own: it divides positive ones and multiplies the others.
func (s *Said) Penalized(logits []float32) []float32 {
	if s.none() {
		return logits
	}
	logits = slices.Clone(logits)
	for token := range s.tokens {
		switch {
		case token < 0 || int(token) >= len(logits): // the model refuses it
		case logits[token] < 0:
			logits[token] *= s.penalty
		default:
			logits[token] /= s.penalty
		}
	}
	return logits
}
