package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gputrain/buffers/array"
)

// BaseFile is the file in which a directory that has only some of a model's parameters says where the others are.
const BaseFile = "base.json"

// Base is where parameters are that a directory of weights leaves out, and what they are.
type Base struct {
	Directory   string `json:"directory"`   // absolute, in the Hugging Face layout
	Fingerprint string `json:"fingerprint"` // of the parameters left out
}

// Fingerprint tells parameters from others by paths, shapes and every bit, whatever their order.
func Fingerprint(params []array.Host) string {
	sorted := slices.SortedFunc(slices.Values(params), func(a, b array.Host) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	sum := sha256.New()
	chunk := make([]byte, 0, 1<<16)
	for _, p := range sorted {
		fmt.Fprintf(sum, "%q %v\n", p.Path, p.Shape) // a hash never fails
		for values := range slices.Chunk(p.Data, 1<<14) {
			chunk = chunk[:0]
			for _, v := range values {
				chunk = binary.LittleEndian.AppendUint32(chunk, math.Float32bits(v))
			}
			sum.Write(chunk)
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Text is BaseFile.
func (b Base) Text() ([]byte, error) {
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// ReadBase reads what a directory says of parameters that it leaves out; nil where it says nothing.
func ReadBase(dir string) (*Base, error) {
	f, err := os.Open(filepath.Join(dir, BaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, d := &Base{}, json.NewDecoder(io.LimitReader(f, 1<<16))
	d.DisallowUnknownFields()
	switch err := d.Decode(b); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", BaseFile, err)
	case !filepath.IsAbs(b.Directory):
		return nil, fmt.Errorf("%s: directory: found %q, wanted an absolute path", BaseFile, b.Directory)
	}
	return b, nil
}

// anything lets every parameter be missing.
var anything = regexp.MustCompile("")

// mostBases is how many directories may stand behind each other as bases.
const mostBases = 8

// openBase opens the directory that has the parameters that s lacks, and compares their fingerprint.
func (s *Stored) openBase(def Definition, b Base, depth int) (err error) {
	if depth == mostBases {
		return fmt.Errorf("base %q: found more than %d bases behind each other", b.Directory, mostBases)
	}
	if s.base, err = openWeights(b.Directory, def, nil, depth+1); err != nil {
		return fmt.Errorf("base %q: %w", b.Directory, err)
	}
	var missing []array.Host
	for _, p := range s.params {
		if _, stored := s.names[p.Path]; stored {
			continue
		}
		data, err := s.base.Read(p.Path)
		if err != nil {
			return fmt.Errorf("base %q: %w", b.Directory, err)
		}
		missing = append(missing, array.Host{Path: p.Path, Shape: p.Shape, Data: data})
	}
	if found := Fingerprint(missing); found != b.Fingerprint {
		return fmt.Errorf("base %q: found %d parameters of fingerprint %s, wanted %s: it is not, or no longer, what was trained upon", b.Directory, len(missing), found, b.Fingerprint)
	}
	return nil
}
