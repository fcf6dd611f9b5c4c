package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/gguf"
	"gputrain/gguf/llamacpp"
)

// Stored are the weights of a model in its files.
type Stored struct {
	params []Param
	names  map[string]string // in the files, by path
	in     weights
	files  []io.Closer
	base   *Stored // has those that are not in the files; nil: there are none
	from   *Base   // what base is
	upon   *Base   // what adapters without a BaseFile were trained upon; nil: that is not known

	tiedCopy string // what the files call a copy of a tied head; "" for none

	dir    string // that of the files, for messages
	finite finiteness
}

// OpenWeights opens the weights of def in dir. To read one that is not finite is a *NotFiniteError. Every parameter must be there with its shape, and nothing else but known constants and, with
// a tied head, a copy of the embedding as lm_head.weight. Where the directory names a Base, the parameters that it lacks are read there.
func OpenWeights(dir string, def Definition) (*Stored, error) {
	return openWeights(dir, def, nil, bases{})
}

// OpenWeightsOn is OpenWeights of a directory whose Base is in another place than it says: in at. "": where it says.
func OpenWeightsOn(dir string, def Definition, at string) (*Stored, error) {
	return openWeights(dir, def, nil, bases{at: at})
}

func openWeights(dir string, def Definition, allowed []*regexp.Regexp, b bases) (*Stored, error) {
	if m, ok := def.(adapted); ok {
		return openAdapted(dir, m, b)
	}
	base, err := ReadBase(dir)
	if err != nil {
		return nil, fmt.Errorf("model: read weights: %w (%s)", err, dir)
	}
	if base == nil && b.at != "" {
		return nil, fmt.Errorf("model: read weights: base %q: found all parameters in %s, wanted some that are left to a base", b.at, dir)
	}
	if base != nil {
		allowed = []*regexp.Regexp{anything}
	}
	in, files, err := openTensors(dir)
	if err != nil {
		return nil, fmt.Errorf("model: read weights: %w", err)
	}
	s, err := storedIn(def, in, allowed)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w (%s)", err, dir), closeAll(files))
	}
	s.files = files
	s.dir = dir
	if base != nil {
		if err := s.openBase(def, dir, *base, b); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// openTensors opens the files of weights in dir, or the GGUF file that stands for one.
func openTensors(dir string) (weights, []io.Closer, error) {
	if gguf.Is(dir) {
		return ggufTensors(dir)
	}
	files, err := openFiles(dir)
	if err != nil {
		return nil, nil, err
	}
	var closers []io.Closer
	for _, f := range files {
		closers = append(closers, f)
	}
	in, err := tensorsOf(files)
	if err != nil {
		return nil, nil, errors.Join(err, closeAll(closers))
	}
	return in, closers, nil
}

// ggufTypes are the types that safetensors has too. Blocks are widened to F32.
var ggufTypes = map[gguf.Type]string{gguf.BF16: "BF16", gguf.F16: "F16"}

func ggufTensors(path string) (weights, []io.Closer, error) {
	d, err := llamacpp.Open(path)
	if err != nil {
		return nil, nil, err
	}
	w := weights{}
	for _, p := range d.Parameters() {
		w[p.Name] = &tensor{name: p.Name, dtype: cmp.Or(ggufTypes[p.Type], "F32"), shape: p.Shape, other: p.Read}
	}
	return w, []io.Closer{d}, nil
}

// openFiles opens the files of weights in dir, and compares them with their index.
func openFiles(dir string) (files []*safetensors.File, err error) {
	index, err := indexOf(dir)
	if index == nil && err == nil {
		f, err := safetensors.Open(filepath.Join(dir, singleFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noWeights(dir)
		}
		return []*safetensors.File{f}, err
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, f := range files {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	tensors := map[string][]string{} // by file
	for tensor, file := range index {
		tensors[file] = append(tensors[file], tensor)
	}
	for _, file := range slices.Sorted(maps.Keys(tensors)) {
		f, err := safetensors.Open(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: found no %q, wanted it for %d of %d tensors: %w (%s)", indexFile, file, len(tensors[file]), len(index), fs.ErrNotExist, dir)
		}
		if err != nil {
			return files, err
		}
		files = append(files, f)
		for _, tensor := range slices.Sorted(slices.Values(tensors[file])) {
			if _, _, ok := f.Info(tensor); !ok {
				return files, fmt.Errorf("%s: tensor %q: found it not in %q, wanted it there: the file is of another model (%s)", indexFile, tensor, file, dir)
			}
		}
	}
	return files, nil
}

// others are files of weights that are not read, by what their names end with, and what may be done.
var others = []struct{ suffix, what string }{
	{AdapterWeightsFile, "is an adapter, and there is no " + AdapterConfigFile + " that says of what"},
	{".safetensors", "is not named as Hugging Face names weights"},
	{".safetensors.index.json", "is not named as Hugging Face names an index"},
	{".gguf", "is a model of its own: name the file"},
	{".bin", "is a pickle, which may run code and is never read: save the model as safetensors"},
	{".pt", "is a pickle, which may run code and is never read: save the model as safetensors"},
	{".pth", "is a pickle, which may run code and is never read: save the model as safetensors"},
}

// noWeights says that dir has none, and what is there instead.
func noWeights(dir string) error {
	found := ""
	entries, err := os.ReadDir(dir)
	for _, o := range others {
		i := slices.IndexFunc(entries, func(e fs.DirEntry) bool {
			return strings.HasSuffix(e.Name(), o.suffix) && e.Name() != "training_args.bin"
		})
		if i >= 0 {
			found = fmt.Sprintf("; %s %s", entries[i].Name(), o.what)
			break
		}
	}
	return errors.Join(err, fmt.Errorf("%q: found no weights, wanted %s, or %s and the files it names%s: %w", dir, singleFile, indexFile, found, fs.ErrNotExist))
}

func storedIn(def Definition, in weights, allowed []*regexp.Regexp) (_ *Stored, err error) {
	s := &Stored{params: laidOut(def), in: in}
	if s.names, err = s.in.match(def, allowed); err != nil {
		return nil, fmt.Errorf("model: weights: %w", err)
	}
	if family := families[def.Kind()]; family.Head != "" && s.names[family.Head] == "" {
		for name := range s.in {
			if family.path(name) == family.Head {
				s.tiedCopy = name
			}
		}
	}
	return s, nil
}

// Read reads a parameter; F16, BF16 and codes are widened.
func (s *Stored) Read(path string) ([]float32, error) {
	name, ok := s.names[path]
	if !ok && s.base != nil {
		return s.base.Read(path)
	}
	if !ok {
		return nil, fmt.Errorf("model: weights: %q is no parameter of this model", path)
	}
	t := s.in[name]
	data := make([]float32, elements(t.shape)) // bounded by the file's own size, which opening it has compared with the shape
	if err := t.read(data, 0); err != nil {
		return nil, fmt.Errorf("model: weights: %w", err)
	}
	return data, s.check(name, data)
}

// Params are all parameters, in canonical order, to be read from the files when they are used: until Close. Those that are not stored are drawn as Init
// draws them from seed, and drawn names them.
func (s *Stored) Params(seed uint64) (hosts []array.Host, drawn []string) {
	return s.hosts(s.params, seed)
}

// ParamsOf is Params of a network around that of the files, such as one of WithLoRA.
func (s *Stored) ParamsOf(def Definition, seed uint64) (hosts []array.Host, drawn []string) {
	return s.hosts(laidOut(def), seed)
}

func (s *Stored) hosts(params []Param, seed uint64) (hosts []array.Host, drawn []string) {
	for _, p := range params {
		host, stored := s.param(p)
		if !stored {
			host, drawn = p.drawn(seed), append(drawn, p.Path)
		}
		hosts = append(hosts, host)
	}
	begin(params, hosts, func(i int) bool { return slices.Contains(drawn, params[i].Path) })
	return hosts, drawn
}

// param is a parameter in its file, or in that of a base.
func (s *Stored) param(p Param) (host array.Host, stored bool) {
	name, ok := s.names[p.Path]
	if !ok && s.base != nil {
		return s.base.param(p)
	}
	host = array.Host{Path: p.Path, Shape: p.Shape, OutIn: p.outIn(), Read: func(dst []float32, first int) error {
		if err := s.in[name].read(dst, first); err != nil {
			return fmt.Errorf("model: weights: %w", err)
		}
		return s.check(name, dst)
	}}
	if ok && s.in[name].codes != nil {
		host.Packed = s.in[name].codes
	}
	return host, ok
}

// all reads every parameter.
func (s *Stored) all() (hosts []array.Host, err error) {
	hosts, _ = s.Params(0)
	for i, h := range hosts {
		if hosts[i].Data, err = s.Read(h.Path); err != nil {
			return nil, err
		}
		hosts[i].Read, hosts[i].Packed = nil, nil
	}
	return hosts, nil
}

// Base is where those parameters are that the files lack; nil where they lack none.
func (s *Stored) Base() *Base { return s.from }

// LeftOut are the paths of the parameters that the base has.
func (s *Stored) LeftOut() (paths []string) {
	for _, p := range s.params {
		if _, stored := s.names[p.Path]; !stored && s.base != nil {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// Below are the weights of the base, which has what the files lack; nil where they lack nothing.
func (s *Stored) Below() *Stored { return s.base }

// Close closes the files. Of nil it does nothing.
func (s *Stored) Close() error {
	if s == nil {
		return nil
	}
	if s.base == nil {
		return closeAll(s.files)
	}
	return errors.Join(closeAll(s.files), s.base.Close())
}

func closeAll(files []io.Closer) error {
	var wrong []error
	for _, f := range files {
		wrong = append(wrong, f.Close())
	}
	return errors.Join(wrong...)
}

// PatternError says that an expression for parameters cannot be meant.
type PatternError struct{ err error }

// Error says which, and why.
func (e *PatternError) Error() string {
	return fmt.Sprintf("model: read weights: allowed to be missing: %v", e.err)
}

// OpenPartial is OpenWeights of a directory, as its config.json says, that may lack parameters: those of whose paths one of allowed, regular expressions,
// matches. Stored.Params draws them. An expression that matches no parameter of the model is a *PatternError; another shape and a tensor that is no
// parameter are errors whatever is allowed.
func OpenPartial(dir string, allowed []string) (Definition, *Stored, error) {
	def, err := ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	var expressions []*regexp.Regexp
	for _, pattern := range allowed {
		r, err := regexp.Compile(pattern)
		if err == nil && !slices.ContainsFunc(def.Params(), func(p Param) bool { return r.MatchString(p.Path) }) {
			err = fmt.Errorf("pattern %q: matches none of the %d parameters", pattern, len(def.Params()))
		}
		if err != nil {
			return nil, nil, &PatternError{err}
		}
		expressions = append(expressions, r)
	}
	s, err := openWeights(dir, def, expressions, bases{})
	return def, s, err
}
