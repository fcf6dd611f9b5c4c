package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gputrain/buffers/array"
	"gputrain/internal/caught"
	"gputrain/internal/stranger"
	"gputrain/internal/suggest"
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
	// Head is that of the model, where it is not one of logits: configurations of adapters have no place for what it is.
	Head *Head `json:"head,omitempty"`
}

// Kept is DType.
func (b Base) Kept() (array.DType, error) {
	names := array.Names(array.Bases)
	i := slices.Index(names, b.DType)
	if i < 0 {
		return 0, fmt.Errorf("%s: dtype: found %q, wanted %s", BaseFile, b.DType, suggest.Or(names))
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

// ParseBase reads a BaseFile or a FingerprintFile.
func ParseBase(raw []byte) (*Base, error) {
	b, d := &Base{}, json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return nil, stranger.Told(raw, err)
	}
	return b, nil
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
