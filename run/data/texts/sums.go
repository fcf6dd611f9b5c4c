package texts

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"
	"time"

	"gputrain/internal/ordered"
	"gputrain/run/data"
)

// The hash of a file's content is kept, so that it is read as a whole once. A token file without tokens has the hashes of the files of a corpus, in their
// order, as parts: of each the size, when it was written, a hash of a sample of it, and that of its content. It is known by the paths. Where the first three
// are what they were, so is the content, unless somebody has written the same number of bytes outside of the sample and set the time back.
const sumParts = 3 + sha256.Size/8

// The sample of a file is its first and its last bytes, and as many at two places between.
const (
	sampleBlock  = 4 << 10
	sampleBlocks = 4
)

// settled is how old a file has to be for its hash to be kept: one that is written twice while the clock of its file system stands may keep its time.
const settled = 2 * time.Second

// hashFiles hashes all files, several at once. look sees what each is.
func (c *Corpus) hashFiles(r *reading, files []file, look func(f file, from io.ReaderAt) (data.Stretch, error)) ([]textFile, error) {
	r.begin("reading", files)
	key, err := c.sumsKey(r.config, files)
	if err != nil {
		return nil, err
	}
	known := r.keptSums(key, len(files))
	todo := make([]hashed, len(files))
	for i, f := range files {
		todo[i].file, todo[i].kept = f, [sumParts]uint64(known[sumParts*i:])
	}
	texts, sums, changed := make([]textFile, 0, len(files)), make([]uint64, 0, sumParts*len(files)), false
	err = ordered.Do(r.ctx, slices.Values(todo), func(h hashed) (hashed, error) {
		err := r.hash(&h, look)
		return h, err
	}, func(t hashed) error {
		texts, sums, changed = append(texts, t.textFile), append(sums, t.kept[:]...), changed || t.fresh
		return nil
	})
	if err == nil && changed && r.config.Cache != "" {
		if err := r.keepSums(key, sums); err != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("hashes of %d files are not kept, and the next start reads the files again: %v", len(files), err))
		}
	}
	return texts, err
}

// hashed is a file and what is kept of it.
type hashed struct {
	textFile
	kept  [sumParts]uint64 // before and after; zero: nothing
	fresh bool             // its content was read
}

// hash sees what a file is, and hashes it where it is not what it was.
func (r *reading) hash(h *hashed, look func(f file, from io.ReaderAt) (data.Stretch, error)) error {
	return h.reading(r, func(from io.ReaderAt) (err error) {
		if h.Stretch, err = look(h.file, from); err != nil {
			return err
		}
		sample, err := r.sample(h.file, from)
		if err != nil {
			return err
		}
		now := [3]uint64{uint64(h.size), uint64(h.info.ModTime().UnixNano()), sample}
		if now == [3]uint64(h.kept[:]) {
			for _, word := range h.kept[3:] {
				h.sum = binary.LittleEndian.AppendUint64(h.sum, word)
			}
			return nil
		}
		of := h.Stretch
		of.Bytes = from
		h.fresh, h.kept = time.Since(h.info.ModTime()) >= settled, [sumParts]uint64{}
		if h.sum, err = contentHash(r, of, h.size); err != nil || !h.fresh {
			return err
		}
		copy(h.kept[:], now[:])
		for i := range h.kept[3:] {
			h.kept[3+i] = binary.LittleEndian.Uint64(h.sum[8*i:])
		}
		return nil
	})
}

// sample hashes some bytes of a file.
func (r *reading) sample(f file, from io.ReaderAt) (uint64, error) {
	hash := sha256.New()
	block := make([]byte, min(f.size, sampleBlock))
	for i := range int64(sampleBlocks) {
		at := (f.size - int64(len(block))) * i / (sampleBlocks - 1)
		_, err := r.do(f.path, func() (int, error) { return 0, data.ReadBytes(from, block, at) }) // it gets nobody further
		if err != nil {
			return 0, fmt.Errorf("data: read %q: %w", f.path, err)
		}
		hash.Write(block)
	}
	return binary.LittleEndian.Uint64(hash.Sum(nil)), nil
}

// sumsKey is the key of the hashes of files. Those of tokens have been held to a vocabulary, too.
func (c *Corpus) sumsKey(config Config, files []file) (tokenKey, error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "gputrain sums 1\n%s %d\n", c.Tokens, config.Vocab)
	for _, f := range files {
		path, err := filepath.Abs(f.path)
		if err != nil {
			return tokenKey{}, fmt.Errorf("data: text %q: %w", f.path, err)
		}
		fmt.Fprintf(hash, "%q\n", path)
	}
	return tokenKey{[sha256.Size]byte(hash.Sum(nil)), sumsKind}, nil
}

// keptSums are those of a key, or zeros: what is not there, or damaged, is made again.
func (r *reading) keptSums(key tokenKey, files int) []uint64 {
	if r.config.Cache != "" {
		c := &Corpus{}
		defer c.Close()
		kept, err := c.openTokenFile(r, filepath.Join(r.config.Cache, key.name()), key)
		if known := make([]uint64, sumParts*files); err == nil && kept.parts.count == int64(len(known)) && kept.parts.read(known, 0) == nil {
			return known
		}
	}
	return make([]uint64, sumParts*files)
}

func (r *reading) keepSums(key tokenKey, sums []uint64) error {
	return r.keepTokens(key, 2, func(w *tokenWriter) error {
		for _, s := range sums {
			if err := w.part(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// fingerprint is what a corpus is known by, in the making: its contents and how they are read, whatever its files are called.
type fingerprint struct{ hash.Hash }

// newFingerprint begins with what a corpus is and how it is read.
func newFingerprint(kind string, how string) fingerprint {
	f := fingerprint{sha256.New()}
	f.add("gputrain %s 2\n%s\n", kind, how)
	return f
}

// file adds a file.
func (f fingerprint) file(of file, content []byte) { f.add("%d %x\n", of.size, content) }

// add adds a text.
func (f fingerprint) add(format string, args ...any) { fmt.Fprintf(f, format, args...) }

// text is the fingerprint of what has been added so far.
func (f fingerprint) text() string { return hex.EncodeToString(f.Sum(nil)) }
