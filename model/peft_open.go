package model

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/gguf"
	"gputrain/gguf/modeldir"
)

// isAdapter tells whether dir has adapters: a PEFT directory, or a checkpoint of them.
func isAdapter(dir string) (bool, error) {
	if gguf.Is(dir) {
		return false, nil
	}
	_, err := os.Lstat(filepath.Join(dir, AdapterConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// AdapterBase is the directory with the model that the adapters in dir stand on: at, where it is not "", or what BaseFile says, or what adapter_config.json
// says, where that is a directory as it stands or beside dir. Of a directory without adapters it is "".
func AdapterBase(dir, at string) (string, error) {
	if is, err := isAdapter(dir); err != nil || !is {
		return "", err
	}
	base := at
	if base == "" {
		var err error
		if base, err = namedBase(dir); err != nil {
			return "", err
		}
	}
	is, err := isAdapter(base)
	if is {
		err = errors.New("found adapters, wanted a whole model: merge them first")
	}
	if err != nil {
		return "", &BaseError{Dir: dir, Base: base, Err: err}
	}
	return base, nil
}

// namedBase is the directory that dir names as its base.
func namedBase(dir string) (string, error) {
	b, err := ReadBase(dir)
	if err != nil {
		return "", fmt.Errorf("model: read adapter: %w (%s)", err, dir)
	}
	if b != nil {
		return b.Directory, nil
	}
	p, err := readPEFT(dir)
	if err != nil {
		return "", err
	}
	if p.base == "" {
		return "", fmt.Errorf("model: read adapter %q: %s: base_model_name_or_path: found none, wanted the base's directory: name it", dir, AdapterConfigFile)
	}
	found, tried := p.baseDir(dir)
	if found != "" {
		return found, nil
	}
	return "", &BaseError{Dir: dir, Base: p.base, Err: fmt.Errorf("found no directory %q, wanted the model that the adapter was trained on: download it, and name it%s",
		tried, modeldir.Download(p.base))}
}

// baseDir is the directory that p names as the base of the adapters in dir; "": where it was looked for there is none.
func (p peft) baseDir(dir string) (found string, tried []string) {
	tried = []string{p.base}
	if !filepath.IsAbs(p.base) {
		tried = append(tried, filepath.Join(filepath.Dir(filepath.Clean(dir)), p.base))
	}
	for _, name := range tried {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return name, tried
		}
	}
	return "", tried
}

// AdapterBaseOnHub is what the hub calls the base of the adapters in dir, where their configuration has such a name and no directory; else "".
func AdapterBaseOnHub(dir string) string {
	p, err := readPEFT(dir)
	if err != nil || !modeldir.IsHubName(p.base) {
		return "" // reading the model says what is wrong
	}
	if found, _ := p.baseDir(dir); found != "" {
		return ""
	}
	return p.base
}

// readAdapted is the definition of the adapters in dir, on their base.
func readAdapted(dir, at string) (Definition, error) {
	p, err := readPEFT(dir)
	if err != nil {
		return nil, err
	}
	def, err := readConfigFile(dir)
	if errors.Is(err, fs.ErrNotExist) {
		var base string
		if base, err = AdapterBase(dir, at); err != nil {
			return nil, err
		}
		if def, err = readConfigFile(base); err != nil {
			err = &BaseError{Dir: dir, Base: base, Err: err}
		}
	}
	if err != nil {
		return nil, err
	}
	if def, err = p.adapt(def); err != nil {
		return nil, fmt.Errorf("%w (%s)", err, filepath.Join(dir, AdapterConfigFile))
	}
	return def, nil
}

// openAdapted opens the adapters of m in dir, and the weights of their base.
func openAdapted(dir string, m adapted, b bases) (*Stored, error) {
	s, err := openAdapterFile(dir, m)
	if err != nil {
		return nil, err
	}
	if err := s.openAdapterBase(dir, m, b); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openAdapterFile opens the adapters of m in dir.
func openAdapterFile(dir string, m adapted) (*Stored, error) {
	f, err := safetensors.Open(filepath.Join(dir, AdapterWeightsFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%q: found no %s, wanted the adapters that %s tells of: %w", dir, AdapterWeightsFile, AdapterConfigFile, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("model: read adapter: %w", err)
	}
	s := &Stored{params: laidOut(m), in: weights{}, files: []io.Closer{f}, dir: dir}
	if s.names, err = m.tensors(f); err != nil {
		return nil, errors.Join(fmt.Errorf("model: read adapter %q: %w", filepath.Join(dir, AdapterWeightsFile), err), s.Close())
	}
	for _, name := range s.names {
		s.in[name] = tensorIn(f, name)
	}
	return s, nil
}

// openAdapterBase opens the base's weights; those whose fingerprint dir has are compared with it.
func (s *Stored) openAdapterBase(dir string, m adapted, b bases) error {
	stored, err := ReadBase(dir)
	if err != nil {
		return fmt.Errorf("model: read adapter: %w (%s)", err, dir)
	}
	if stored != nil {
		return s.openBase(m.Definition, dir, *stored, b)
	}
	base, err := AdapterBase(dir, b.at)
	if err != nil {
		return err
	}
	if s.upon, err = readBase(dir, FingerprintFile); err != nil {
		return fmt.Errorf("model: read adapter: %w (%s)", err, dir)
	}
	if s.base, err = openWeights(base, m.Definition, nil, bases{}); err != nil {
		return &BaseError{Dir: dir, Base: base, Err: err}
	}
	return nil
}

// tensors maps the paths of m's adapters to the names of a PEFT file, which has to have these and no others.
func (m adapted) tensors(f *safetensors.File) (map[string]string, error) {
	family := families[m.Kind()]
	names, wanted := map[string]string{}, map[string]bool{}
	var wrong, missing, extra []string
	for _, p := range m.own() {
		wanted[p.Path] = true
	}
	for _, name := range f.Names() {
		path := family.tensorPath(name)
		if other, twice := names[path]; twice {
			return nil, fmt.Errorf("%q and %q are the same parameter", other, name)
		}
		if !wanted[path] {
			extra = append(extra, name)
		}
		names[path] = name
	}
	for _, p := range sortParams(m.own()) {
		name, ok := names[p.Path]
		if !ok {
			missing = append(missing, p.Path)
			continue
		}
		switch dtype, shape, _ := f.Info(name); {
		case !slices.Equal(shape, p.Shape):
			wrong = append(wrong, fmt.Sprintf("%q: shape %v, want %v: the adapter is of another base, or of another rank", name, shape, p.Shape))
		case encoders[dtype] == nil:
			wrong = append(wrong, fmt.Sprintf("%q: dtype %s, want F32, BF16 or F16", name, dtype))
		}
	}
	if len(missing) > 0 {
		wrong = append(wrong, fmt.Sprintf("found no %s, wanted them, as %s says", described(missing), AdapterConfigFile))
	}
	if len(extra) > 0 {
		wrong = append(wrong, fmt.Sprintf("found %s, of which %s says nothing", described(extra), AdapterConfigFile))
	}
	return names, complain(wrong)
}

// ParseAdapter is base with the adapters that an adapter_config.json tells of.
func ParseAdapter(config []byte, base Definition) (Definition, error) {
	p, err := parsePEFT(config)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", AdapterConfigFile, err)
	}
	return p.adapt(base)
}

// AdapterWeights are all parameters of def, in canonical order: those of its base, which are given, and its adapters, from an open PEFT file.
func AdapterWeights(def Definition, base []array.Host, f *safetensors.File) ([]array.Host, error) {
	m, ok := def.(adapted)
	if !ok {
		return nil, errNoAdapters
	}
	names, err := m.tensors(f)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", AdapterWeightsFile, err)
	}
	all := slices.Clone(base)
	for _, p := range m.own() {
		data, err := f.Float32(names[p.Path])
		if err != nil {
			return nil, fmt.Errorf("model: %s: %w", AdapterWeightsFile, err)
		}
		all = append(all, array.Host{Path: p.Path, Shape: p.Shape, OutIn: p.outIn(), Data: data})
	}
	slices.SortFunc(all, func(a, b array.Host) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}
