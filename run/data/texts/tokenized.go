package texts

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"gputrain/internal/characters"
	"gputrain/internal/ordered"
	"gputrain/run/data"
	"gputrain/text/tokenizer"
)

// Values of Config.Invalid.
const (
	invalidError   = "error"
	invalidReplace = "replace"
)

// invalids are the values of Config.Invalid.
var invalids = []string{invalidError, invalidReplace}

// wholeLimit is the size up to which files are encoded one beside the other; a longer one is cut into parts that are.
const wholeLimit = 1 << 20

// border is what stands before and behind documents that a tokenizer has encoded.
type border struct{ before, behind []int32 }

// border is that of a configuration: what the tokenizer puts around a text, and the end token behind it.
func (c Config) border() border {
	var b border
	if c.Tokenizer == nil {
		return b
	}
	b.before, b.behind = c.Tokenizer.Around()
	end, ok := c.Tokenizer.EndOfText()
	if c.Layout.End != nil {
		end, ok = int32(*c.Layout.End), *c.Layout.End >= 0
		if !ok {
			b.behind = nil
		}
	}
	if n := len(b.behind); ok && (n == 0 || b.behind[n-1] != end) {
		b.behind = append(b.behind, end)
	}
	return b
}

// between is what stands between two files of text, the end of the one and the beginning of the next, unless they are to be one text.
func (c Config) between() border {
	if end := c.Layout.End; end != nil && *end < 0 {
		return border{}
	}
	return c.border()
}

// tokenizes tells whether text becomes tokens by a tokenizer.
func (c Config) tokenizes() bool { return c.kind() == "tokenizer" }

// tokenKeyOf is the key of what becomes of texts, by their content and all that says how they become tokens.
func tokenKeyOf(how string, texts []textFile) tokenKey {
	hash := sha256.New()
	fmt.Fprintf(hash, "gputrain tokens %d\n%s\n", tokenFileVersion, how)
	for _, t := range texts {
		fmt.Fprintf(hash, "%d %x\n", t.size, t.sum)
	}
	return tokenKey{sum: [sha256.Size]byte(hash.Sum(nil))}
}

func (c Config) invalid() string { return cmp.Or(c.Invalid, invalidError) }

func (c Config) options() tokenizer.Options {
	return tokenizer.Options{Replace: c.invalid() == invalidReplace, Search: c.Timeout}
}

// how is what a fingerprint says of a tokenizer, with what stands around each document.
func (c Config) how(around border) string {
	return fmt.Sprintf("tokenizer %s %v %s", c.Tokenizer.Fingerprint(), around, c.invalid())
}

// A textFile is a file whose content has been hashed: what is read of it later is what was hashed, or an error.
type textFile struct {
	file
	data.Stretch
	info os.FileInfo // as it was hashed
	sum  []byte
}

// filesOf are the files of texts.
func filesOf(texts []textFile) (files []file) {
	for _, t := range texts {
		files = append(files, t.file)
	}
	return files
}

// bytesOf is the bytes of a file, whatever they are.
func bytesOf(f file) data.Stretch {
	return data.Stretch{Name: f.path, Width: 1, Count: f.size, Vocab: 256}
}

// reading opens the file for a while.
func (t *textFile) reading(r *reading, read func(from io.ReaderAt) error) error {
	var open diskFile
	_, err := r.do(t.path, func() (_ int, err error) {
		open, err = openDisk(t.path, t.info)
		return 0, err
	})
	if err != nil {
		return err
	}
	defer open.Close()
	if t.info = open.opened; t.info.Size() != t.size {
		return fmt.Errorf("data: open %q: %d bytes, was %d a moment ago", t.path, t.info.Size(), t.size)
	}
	return read(open)
}

// loadTokenized makes a text of files that a tokenizer encodes, or takes it from where it was kept.
func (c *Corpus) loadTokenized(r *reading, config Config, files []file) error {
	texts, err := c.hashFiles(r, files, isText)
	if err != nil {
		return err
	}
	width := 4
	if config.Tokenizer.VocabSize() <= 1<<16 {
		width = 2
	}
	between := border{} // of one file there is none
	if len(files) > 1 {
		between = config.between()
		if end := config.Layout.End; end != nil && *end >= config.limit() {
			return fmt.Errorf("data: end token (data.eos): %d, want less than %d, which stands between %d files of text: %s",
				*end, config.limit(), len(files), config.limited())
		}
	}
	key := tokenKeyOf(fmt.Sprintf("text %s %d", config.how(between), config.limit()), texts)
	begun := time.Now()
	tokens, kept, err := c.tokenFile(r, key, width, func(w *tokenWriter) error { return r.encodeTexts(config, texts, w) })
	if err != nil {
		return err
	}
	print := newFingerprint("data", fmt.Sprintf("%s %d %v", config.how(between), len(files), config.Validation))
	segments, from, counts := make([]data.Stretch, len(files)), int64(0), make([]uint64, len(files))
	if tokens.parts.count != int64(len(files)) {
		return fmt.Errorf("data: text %s: %d parts in %s, wanted one of each of %d files", c.Name, tokens.parts.count, tokens.parts.name, len(files))
	}
	if err := tokens.parts.read(counts, 0); err != nil {
		return err
	}
	for i, t := range texts {
		segments[i] = data.Stretch{Name: t.path, Bytes: tokens.bytes, Offset: from * int64(width), Width: width, Count: int64(counts[i])}
		from += segments[i].Count
		print.file(t.file, t.sum)
	}
	c.noteTokens(texts, kept, from, time.Since(begun))
	c.noteRows(texts)
	return c.part(config, print, data.NewTokens(config.limit(), segments), segments)
}

// noteTokens tells what became of texts.
func (c *Corpus) noteTokens(texts []textFile, kept bool, tokens int64, took time.Duration) {
	how, size := fmt.Sprintf("made in %.1f s", took.Seconds()), int64(0)
	if kept {
		how = "as they were kept"
	}
	for _, t := range texts {
		size += t.size
		c.noteSampled(t.file)
	}
	c.Notes = append(c.Notes, fmt.Sprintf("%s: %d tokens of %d bytes, %s", c.Name, tokens, size, how))
}

// encodeTexts writes the tokens of all files. Short ones are encoded as a whole, several at once; a long one is read and
// encoded in parts when its turn comes.
func (r *reading) encodeTexts(config Config, texts []textFile, w *tokenWriter) error {
	r.begin("tokenizing", filesOf(texts))
	t := &texting{tokenWriter: w, between: config.between(), limit: config.limit()}
	type encoded struct {
		textFile
		ids []int32
	}
	err := ordered.Do(r.ctx, slices.Values(texts), func(f textFile) (e encoded, err error) {
		if e.textFile = f; f.size <= wholeLimit {
			e.ids, err = r.encodeShort(config, f)
		}
		return e, textError(f.path, err)
	}, func(e encoded) error {
		if err := t.begin(); err != nil {
			return err
		}
		if e.size > wholeLimit {
			return textError(e.path, r.encodeLong(config, e.textFile, t.ids))
		}
		return textError(e.path, t.ids(e.ids))
	})
	if err != nil {
		return err
	}
	return t.end()
}

func (r *reading) encodeShort(config Config, f textFile) (ids []int32, err error) {
	err = f.reading(r, func(from io.ReaderAt) error {
		text := make([]byte, f.size)
		if err := r.at(f.path, from, text, 0); err != nil {
			return err
		}
		ids, err = config.Tokenizer.Encode(string(text), config.options())
		return err
	})
	return ids, err
}

func (r *reading) encodeLong(config Config, f textFile, emit func([]int32) error) error {
	return f.reading(r, func(from io.ReaderAt) error {
		in := io.NewSectionReader(countedReader{r, f.path, from}, 0, f.size)
		return config.Tokenizer.EncodeReader(r.ctx, in, config.options(), emit)
	})
}

// textError says which file cannot be encoded.
func textError(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("data: text %q: %w", path, err)
}

// wayOut says what helps where text has what is no character.
func (c Config) wayOut(err error) error {
	var invalid *characters.UTF8Error
	var half *characters.HalfError
	if errors.As(err, &invalid) || errors.As(err, &half) {
		return fmt.Errorf("%w: %s puts U+FFFD in its place", err, cmp.Or(c.Replacing, "data.invalid=replace"))
	}
	return err
}

// texting writes files of text, one after the other.
type texting struct {
	*tokenWriter
	between border
	limit   int // every id is below it
	begun   int64
	files   int
	out     []uint32
}

// begin begins a file.
func (t *texting) begin() error {
	if t.files++; t.files == 1 {
		return nil
	}
	if err := t.ids(t.between.behind); err != nil {
		return err
	}
	if err := t.end(); err != nil {
		return err
	}
	return t.ids(t.between.before)
}

// end ends it.
func (t *texting) end() error {
	n := t.count - t.begun
	t.begun = t.count
	return t.part(uint64(n))
}

func (t *texting) ids(ids []int32) error {
	t.out = t.out[:0]
	for i, id := range ids {
		if int(id) >= t.limit {
			return fmt.Errorf("token %d: is %d, want less than the vocabulary %d (model.vocab)", t.count-t.begun+int64(i), id, t.limit)
		}
		t.out = append(t.out, uint32(id))
	}
	return t.add(t.out)
}

// limited says where limit is from.
func (c Config) limited() string {
	if size := c.Tokenizer.VocabSize(); c.limit() == size {
		return fmt.Sprintf("so many tokens has the tokenizer %s", c.Tokenizer.Files()[0])
	}
	return "so many rows has the model (model.vocab)"
}

// limit is what every id of a tokenizer has to be below.
func (c Config) limit() int {
	if size := c.Tokenizer.VocabSize(); c.Vocab == 0 || c.Vocab > size {
		return size
	}
	return c.Vocab
}
