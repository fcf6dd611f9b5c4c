package tokenizer

import (
	"errors"
	"fmt"
	"strings"
)

// metaspace writes spaces as a visible character and cuts before it. It is a decoder too.
type metaspace struct {
	replacement string
	scheme      string // when a replacement is put in front: always, first (of the whole text), never
	cut         bool
}

func readMetaspace(o *object) metaspace {
	m := metaspace{replacement: string(o.char("replacement")), scheme: "always", cut: o.flag("split", true)}
	o.raw("str_rep") // of old files: the replacement once more
	prefix := o.flag("add_prefix_space", true)
	if o.raw("prepend_scheme") != nil {
		m.scheme = o.one("prepend_scheme", []string{"always", "first", "never"})
	} else if !prefix {
		m.scheme = "never"
	}
	if !prefix && m.scheme != "never" {
		o.fail("%w", errors.New(`add_prefix_space: found false, wanted true or no prepend_scheme beside it but "never"`))
	}
	return m
}

func (m metaspace) split(s span, next func(span) error) error {
	at := s.at
	if err := (replace{literal(" "), m.replacement}).normalize(&s); err != nil {
		return fmt.Errorf("pre_tokenizer: Metaspace: %w", err)
	}
	if !strings.HasPrefix(s.text, m.replacement) && (m.scheme == "always" || m.scheme == "first" && at == 0) {
		if err := s.prepend(m.replacement); err != nil {
			return fmt.Errorf("pre_tokenizer: Metaspace: %w", err)
		}
	}
	if !m.cut {
		return next(s)
	}
	return split{pattern: literal(m.replacement), behavior: "MergedWithNext"}.split(s, next)
}
