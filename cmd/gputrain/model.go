package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/setup"
	"gputrain/state"
	"gputrain/state/checkpoint"
	"gputrain/text/tokenizer"
)

// baseFlag says where a base is that has moved.
type baseFlag struct {
	Base string `help:"Where the directory is now that has what a checkpoint leaves out (base.json), if it has moved: it is known by its fingerprint." type:"model" placeholder:"DIR"`

	laid []loraFlag // adapters that are laid over the model, which is their base
}

// advised says what may help where a base cannot be read.
func (f baseFlag) advised(err error) error {
	var base *hub.BaseError
	if f.Base == "" && errors.As(err, &base) {
		return fmt.Errorf("%w; if it has moved, say where it is with --base", err)
	}
	return err
}

// open opens a model, with its base where --base says: both are closed together.
func (f baseFlag) open(from string) (*hub.Bundle, error) {
	base := f.Base
	if len(f.laid) > 0 {
		from, base = f.laid[0].dir, from
	}
	b, err := setup.Open(from, told)
	if err != nil || base == "" {
		return b, err
	}
	below, err := setup.Open(base, told)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.On(below)
	if len(f.laid) > 1 || len(f.laid) == 1 && f.laid[0].weight != 1 {
		err = f.addUp(b)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// storedModel is a model in its files.
type storedModel struct{ *setup.StoredModel }

// stored opens a model's files, whose checksums hold, to be read whatever numbers they have.
func (f baseFlag) stored(from string) (*storedModel, error) {
	b, err := f.open(from)
	if err != nil {
		return nil, err
	}
	s, err := setup.Stored(b)
	if err != nil {
		return nil, f.advised(err)
	}
	s.Weights.AllowNotFinite()
	return &storedModel{s}, nil
}

// dir is where the model is.
func (s *storedModel) dir() string { return s.Path(".") }

// named is the model for messages: where it is, or all adapters with what they count.
func (s *storedModel) named() string {
	if len(s.Parts()) == 0 {
		return s.dir()
	}
	return setup.PartsText(s.Bundle, func(path string) string { return path })
}

// tellDoubt warns where the base of adapters is not what they were trained upon, and with unknown where nothing tells.
func tellDoubt(weights *model.Stored, unknown bool) error {
	doubt, known, err := weights.Doubt()
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	if doubt != "" && (known || unknown) {
		say("gputrain: warning: %s\n", doubt)
	}
	return nil
}

// within is the model as the text part of what another is the text part of, if that is so: training began with the other, which may be nil.
func (s *storedModel) within(other *hub.Bundle) model.Definition {
	if other == nil {
		return s.Def
	}
	whole, err := other.Definition()
	if err != nil { // reading its weights says why
		return s.Def
	}
	def, _ := model.Within(s.Def, whole)
	return def
}

// export writes a model of these weights, and says which of them are not finite. Where it is the text part of whole, the files of the other parts go with it.
func (s *storedModel) export(to string, def model.Definition, read func(path string) ([]float32, error), o model.ExportOptions, whole *hub.Bundle) error {
	if _, part := model.Within(def, def); part && len(model.AdapterParams(def)) == 0 {
		files, err := setup.Processors(whole)
		if err != nil {
			return &setup.ModelError{Err: err}
		}
		for _, f := range files {
			o.Companions[f.Name] = f.Write
		}
	}
	err := model.Export(to, def, read, o)
	if errors.Is(err, fs.ErrExist) {
		err = usageError{err}
	}
	if err == nil {
		tellNotFinite(s.Weights.NotFinite())
	}
	return err
}

// modelFlags name a trained model and where to run it.
type modelFlags struct {
	baseFlag
	Model   string   `arg:"" help:"Run directory (its newest checkpoint), checkpoint, model directory in the Hugging Face layout, GGUF file, or PEFT directory." type:"model"`
	Adapter []string `help:"A directory with low-rank adapters (adapter_config.json, or a run of them) for the model, several of which add up, each times its weight; or an adapter's index, part of its name, or backend:part." placeholder:"DIR[=WEIGHT]|SEL" sep:"none"`

	tokens   setup.Tokens // of the model's directory
	unspoken error        // why that has none
}

// openedModel is a model on its adapter, and what says how text is drawn from it.
type openedModel struct {
	*state.Model
	drawn  *hub.Bundle
	stored *storedModel
}

// fingerprint is that of all parameters.
func (m *openedModel) fingerprint() (string, error) {
	params, _ := m.stored.Weights.Params(0)
	return model.Fingerprint(params)
}

// tellNotFinite says in one line that a model is damaged, and where.
func tellNotFinite(found []*model.NotFiniteError) {
	if len(found) == 0 {
		return
	}
	more := ""
	if n := len(found) - 1; n > 0 {
		more = fmt.Sprintf("; %d more tensors have some too", n)
	}
	say("gputrain: %v%s: gputrain inspect counts them\n", found[0], more)
}

// open opens the model's files, whose directory stays there until release, and puts the model on its adapter.
func (f *modelFlags) open(ctx context.Context) (m *openedModel, release func(), err error) {
	rest, err := f.lay(f.Adapter)
	if err == nil && len(rest) > 1 {
		err = usageError{fmt.Errorf("--adapter: found %s and %s, wanted no two selectors of an adapter", rest[0], rest[1])}
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := f.stored(f.Model)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := tellDoubt(s.Weights, false); err != nil {
		return nil, nil, err
	}
	adapter, err := selectAdapter(strings.Join(rest, ""))
	if err != nil {
		return nil, nil, err
	}
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	if err != nil {
		return nil, nil, err
	}
	loaded, err := state.LoadStored(dev, s.dir(), s.Def, s.Weights)
	if err != nil {
		dev.Release()
		return nil, nil, err
	}
	tellNotFinite(loaded.NotFinite())
	f.tokens, f.unspoken = setup.ModelTokens(s.Bundle, s.Def)
	return &openedModel{loaded, drawnOf(s.Bundle), s}, func() {
		loaded.Release()
		dev.Release()
		_ = s.Close() // nothing was written
	}, nil
}

// spells refuses a model whose tokens nothing makes text of.
func (f *modelFlags) spells(command string, def model.Definition) error {
	if v := def.Vocab(); f.unspoken == nil && f.tokens.Tokenizer == nil && v != 256 {
		return usageError{fmt.Errorf("%s: %s: found a vocabulary of %d and no tokenizer, wanted tokenizer.json or tokenizer.model there, or 256: bytes", command, f.Model, v)}
	}
	return f.unspoken
}

// spoken is what has a model's tokenizer: the base where one of adapters has none.
func spoken(b *hub.Bundle) *hub.Bundle { return b.OrBase(tokenizer.Has(b)) }

// drawnOf is what has its generation_config.json, likewise.
func drawnOf(b *hub.Bundle) *hub.Bundle { return b.OrBase(b.Has(checkpoint.GenerationFile)) }
