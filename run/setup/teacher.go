package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"gputrain/buffers"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/runfile"
	"gputrain/text/tokenizer"
)

// teacher is distil.teacher, opened.
type teacher struct {
	plan.Teacher
	params []buffers.Host // with their paths in model.WithTeacher; nil: it is a file of lists
	lists  *lists         // nil: it is a model
	files  *hub.Bundle
}

// openTeacher opens distil.teacher for a network of that vocabulary and tokenizer. Its weights may be missing.
func openTeacher(cfg *runfile.Config, vocab int, tokens Tokens, out io.Writer) (_ *teacher, err error) {
	t, path := &teacher{}, cfg.Distil.Teacher
	defer func() {
		if err != nil {
			t.lists.Close()
			_ = t.files.Close()
			err = cfg.Wrong("distil.teacher", err)
		}
	}()
	if cfg.TeacherIsFile() {
		if t.lists, err = openLists(path); err != nil {
			return nil, err
		}
		h, own := t.lists.Head, tokens.fingerprint()
		t.TopK, t.Temperature = h.TopK, h.Temperature
		switch {
		case h.Vocab != 0 && h.Vocab != vocab:
			return nil, fmt.Errorf("%s: found a vocabulary of %d tokens, wanted the student's %d", path, h.Vocab, vocab)
		case h.TopK > vocab:
			return nil, fmt.Errorf("%s: found lists of %d tokens, wanted at most the vocabulary of %d", path, h.TopK, vocab)
		case h.Tokenizer != "" && own != "" && h.Tokenizer != own:
			return nil, fmt.Errorf("%s: found tokens of a tokenizer of fingerprint %.12s, wanted %.12s, that of %s", path, h.Tokenizer, own, tokens.Path)
		}
		return t, nil
	}
	if t.files, err = Open(path, out); err != nil {
		return nil, err
	}
	var weights *model.Stored
	if t.Definition, weights, err = t.files.Partial(nil); errors.Is(err, fs.ErrNotExist) {
		t.Definition, err = t.files.Definition()
	}
	if err != nil {
		return nil, err
	}
	if found := t.Definition.Vocab(); found != vocab {
		return nil, fmt.Errorf("%s: found a vocabulary of %d tokens, wanted the student's %d", path, found, vocab)
	}
	if err := sameTokens(t.files, tokens, path, out); err != nil {
		return nil, err
	}
	if weights != nil {
		t.params, _ = weights.Params(0)
	}
	for i := range t.params {
		t.params[i].Path = model.TeacherPrefix + t.params[i].Path
	}
	return t, nil
}

// sameTokens compares the tokenizer of a teacher, if there is one, with the run's: each token has to be the same text in both.
func sameTokens(b *hub.Bundle, tokens Tokens, path string, out io.Writer) error {
	if b = b.OrBase(tokenizer.Has(b)); !tokenizer.Has(b) || tokens.Tokenizer == nil {
		return nil // ids, or bytes, are what they are
	}
	theirs, err := tokenizer.Open(b)
	if err != nil {
		return err
	}
	own := tokens.Tokenizer
	if theirs.Fingerprint() == own.Fingerprint() {
		return nil
	}
	for id := range int32(min(theirs.VocabSize(), own.VocabSize())) {
		one, _ := theirs.Token(id)
		if other, _ := own.Token(id); one != other {
			return fmt.Errorf("%s: found a tokenizer whose token %d is %q, wanted %q, as that of %s has it: a teacher says what it thinks of the student's tokens",
				path, id, one, other, tokens.Path)
		}
	}
	fmt.Fprintf(out, "gputrain: warning: distil.teacher: %s: the tokenizer has another fingerprint than that of %s, and the same tokens\n", path, tokens.Path)
	return nil
}

// fingerprint takes the fingerprint of the teacher, and compares it with the run file's.
func (t *teacher) fingerprint(cfg *runfile.Config) (err error) {
	if t.lists != nil {
		t.Fingerprint = t.lists.Fingerprint()
	} else if t.Fingerprint, err = model.Fingerprint(t.params); err != nil {
		return cfg.Wrong("distil.teacher", err)
	}
	if d := cfg.Distil; d.Fingerprint != "" && !hasFingerprint(t.Fingerprint, d.Fingerprint) {
		return cfg.Invalid("distil.fingerprint", d.Fingerprint, fmt.Sprintf("%s, that of %s", t.Fingerprint, d.Teacher))
	}
	return nil
}

// ready refuses a teacher without weights or with another fingerprint, and lays its lists beside the rows of a text.
func (t *teacher) ready(cfg *runfile.Config, text *texts.Corpus, context, vocab int) error {
	if t.lists == nil && t.params == nil {
		return cfg.Wrong("distil.teacher", fmt.Errorf("%s: found no weights, wanted some", t.files.Path(".")))
	}
	if err := t.fingerprint(cfg); err != nil {
		return err
	}
	return t.lay(cfg, text, context, vocab)
}

// lay checks a file of lists against the rows of a text, and lays it beside them.
func (t *teacher) lay(cfg *runfile.Config, text *texts.Corpus, context, vocab int) error {
	if t.lists == nil {
		return nil
	}
	wrong := func(err error) error { return cfg.Wrong("distil.teacher", fmt.Errorf("%s: %w", t.lists.path, err)) }
	train, ok := text.Train.(*texts.Documents)
	if !ok {
		return wrong(errors.New("found a text without rows, wanted data.jsonl: a file of lists has one for each row"))
	}
	validation, _ := text.Validation.(*texts.Documents)
	bucket := cfg.Distil.Tail == "bucket"
	of := listsOf{lists: t.lists, vocab: vocab, bucket: bucket}
	for _, d := range []*texts.Documents{train, validation} {
		if d == nil {
			continue
		}
		if err := of.check(d, context); err != nil {
			return wrong(err)
		}
	}
	var err error
	if text.Train, err = train.Along(context, of.lay); err == nil && validation != nil {
		text.Validation, err = validation.Along(context, of.lay)
	}
	return err
}

// hasFingerprint tells whether a fingerprint begins as another says, with or without the name of its kind.
func hasFingerprint(found, wanted string) bool {
	const kind = "sha256:"
	return strings.HasPrefix(strings.TrimPrefix(found, kind), strings.TrimPrefix(wanted, kind))
}
