package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gputrain/buffers/array"
	"gputrain/internal/placeholder"
	"gputrain/model"
)

// mostBases is how many directories may stand behind each other as bases.
const mostBases = 8

// BaseError says why the base of a directory cannot be read.
type BaseError struct {
	Dir  string // that names it
	Base string
	Err  error
}

// Error names both.
func (e *BaseError) Error() string {
	return fmt.Sprintf("model: read weights: base %q: %v (%s)", e.Base, e.Err, e.Dir)
}

// Unwrap gives the cause.
func (e *BaseError) Unwrap() error { return e.Err }

// inPlace is an error about what a file says, or what lies in its place where it was not downloaded.
func inPlace(raw []byte, err error) error {
	if what := placeholder.What(raw); what != "" {
		return errors.New(what)
	}
	return err
}

// hasAdapters tells whether the directory has adapters: a PEFT directory, or a checkpoint of them.
func (b *Bundle) hasAdapters() (bool, error) {
	if b.isGGUF {
		return false, nil
	}
	_, err := b.Stat(model.AdapterConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// On says where the base is, in place of what the directory says: it is closed with b.
func (b *Bundle) On(base *Bundle) {
	b.base = base
	b.AtClose(base.Close)
}

// baseAt is the base, which the directory says is at a path.
func (b *Bundle) baseAt(path string) *Bundle {
	if b.base == nil {
		b.On(Open(path))
	}
	return b.base
}

// Base is the model that adapters stand on: what On gave or, in this order, what base.json and adapter_config.json say,
// the latter a directory as it stands there or beside b. nil: b has no adapters.
func (b *Bundle) Base() (*Bundle, error) {
	if is, err := b.hasAdapters(); err != nil || !is {
		return nil, err
	}
	if b.base == nil {
		named, err := b.namedBase()
		if err != nil {
			return nil, err
		}
		b.baseAt(named)
	}
	is, err := b.base.hasAdapters()
	if is {
		err = errors.New("found adapters, wanted a whole model: merge them first")
	}
	if err != nil {
		return nil, &BaseError{Dir: b.path, Base: b.base.path, Err: err}
	}
	return b.base, nil
}

// OrBase is the model itself where something is there, else the base of its adapters.
func (b *Bundle) OrBase(there bool) *Bundle {
	if there {
		return b
	}
	if base, err := b.Base(); err == nil && base != nil {
		return base
	}
	return b
}

// namedBase is the directory that b names as its base.
func (b *Bundle) namedBase() (string, error) {
	left, err := b.LeftOut()
	if err != nil {
		return "", fmt.Errorf("model: read adapter: %w (%s)", err, b.path)
	}
	if left != nil {
		return left.Directory, nil
	}
	_, name, err := b.adapterConfig()
	if err != nil {
		return "", err
	}
	if name == "" {
		return "", fmt.Errorf("model: read adapter %q: %s: base_model_name_or_path: found none, wanted the base's directory: name it", b.path, model.AdapterConfigFile)
	}
	found, tried := b.directoryOf(name)
	if found != "" {
		return found, nil
	}
	return "", &BaseError{Dir: b.path, Base: name, Err: fmt.Errorf("found no directory %q, wanted the model that the adapter was trained on: download it, and name it%s",
		tried, Download(name))}
}

// directoryOf is the directory that a base's name means; "": where it was looked for there is none.
func (b *Bundle) directoryOf(name string) (found string, tried []string) {
	tried = []string{name}
	if !filepath.IsAbs(name) {
		tried = append(tried, filepath.Join(filepath.Dir(filepath.Clean(b.path)), name))
	}
	for _, name := range tried {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return name, tried
		}
	}
	return "", tried
}

// BaseOnHub is what the hub calls the base of adapters, where their configuration has such a name and no directory;
// else "".
func (b *Bundle) BaseOnHub() string {
	_, name, err := b.adapterConfig()
	if err != nil || !isHubName(name) { // reading the model says what is wrong
		return ""
	}
	if found, _ := b.directoryOf(name); found != "" {
		return ""
	}
	return name
}

// adapterConfig is adapter_config.json, and what it calls the base.
func (b *Bundle) adapterConfig() (raw []byte, base string, err error) {
	if raw, err = b.ReadFile(model.AdapterConfigFile); err != nil {
		return nil, "", fmt.Errorf("model: read adapter %w", err)
	}
	if base, err = model.AdapterBase(raw); err != nil {
		return nil, "", fmt.Errorf("model: read adapter %q: %w", b.Path(model.AdapterConfigFile), inPlace(raw, err))
	}
	return raw, base, nil
}

// adapted is the definition of adapters, on their base.
func (b *Bundle) adapted() (model.Definition, error) {
	raw, _, err := b.adapterConfig()
	if err != nil {
		return nil, err
	}
	def, err := b.config()
	if errors.Is(err, fs.ErrNotExist) {
		var base *Bundle
		if base, err = b.Base(); err != nil {
			return nil, err
		}
		if def, err = base.config(); err != nil {
			err = &BaseError{Dir: b.path, Base: base.path, Err: err}
		}
	}
	if err != nil {
		return nil, err
	}
	if len(b.parts) > 0 {
		def, b.sum, err = b.addUp(def)
		return def, err
	}
	return b.adapt(raw, def)
}

// Weighted are adapters, and what they count.
type Weighted struct {
	*Bundle
	Weight float64
}

// AddUp has the adapters of b count so much, and those of others besides: all are closed with b. On has said where their base is.
func (b *Bundle) AddUp(weight float64, others ...Weighted) {
	b.parts = append([]Weighted{{b, weight}}, others...)
	for _, o := range others {
		b.AtClose(o.Close)
	}
}

// Parts are the adapters that count together; none: those of b alone do.
func (b *Bundle) Parts() []Weighted { return b.parts }

// addUp is def with the adapters of all parts, which must have been trained upon one base, and their tensors.
func (b *Bundle) addUp(def model.Definition) (model.Definition, []array.Tensor, error) {
	var parts []model.Part
	var first *model.Base
	for _, p := range b.parts {
		upon, err := p.Upon()
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = upon
		} else if upon != nil && upon.Fingerprint != first.Fingerprint {
			return nil, nil, fmt.Errorf("model: add up adapters: %s: found parameters of fingerprint %s below it and %s below %s, wanted adapters of one base", p.path, upon.Fingerprint, first.Fingerprint, b.path)
		}
		on, err := p.config()
		if errors.Is(err, fs.ErrNotExist) {
			on, err = def, nil
		}
		if err != nil {
			return nil, nil, err
		}
		part := model.Part{From: p.path, Weight: p.Weight}
		if part.Def, part.Weights, err = p.Adapters(on); err != nil {
			return nil, nil, err
		}
		part.Weights.AllowNotFinite()
		parts = append(parts, part)
	}
	return model.AddUp(parts)
}

// adapt is def with the adapters that adapter_config.json tells of.
func (b *Bundle) adapt(raw []byte, def model.Definition) (model.Definition, error) {
	tensors, _ := b.allTensors() // who reads them says what is wrong with them
	if upon, err := b.readBase(model.FingerprintFile); err == nil && upon != nil && upon.Head != nil {
		if def, err = model.WithHead(def, *upon.Head); err != nil {
			return nil, fmt.Errorf("%w (%s)", err, b.Path(model.FingerprintFile))
		}
	}
	def, err := model.ParseAdapter(raw, def, tensors...)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, b.Path(model.AdapterConfigFile))
	}
	return def, nil
}

// LeftOut is what base.json says of parameters that the directory leaves out; nil where it says nothing.
func (b *Bundle) LeftOut() (*model.Base, error) {
	left, err := b.readBase(model.BaseFile)
	if left != nil && !filepath.IsAbs(left.Directory) {
		return nil, fmt.Errorf("%s: directory: found %q, wanted an absolute path", model.BaseFile, left.Directory)
	}
	return left, err
}

// Upon is what adapters were trained upon: LeftOut, else base_fingerprint.json; nil where neither is there.
func (b *Bundle) Upon() (*model.Base, error) {
	left, err := b.LeftOut()
	if left != nil || err != nil {
		return left, err
	}
	return b.readBase(model.FingerprintFile)
}

func (b *Bundle) readBase(name string) (*model.Base, error) {
	raw, err := b.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	base, err := model.ParseBase(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return base, nil
}

// ReadBase is LeftOut of what lies at a path.
func ReadBase(path string) (*model.Base, error) {
	b := Open(path)
	left, err := b.LeftOut()
	return left, errors.Join(err, b.Close())
}

// Bases are the directories that a directory has its parameters from besides itself: its base, the base of that, and so
// on. Those that cannot be read any more end the list: opening them says why.
func Bases(path string) (paths []string) {
	for range mostBases {
		left, err := ReadBase(path)
		if err != nil || left == nil {
			break
		}
		path = left.Directory
		paths = append(paths, path)
	}
	return paths
}

// anything lets every parameter be missing.
var anything = regexp.MustCompile("")

// Weights opens the weights of def, to be read until Close. To read one that is not finite is a *model.NotFiniteError.
// Every parameter must be there with its shape, and nothing else but known constants and, with a tied head, a copy of
// the embedding. Parameters that the directory leaves out are read in its base, whose fingerprint is compared.
func (b *Bundle) Weights(def model.Definition) (*model.Stored, error) {
	return b.weights(def, nil, nil)
}

// weights is Weights of what may lack parameters; above are the directories whose bases led to b, without links.
func (b *Bundle) weights(def model.Definition, allowed []*regexp.Regexp, above []string) (*model.Stored, error) {
	what, adapters := "weights", len(model.AdapterParams(def)) > 0
	if adapters {
		what = "adapter"
	}
	left, err := b.LeftOut()
	switch {
	case err != nil:
		return nil, fmt.Errorf("model: read %s: %w (%s)", what, err, b.path)
	case left != nil:
		allowed = []*regexp.Regexp{anything}
	case !adapters && b.base != nil && !b.isPart(def):
		return nil, fmt.Errorf("model: read weights: base %q: found all parameters in %s, wanted some that are left to a base", b.base.path, b.path)
	}
	var s *model.Stored
	if len(b.parts) > 0 {
		s, err = model.Bind(def, b.path, b.sum)
	} else {
		s, err = b.bind(def, what, allowed)
	}
	switch {
	case err != nil:
		return nil, err
	case left != nil:
		return s, b.lay(s, def, *left, above)
	case adapters:
		return s, b.stand(s, def)
	}
	return s, nil
}

// isPart tells whether the base is a larger model, whose text part def is.
func (b *Bundle) isPart(def model.Definition) bool {
	whole, err := b.base.config()
	if err != nil {
		return false
	}
	_, is := model.Within(def, whole)
	return is
}

// bind finds the parameters of def among the tensors.
func (b *Bundle) bind(def model.Definition, what string, allowed []*regexp.Regexp) (*model.Stored, error) {
	tensors, err := b.allTensors()
	if err != nil {
		return nil, fmt.Errorf("model: read %s: %w", what, err)
	}
	s, err := model.Bind(def, b.path, tensors, allowed...)
	switch {
	case err != nil && what == "adapter":
		return nil, fmt.Errorf("model: read adapter %q: %w", b.Path(model.AdapterWeightsFile), err)
	case err != nil:
		return nil, fmt.Errorf("%w (%s)", err, b.path)
	}
	mean, blend, err := b.average()
	if err != nil {
		return nil, fmt.Errorf("model: read %s: %w", what, err)
	}
	s.Blend(mean, blend)
	return s, nil
}

// stand puts the adapters of s, those of def, upon the weights of their base.
func (b *Bundle) stand(s *model.Stored, def model.Definition) error {
	base, err := b.Base()
	if err != nil {
		return err
	}
	upon, err := b.readBase(model.FingerprintFile)
	if err != nil {
		return fmt.Errorf("model: read adapter: %w (%s)", err, b.path)
	}
	for _, p := range b.parts {
		if upon == nil {
			upon, _ = p.Upon() // addUp has read it
		}
	}
	below, err := base.weights(model.BaseOf(def), model.MayLack(def), nil)
	if err != nil {
		return &BaseError{Dir: b.path, Base: base.path, Err: err}
	}
	s.StandOn(below, upon)
	return nil
}

// Adapters is def with the adapters of b, and these alone: nothing is read of their base.
func (b *Bundle) Adapters(def model.Definition) (model.Definition, *model.Stored, error) {
	raw, _, err := b.adapterConfig()
	if err == nil {
		def, err = b.adapt(raw, def)
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := b.bind(def, "adapter", nil)
	return def, s, err
}

// lay opens the base that has the parameters which s, of b, leaves out, and compares their fingerprint.
func (b *Bundle) lay(s *model.Stored, def model.Definition, left model.Base, above []string) (err error) {
	if b.base != nil {
		if left.Directory, err = filepath.Abs(b.base.path); err != nil {
			return err
		}
	}
	failed := func(err error) error {
		var deeper *BaseError
		if errors.As(err, &deeper) { // of the base's own base, which is named
			return err
		}
		return &BaseError{Dir: b.path, Base: left.Directory, Err: err}
	}
	here, err := filepath.EvalSymlinks(b.path)
	if err != nil {
		return failed(err)
	}
	there, err := filepath.EvalSymlinks(left.Directory)
	if err != nil {
		return failed(err)
	}
	above = append(slices.Clone(above), here)
	switch {
	case there == here:
		return failed(errors.New("found the directory itself, wanted another one: what it leaves out is nowhere"))
	case slices.Contains(above, there):
		return failed(errors.New("found a directory whose own base this is, wanted another one: what they leave out is nowhere"))
	case len(above) > mostBases:
		return failed(fmt.Errorf("found more than %d bases behind each other", mostBases))
	}
	base := b.baseAt(left.Directory)
	if config, err := base.config(); err == nil && config.Kind() != def.Kind() {
		return failed(fmt.Errorf("found a model of kind %s, wanted %s: it is not what was trained upon", config.Kind(), def.Kind()))
	}
	below, err := base.weights(model.BaseOf(def), model.MayLack(def), above)
	if err != nil {
		return failed(err)
	}
	if err := s.TakeFrom(below, left); err != nil {
		return failed(err)
	}
	return nil
}

// PatternError says that an expression for parameters cannot be meant.
type PatternError struct{ err error }

// Error says which, and why.
func (e *PatternError) Error() string {
	return fmt.Sprintf("model: read weights: allowed to be missing: %v", e.err)
}

// Partial is Definition and Weights of a model that may lack parameters: those of whose paths one of allowed, regular
// expressions, matches. Stored.Params draws them. An expression that matches no parameter of the model is a
// *PatternError; another shape and a tensor that is no parameter are errors whatever is allowed.
func (b *Bundle) Partial(allowed []string) (model.Definition, *model.Stored, error) {
	def, err := b.Definition()
	if err != nil {
		return nil, nil, err
	}
	var expressions []*regexp.Regexp
	for _, pattern := range allowed {
		r, err := regexp.Compile(pattern)
		if err == nil && !slices.ContainsFunc(def.Params(), func(p model.Param) bool { return r.MatchString(p.Path) }) {
			err = fmt.Errorf("pattern %q: matches none of the %d parameters", pattern, len(def.Params()))
		}
		if err != nil {
			return nil, nil, &PatternError{err}
		}
		expressions = append(expressions, r)
	}
	s, err := b.weights(def, expressions, nil)
	return def, s, err
}
