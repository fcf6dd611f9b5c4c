package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gputrain/buffers/array"
	"gputrain/gguf/modeldir"
	"gputrain/internal/caught"
	"gputrain/internal/stranger"
)

// BaseFile is the file in which a directory that has only some of a model's parameters says where the others are.
const BaseFile = "base.json"

// FingerprintFile is a file beside exported adapters that says what they were trained upon, wherever that is: a Base without a directory. It is a file of
// our own, as older versions of PEFT refuse keys of adapter_config.json that they do not know.
const FingerprintFile = "base_fingerprint.json"

// Base is where parameters are that a directory of weights leaves out, and what they are.
type Base struct {
	Directory   string `json:"directory,omitempty"` // absolute, in the Hugging Face layout
	Fingerprint string `json:"fingerprint"`         // of the parameters left out
	// DType is how they were kept in training: rounded to it, where it is not f32.
	DType string `json:"dtype"`
}

// Kept is DType.
func (b Base) Kept() (array.DType, error) {
	names := array.Names(array.Bases)
	i := slices.Index(names, b.DType)
	if i < 0 {
		return 0, fmt.Errorf("%s: dtype: found %q, wanted %s", BaseFile, b.DType, array.Or(names))
	}
	return array.Bases[i], nil
}

// Fingerprint tells parameters from others by paths, shapes and every bit, whatever their order. It reads each once, a part at a time, several at once.
func Fingerprint(params []array.Host) (string, error) {
	sorted := slices.SortedFunc(slices.Values(params), func(a, b array.Host) int { return strings.Compare(a.Path, b.Path) })
	sums, errs := make([][]byte, len(sorted)), make([]error, len(sorted))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(sorted)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(sorted)); i = next.Add(1) - 1 {
				errs[i] = caught.Do(func() (err error) {
					sums[i], err = contentSum(sorted[i])
					return err
				})
			}
		})
	}
	all.Wait()
	whole := sha256.New()
	for i, p := range sorted {
		fmt.Fprintf(whole, "%q %v %x\n", p.Path, p.Shape, sums[i]) // a hash never fails
	}
	return "sha256:" + hex.EncodeToString(whole.Sum(nil)), errors.Join(errs...)
}

// contentSum is that of the elements of a parameter.
func contentSum(p array.Host) ([]byte, error) {
	const chunk = 1 << 14
	sum, values, raw := sha256.New(), make([]float32, chunk), make([]byte, 4*chunk)
	for first, n := 0, p.Elements(); first < n; first += chunk {
		part := values[:min(chunk, n-first)]
		if err := p.Copy(part, first); err != nil {
			return nil, err
		}
		for i, v := range part {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
		}
		sum.Write(raw[:4*len(part)])
	}
	return sum.Sum(nil), nil
}

// Text is BaseFile.
func (b Base) Text() ([]byte, error) {
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// ReadBase reads what a directory says of parameters that it leaves out; nil where it says nothing.
func ReadBase(dir string) (*Base, error) {
	b, err := readBase(dir, BaseFile)
	if b != nil && !filepath.IsAbs(b.Directory) {
		return nil, fmt.Errorf("%s: directory: found %q, wanted an absolute path", BaseFile, b.Directory)
	}
	return b, err
}

// TrainedUpon reads what the adapters in a directory were trained upon: BaseFile, else FingerprintFile; nil where neither is there.
func TrainedUpon(dir string) (*Base, error) {
	b, err := ReadBase(dir)
	if b != nil || err != nil {
		return b, err
	}
	return readBase(dir, FingerprintFile)
}

func readBase(dir, name string) (*Base, error) {
	raw, err := modeldir.Read(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, d := &Base{}, json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, stranger.Told(raw, err))
	}
	return b, nil
}

// anything lets every parameter be missing.
var anything = regexp.MustCompile("")

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

// bases is how a directory was come to.
type bases struct {
	at    string   // where its base is; "": where it says
	above []string // the directories whose bases led to it, without links
}

// Bases are the directories that a directory has its parameters from besides itself: its base, the base of that, and so on. Those that cannot be read any
// more end the list: opening them says why.
func Bases(dir string) (dirs []string) {
	for range mostBases {
		b, err := ReadBase(dir)
		if err != nil || b == nil {
			break
		}
		dir = b.Directory
		dirs = append(dirs, dir)
	}
	return dirs
}

// openBase opens the directory that has the parameters that s, of dir, lacks, and compares their fingerprint.
func (s *Stored) openBase(def Definition, dir string, b Base, from bases) (err error) {
	if from.at != "" {
		if b.Directory, err = filepath.Abs(from.at); err != nil {
			return err
		}
	}
	failed := func(err error) error {
		var deeper *BaseError
		if errors.As(err, &deeper) { // of the base's own base, which is named
			return err
		}
		return &BaseError{Dir: dir, Base: b.Directory, Err: err}
	}
	here, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return failed(err)
	}
	there, err := filepath.EvalSymlinks(b.Directory)
	if err != nil {
		return failed(err)
	}
	above := append(slices.Clone(from.above), here)
	switch {
	case there == here:
		return failed(errors.New("found the directory itself, wanted another one: what it leaves out is nowhere"))
	case slices.Contains(above, there):
		return failed(errors.New("found a directory whose own base this is, wanted another one: what they leave out is nowhere"))
	case len(above) > mostBases:
		return failed(fmt.Errorf("found more than %d bases behind each other", mostBases))
	}
	if config, err := readConfigFile(b.Directory); err == nil && config.Kind() != def.Kind() {
		return failed(fmt.Errorf("found a model of kind %s, wanted %s: it is not what was trained upon", config.Kind(), def.Kind()))
	}
	if s.base, err = openWeights(b.Directory, def, nil, bases{above: above}); err != nil {
		return failed(err)
	}
	found, n, err := s.belowFingerprint()
	if err != nil {
		return failed(err)
	}
	if found != b.Fingerprint {
		return failed(fmt.Errorf("found %d parameters of fingerprint %s, wanted %s: it is not, or no longer, what was trained upon", n, found, b.Fingerprint))
	}
	s.from = &b
	return nil
}

// belowFingerprint is that of the parameters that the base has, and how many they are.
func (s *Stored) belowFingerprint() (string, int, error) {
	var missing []array.Host
	for _, p := range s.params {
		if _, stored := s.names[p.Path]; stored {
			continue
		}
		host, _ := s.base.param(p)
		missing = append(missing, host)
	}
	found, err := Fingerprint(missing)
	return found, len(missing), err
}

// Doubt says why the base of adapters may not be what they were trained upon; "": it is, as is known since it was opened or is found now. It is not
// known where the directory says nothing of what that was.
func (s *Stored) Doubt() (doubt string, known bool, err error) {
	switch {
	case s.from != nil || s.base == nil:
		return "", true, nil
	case s.upon == nil:
		return fmt.Sprintf("%s: found no %s, so whether the adapters were trained upon %s is not known", s.dir, FingerprintFile, s.base.dir), false, nil
	}
	found, n, err := s.belowFingerprint()
	if err != nil || found == s.upon.Fingerprint {
		return "", true, err
	}
	return fmt.Sprintf("%s has %d parameters of fingerprint %s, and the adapters of %s were trained upon %s", s.base.dir, n, found, s.dir, s.upon.Fingerprint), true, nil
}
