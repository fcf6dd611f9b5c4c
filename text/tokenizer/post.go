package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// post is what post-processors do: tokens around a text, and white space that parts of the text are told without.
type post struct {
	around template
	trims  bool
	prefix bool // the space before the text may be one that was put there
}

// template is what stands before and behind the tokens of a text.
type template struct{ before, behind []int32 }

func readPost(where string, raw json.RawMessage) (post, error) {
	return typed(where, raw, map[string]func(o *object) post{
		"ByteLevel": func(o *object) post {
			p := post{trims: o.flag("trim_offsets", true), prefix: o.flag("add_prefix_space", true)}
			o.flag("use_regex", true) // says something as a pre-tokenizer alone
			return p
		},
		"TemplateProcessing": func(o *object) post { return post{around: readTemplate(o)} },
		"Sequence": func(o *object) (all post) {
			for _, p := range parts(o, "processors", readPost) {
				all.around.before = slices.Concat(p.around.before, all.around.before)
				all.around.behind = slices.Concat(all.around.behind, p.around.behind)
				all.trims, all.prefix = all.trims || p.trims, all.prefix || p.trims && p.prefix
				all.around.bound(o)
			}
			return all
		},
	})
}

// readTemplate reads the template of one text; that of a pair is for other models.
func readTemplate(o *object) (t template) {
	o.raw("pair")
	var tokens map[string]struct {
		IDs []int32 `json:"ids"`
	}
	var pieces []map[string]struct {
		ID   string `json:"id"`
		Type int    `json:"type_id"`
	}
	o.read("special_tokens", &tokens)
	o.must("single", &pieces)
	texts := 0
	for i, piece := range pieces {
		for kind, p := range piece {
			token, there := tokens[p.ID]
			switch {
			case kind == "Sequence" && p.ID == "A":
				texts++
			case kind == "SpecialToken" && !there:
				o.fail("single[%d]: found %q, wanted one of special_tokens", i, p.ID)
			case kind == "SpecialToken" && texts == 0:
				t.before = append(t.before, token.IDs...)
			case kind == "SpecialToken":
				t.behind = append(t.behind, token.IDs...)
			default:
				o.fail("single[%d]: found %s %q, wanted Sequence A or a SpecialToken", i, kind, p.ID)
			}
			if t.bound(o); o.err != nil {
				return t
			}
		}
	}
	if texts != 1 {
		o.fail("single: found %d texts, wanted 1", texts)
	}
	return t
}

// mostAround bounds the tokens that stand around a text, however short it is.
const mostAround = 1024

func (t *template) bound(o *object) {
	if n := len(t.before) + len(t.behind); n > mostAround {
		o.fail("found %d tokens or more around a text, wanted at most %d", n, mostAround)
		*t = template{}
	}
}

// check holds the tokens of a template to the vocabulary.
func (p post) check(tokens int) error {
	for _, id := range slices.Concat(p.around.before, p.around.behind) {
		if id < 0 || int(id) >= tokens {
			return fmt.Errorf("post_processor: found id %d, wanted 0 to %d", id, tokens-1)
		}
	}
	return nil
}
