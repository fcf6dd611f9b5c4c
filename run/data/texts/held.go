package texts

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

// apart are rows of files that are held out, which no file to train on may have. They are read first.
type apart struct {
	name  string         // of the files
	files int            // that are read first; 0: none are held out
	rows  int            // in them
	sums  map[uint64]int // how many of the rows have a sum and were not met among those to train on
	both  int            // that were
}

// findHeld is the files that are held out and then those to train on, none of which is both.
func (r *reading) findHeld(c Config, files []file) ([]file, apart, error) {
	of := apart{name: fmt.Sprintf("%q", c.Held), sums: map[uint64]int{}}
	if len(c.Held) == 1 {
		of.name = c.Held[0]
	}
	held, err := findFiles(c.Dir, c.Held, ofHeld)
	if err != nil {
		return nil, of, err
	}
	of.files = len(held)
	for _, h := range held {
		of, err := os.Stat(h.path)
		if err != nil {
			return nil, apart{}, fmt.Errorf("data: held %q: %w", h.path, cause(err))
		}
		for _, f := range files {
			if info, err := os.Stat(f.path); h.path == f.path || err == nil && os.SameFile(info, of) {
				return nil, apart{}, fmt.Errorf("data: held %q: found it among the files to train on, too, wanted a file of its own", h.path)
			}
		}
	}
	return slices.Concat(held, files), of, nil
}

// sumOf tells the tokens of a row from those of others.
func sumOf(documents ...[]uint32) uint64 {
	hash := sha256.New()
	var word [4]byte
	for _, tokens := range documents {
		for _, t := range append([]uint32{uint32(len(tokens))}, tokens...) {
			binary.LittleEndian.PutUint32(word[:], t)
			hash.Write(word[:])
		}
	}
	return binary.LittleEndian.Uint64(hash.Sum(nil))
}

// add counts a row of a file, of which so many were read before.
func (a *apart) add(file int, sum uint64) {
	switch {
	case a.files == 0:
	case file < a.files:
		a.rows++
		a.sums[sum]++
	default:
		a.both += a.sums[sum]
		delete(a.sums, sum)
	}
}

// check refuses rows that are held out and trained on.
func (a *apart) check() error {
	if a.both == 0 {
		return nil
	}
	return fmt.Errorf("data: held %s: found %d of its %d rows among those to train on, too, wanted none: a loss on them says nothing of what is new", a.name, a.both, a.rows)
}
