package texts

import (
	"slices"

	"gputrain/run/data"
)

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
		if documents.group.size() > 1 {
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
