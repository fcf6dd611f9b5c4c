package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"gputrain/checkpoint"
	"gputrain/gguf/modeldir"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
	"gputrain/tokenizer"
	"gputrain/train/setup"
)

// baseFlag says where a base is that has moved.
type baseFlag struct {
	Base string `help:"Where the directory is now that has what a checkpoint leaves out (base.json), if it has moved: it is known by its fingerprint." type:"model" placeholder:"DIR"`
}

// dir is the directory of the base, which stays there until release; "" where none is given.
func (f baseFlag) dir() (dir string, release func(), err error) {
	if f.Base == "" {
		return "", func() {}, nil
	}
	return setup.HoldModel(f.Base, told)
}

// advised says what may help where a base cannot be read.
func (f baseFlag) advised(err error) error {
	var base *model.BaseError
	if f.Base == "" && errors.As(err, &base) {
		return fmt.Errorf("%w; if it has moved, say where it is with --base", err)
	}
	return err
}

// storedModel is a model in its files.
type storedModel struct {
	dir, at string // at is where its base was said to be; "" for nowhere
	def     model.Definition
	weights *model.Stored
	release func()
}

// open opens a model's files, whose checksums hold, to be read whatever numbers they have.
func (f baseFlag) open(from string) (_ *storedModel, err error) {
	s := &storedModel{}
	var releases []func()
	s.release = func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	dir, leave, err := setup.HoldModel(from, told)
	if err != nil {
		return nil, err
	}
	releases = append(releases, leave)
	if err := checkpoint.VerifyModel(checkpoint.OS, dir); err != nil {
		return nil, err
	}
	at, leave, err := f.dir()
	if err != nil {
		return nil, err
	}
	releases = append(releases, leave)
	s.dir, s.at = dir, at
	if s.def, err = model.ReadConfigOn(dir, at); err != nil {
		return nil, &setup.ModelError{Err: f.advised(err)}
	}
	if s.weights, err = model.OpenWeightsOn(dir, s.def, at); err != nil {
		return nil, &setup.ModelError{Err: f.advised(err)}
	}
	s.weights.AllowNotFinite()
	return s, nil
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

// export writes a model of these weights, and says which of them are not finite. It closes them.
func (s *storedModel) export(to string, def model.Definition, read func(path string) ([]float32, error), o model.ExportOptions) error {
	err := model.Export(to, def, read, o)
	if errors.Is(err, fs.ErrExist) {
		err = usageError{err}
	}
	if err = errors.Join(err, s.weights.Close()); err == nil {
		tellNotFinite(s.weights.NotFinite())
	}
	return err
}

// modelFlags name a trained model and where to run it.
type modelFlags struct {
	baseFlag
	Model   string `arg:"" help:"Run directory (its newest checkpoint), checkpoint, model directory in the Hugging Face layout, or GGUF file." type:"model"`
	Adapter string `help:"Index, part of a name, or backend:part." placeholder:"SEL"`

	tokens   setup.Tokens // of the model's directory
	unspoken error        // why that has none
}

// openedModel is a model on its adapter, and the directory that says how text is drawn from it.
type openedModel struct {
	*state.Model
	drawn string
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
	s, err := f.baseFlag.open(f.Model)
	if err != nil {
		return nil, nil, err
	}
	defer s.weights.Close()
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if err := tellDoubt(s.weights, false); err != nil {
		return nil, nil, err
	}
	adapter, err := selectAdapter(f.Adapter)
	if err != nil {
		return nil, nil, err
	}
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	if err != nil {
		return nil, nil, err
	}
	loaded, err := state.LoadStored(dev, s.dir, s.def, s.weights)
	if err != nil {
		dev.Release()
		return nil, nil, err
	}
	tellNotFinite(loaded.NotFinite())
	f.tokens, f.unspoken = setup.ModelTokens(textDir(s.dir, s.at), s.def)
	return &openedModel{loaded, drawnDir(s.dir, s.at)}, func() { loaded.Release(); dev.Release(); s.release() }, nil
}

// textDir is the directory with a model's tokenizer: that of the base where one of adapters has none.
func textDir(dir, at string) string { return dirOf(dir, at, tokenizer.Has) }

// drawnDir is that with its generation_config.json, likewise.
func drawnDir(dir, at string) string {
	return dirOf(dir, at, func(dir string) bool { return has(dir, checkpoint.GenerationFile) })
}

// dirOf is the directory of a model, or of adapters that lack something the one of their base, which is in at unless that is "".
func dirOf(dir, at string, there func(dir string) bool) string {
	if base, err := model.AdapterBase(dir, at); err == nil && base != "" && !there(dir) {
		return base
	}
	return dir
}

// has tells whether something of that name lies in a directory.
func has(dir, name string) bool {
	return modeldir.Has(dir, name)
}
