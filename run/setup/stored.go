package setup

import (
	"errors"

	"gputrain/hub"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// StoredModel is a model in its files.
type StoredModel struct {
	*hub.Bundle
	Def     model.Definition
	Weights *model.Stored
}

// Stored reads what the files of a model say of it, whose checksums hold. It closes them after an error.
func Stored(b *hub.Bundle) (s *StoredModel, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	s = &StoredModel{Bundle: b}
	for _, p := range append(b.Parts(), hub.Weighted{Bundle: b}) {
		if err := checkpoint.VerifyModel(checkpoint.OS, p.Path(".")); err != nil {
			return nil, err
		}
	}
	if s.Def, err = b.Definition(); err != nil {
		return nil, &ModelError{err}
	}
	if s.Weights, err = b.Weights(s.Def); err != nil {
		return nil, &ModelError{err}
	}
	return s, nil
}
