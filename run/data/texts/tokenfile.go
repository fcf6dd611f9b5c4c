package texts

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/internal/atomicfile"
	"gputrain/internal/system"
	"gputrain/run/data"
)

// A token file keeps what has been made of text or of rows, so that it is made once; other numbers are kept in its form too (pack.go, sums.go). Its name
// is its key, the hash of what the tokens follow from. All that describes the tokens stands behind them, because it is known only then; numbers are
// little-endian:
//
//	tokens   of two or four bytes, whose highest bit is unlabelled in documents
//	parts    uint64 each: the tokens of a file; of a document twice that, and one more where it has masked tokens, and in the upper half the float32 beside it
//	sums     uint32 each: CRC32C of each mebibyte of tokens
//	account  JSON: what is known of rows besides their tokens (tally.go)
//	trailer  72 bytes: "GTCACHED", uint32 version, uint32 bytes a token, uint64 tokens, uint64 parts, uint32 bytes of the account, the key of 32 bytes,
//	         and uint32 CRC32C of parts, sums, account and the trailer before it
//
// It is written under another name (package atomicfile) and renamed when it is whole. When it is opened the sums are compared, of files of more than hashLimit those of
// as many blocks, evenly spaced: what is damaged is made again.
const (
	tokenFileMagic   = "GTCACHED"
	tokenFileVersion = 3 // of this form, and of what tokenizers make of text and of rows
	tokenFileTrailer = 72
	tokenFileBlock   = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tokenKey is the hash of all that tokens follow from.
type tokenKey struct {
	sum  [sha256.Size]byte
	kind string // what is kept, and how the file's name ends; "": tokens
}

// Kinds of what is kept beside tokens.
const (
	windowsKind = "windows" // of documents (pack.go)
	sumsKind    = "sums"    // of files (sums.go)
)

func (k tokenKey) name() string {
	return hex.EncodeToString(k.sum[:16]) + "." + cmp.Or(k.kind, "tokens")
}

// tokenFile is one that is open.
type tokenFile struct {
	store
	count int64 // tokens
	parts numbers
	account
}

// tokenWriter writes one.
type tokenWriter struct {
	out   *bufio.Writer
	width int
	count int64
	sum   uint32
	block int // bytes in it so far
	sums  []uint32
	parts spill
	account
	raw []byte
}

// part adds a part.
func (w *tokenWriter) part(p uint64) error { return w.parts.add(p) }

// tokenWidth is how many bytes a token below vocab takes that may be unlabelled.
func tokenWidth(vocab int) int {
	if vocab <= 1<<15 {
		return 2
	}
	return 4
}

func (w *tokenWriter) add(tokens []uint32) error {
	w.raw = w.raw[:0]
	for _, t := range tokens {
		w.raw = encodeToken(w.raw, w.width, t)
	}
	w.count += int64(len(tokens))
	for rest := w.raw; len(rest) > 0; {
		n := min(len(rest), tokenFileBlock-w.block)
		w.sum = crc32.Update(w.sum, castagnoli, rest[:n])
		if w.block += n; w.block == tokenFileBlock {
			w.closeBlock()
		}
		rest = rest[n:]
	}
	_, err := w.out.Write(w.raw)
	return err
}

func (w *tokenWriter) closeBlock() {
	w.sums, w.sum, w.block = append(w.sums, w.sum), 0, 0
}

// finish writes what stands behind the tokens.
func (w *tokenWriter) finish(key tokenKey) error {
	if w.block > 0 {
		w.closeBlock()
	}
	check := crc32.New(castagnoli)
	if err := w.parts.copyTo(io.MultiWriter(w.out, check)); err != nil {
		return err
	}
	var tail []byte
	for _, s := range w.sums {
		tail = binary.LittleEndian.AppendUint32(tail, s)
	}
	said, err := json.Marshal(w.account)
	if err != nil {
		return err
	}
	tail = append(append(tail, said...), tokenFileMagic...)
	tail = binary.LittleEndian.AppendUint32(tail, tokenFileVersion)
	tail = binary.LittleEndian.AppendUint32(tail, uint32(w.width))
	tail = binary.LittleEndian.AppendUint64(tail, uint64(w.count))
	tail = binary.LittleEndian.AppendUint64(tail, uint64(w.parts.count))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(said)))
	tail = append(tail, key.sum[:]...)
	check.Write(tail)
	tail = binary.LittleEndian.AppendUint32(tail, check.Sum32())
	if _, err := w.out.Write(tail); err != nil {
		return err
	}
	return w.out.Flush()
}

// readTokenFile reads what stands behind the tokens, and compares them with their sums.
func readTokenFile(r *reading, name string, file io.ReaderAt, size int64, key tokenKey) (*tokenFile, error) {
	if size < tokenFileTrailer {
		return nil, fmt.Errorf("%d bytes found, wanted %d or more", size, tokenFileTrailer)
	}
	trailer := make([]byte, tokenFileTrailer)
	if err := r.at(name, file, trailer, size-tokenFileTrailer); err != nil {
		return nil, err
	}
	width, said := binary.LittleEndian.Uint32(trailer[12:]), uint64(binary.LittleEndian.Uint32(trailer[32:]))
	tokens, parts := binary.LittleEndian.Uint64(trailer[16:]), binary.LittleEndian.Uint64(trailer[24:])
	body := tokens * uint64(width)
	blocks := (body + tokenFileBlock - 1) / tokenFileBlock
	behind := parts*8 + blocks*4 + said
	switch {
	case string(trailer[:8]) != tokenFileMagic:
		return nil, fmt.Errorf("the last bytes are not those of a token file: cut off, or something else")
	case binary.LittleEndian.Uint32(trailer[8:]) != tokenFileVersion || width != 2 && width != 4:
		return nil, fmt.Errorf("version %d of %d bytes a token, wanted %d", binary.LittleEndian.Uint32(trailer[8:]), width, tokenFileVersion)
	case !bytes.Equal(trailer[36:68], key.sum[:]):
		return nil, errors.New("it is of another text or tokenizer")
	case tokens > uint64(size) || parts > uint64(size) || body+behind+tokenFileTrailer != uint64(size):
		return nil, fmt.Errorf("%d bytes found, wanted %d tokens in %d parts", size, tokens, parts)
	}
	check, tail := uint32(0), make([]byte, min(behind, tokenFileBlock))
	var after []byte
	for at := uint64(0); at < behind; at += uint64(len(tail)) {
		tail = tail[:min(uint64(len(tail)), behind-at)]
		if err := r.at(name, file, tail, int64(body+at)); err != nil {
			return nil, err
		}
		check = crc32.Update(check, castagnoli, tail)
		if end := at + uint64(len(tail)); end > parts*8 {
			after = append(after, tail[max(at, parts*8)-at:]...)
		}
	}
	if crc32.Update(check, castagnoli, trailer[:68]) != binary.LittleEndian.Uint32(trailer[68:]) {
		return nil, errors.New("the checksum of what describes its tokens differs")
	}
	f := &tokenFile{
		store: store{bytes: file, width: int(width)}, count: int64(tokens), parts: numbers{name, file, int64(body), int64(parts)},
	}
	if err := json.Unmarshal(after[blocks*4:], &f.account); err != nil {
		return nil, fmt.Errorf("its account of rows: %w", err)
	}
	return f, compareBlocks(r, name, file, int64(body), after[:blocks*4])
}

// compareBlocks compares the bytes of tokens with the sums of their blocks.
func compareBlocks(r *reading, name string, file io.ReaderAt, body int64, sums []byte) error {
	const most = hashLimit / tokenFileBlock
	blocks := int64(len(sums) / 4)
	block := make([]byte, min(body, tokenFileBlock))
	for i := range min(blocks, most) {
		k := i
		if blocks > most {
			k = i * (blocks - 1) / (most - 1)
		}
		raw := block[:min(tokenFileBlock, body-k*tokenFileBlock)]
		if err := r.at(name, file, raw, k*tokenFileBlock); err != nil {
			return err
		}
		if crc32.Checksum(raw, castagnoli) != binary.LittleEndian.Uint32(sums[4*k:]) {
			return fmt.Errorf("the checksum of bytes [%d, %d) differs", k*tokenFileBlock, k*tokenFileBlock+int64(len(raw)))
		}
	}
	return nil
}

// tokenFile is the token file of a key: the one that Config.Cache has, or a new one, of tokens of width bytes, which write fills. kept tells that it was
// there. Without a cache it is a temporary file.
func (c *Corpus) tokenFile(r *reading, key tokenKey, width int, write func(w *tokenWriter) error) (f *tokenFile, kept bool, err error) {
	dir := r.config.Cache
	if dir == "" {
		f, err := c.temporaryTokens(r, key, width, write)
		return f, false, err
	}
	path := filepath.Join(dir, key.name())
	f, err = c.openTokenFile(r, path, key)
	if err == nil {
		return f, true, nil
	}
	if r.ctx.Err() != nil {
		return nil, false, context.Cause(r.ctx)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %v: it is made again", path, err))
	}
	if err := r.keepTokens(key, width, write); err != nil {
		return nil, false, err
	}
	if f, err = c.openTokenFile(r, path, key); err != nil {
		err = &data.CacheError{Err: err}
	}
	return f, false, err
}

// keepTokens writes the token file of a key to the cache.
func (r *reading) keepTokens(key tokenKey, width int, write func(w *tokenWriter) error) error {
	dir := r.config.Cache
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &data.CacheError{Err: err}
	}
	file, err := r.writeTokenFile(dir, key, width, write)
	if err != nil {
		return err
	}
	if err := file.Replace(); err != nil {
		return &data.CacheError{Err: err}
	}
	return nil
}

// temporaryTokens is a new token file without a name, where the system allows that.
func (c *Corpus) temporaryTokens(r *reading, key tokenKey, width int, write func(w *tokenWriter) error) (*tokenFile, error) {
	file, err := r.writeTokenFile("", key, width, write)
	if err != nil {
		return nil, err
	}
	c.files = append(c.files, temporary{file.File})
	f, err := readOpenFile(r, file.File, key)
	if err != nil {
		err = &data.CacheError{Err: err}
	}
	return f, err
}

// writeTokenFile writes a new token file in a directory of the cache, or as a temporary one, and returns it open and whole.
func (r *reading) writeTokenFile(dir string, key tokenKey, width int, write func(w *tokenWriter) error) (*atomicfile.File, error) {
	file, err := r.unfinished.create(dir, key)
	if err != nil {
		return nil, &data.CacheError{Err: err}
	}
	if dir == "" {
		_ = os.Remove(file.Name()) // Windows keeps a name until the file is closed
	}
	whole := false
	defer func() {
		if !whole { // why says more than that it cannot be removed
			file.Discard()
		}
	}()
	failing := &failing{to: file}
	w := &tokenWriter{out: bufio.NewWriterSize(failing, 256<<10), width: width, parts: spill{create: func() (*atomicfile.File, error) { return createUnfinished(dir, key) }}}
	defer w.parts.Close()
	if err = write(w); err == nil {
		err = w.finish(key)
	}
	if disk := errors.Join(failing.err, w.parts.err); disk != nil { // whatever else it led to
		return nil, r.cacheError(file.File, disk, int64(w.width)*w.count)
	}
	if err != nil {
		return nil, err
	}
	if dir != "" {
		if err = file.Sync(); err != nil {
			return nil, r.cacheError(file.File, err, int64(w.width)*w.count)
		}
	}
	whole = true
	return file, nil
}

// cacheError is an error of writing a token file, with so many bytes of tokens so far. Of a full disk it says what was free for the file, and about what
// the whole text would take.
func (r *reading) cacheError(file *os.File, err error, made int64) error {
	info, unknown := file.Stat()
	free, noDisk := system.Free(filepath.Dir(file.Name()))
	r.mu.Lock()
	text := r.progress
	r.mu.Unlock()
	if unknown != nil || noDisk != nil || !system.Full(err) {
		return &data.CacheError{Err: err}
	}
	found, wanted := float64(free)+float64(info.Size()), float64(made)
	if text.Bytes > 0 && text.Of > text.Bytes {
		wanted *= float64(text.Of) / float64(text.Bytes)
	}
	return &data.CacheError{Err: fmt.Errorf("%w: found %s free, wanted about %s", err, sizeText(found), sizeText(max(wanted, found)))}
}

// sizeText is a number of bytes as people read it.
func sizeText(bytes float64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%.1f KiB", bytes/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", bytes/(1<<20))
}

// failing remembers the error of what it writes to.
type failing struct {
	to  io.Writer
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	n, err := f.to.Write(p)
	f.err = err
	return n, err
}

func (c *Corpus) openTokenFile(r *reading, path string, key tokenKey) (*tokenFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := readOpenFile(r, file, key)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	c.files = append(c.files, file)
	return f, nil
}

func readOpenFile(r *reading, file *os.File, key tokenKey) (*tokenFile, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return readTokenFile(r, file.Name(), diskFile{file, info}, info.Size(), key)
}

// temporary is a file that goes when it is closed, unless it has gone before.
type temporary struct{ *os.File }

func (t temporary) Close() error {
	err := t.File.Close()
	if gone := os.Remove(t.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// encodeToken appends a token, which may be unlabelled, in so many bytes.
func encodeToken(dst []byte, width int, token uint32) []byte {
	if width == 4 {
		return binary.LittleEndian.AppendUint32(dst, token)
	}
	return binary.LittleEndian.AppendUint16(dst, uint16(token|token>>16&(unlabelled>>16)))
}

func (s store) decode(raw []byte) uint32 {
	if s.width == 4 {
		return binary.LittleEndian.Uint32(raw)
	}
	t := uint32(binary.LittleEndian.Uint16(raw))
	return t&(1<<15-1) | t>>15<<31
}
