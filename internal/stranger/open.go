// Package stranger opens files in the directory of a model or a run. Such a directory may come from anybody: what lies there under the name of a file may be
// a pipe, a device, endless, or a link to a file of the user's, which would then be published with the model, or written.
package stranger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Open opens a regular file for reading. Links lead to what is in the file's own directory, or, in Hugging Face's cache, to what is there of the same
// repository. Nothing else is opened, or waited for. A file that is not there is fs.ErrNotExist; a link to nothing is not.
func Open(path string) (*os.File, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return f, nil
}

func open(path string) (*os.File, error) {
	dir, name := filepath.Split(filepath.Clean(path))
	if dir == "" {
		dir = "."
	}
	found, err := os.Lstat(path)
	if err != nil {
		return nil, reason(err)
	}
	link := found.Mode()&fs.ModeSymlink != 0
	if link {
		dir, name = repository(dir, name)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, reason(err)
	}
	defer root.Close()
	if _, err := root.Stat(name); err != nil && link {
		return nil, badLink(path, err)
	}
	return in(root, name)
}

// OpenIn is Open of a file in a directory that is open; links lead to what is in that.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := in(root, name)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	return f, nil
}

// in looks before it opens: to open a pipe would wait for somebody who writes to it, and to open a device may do anything.
func in(root *os.Root, name string) (f *os.File, err error) {
	info, err := root.Stat(name)
	if err == nil {
		err = Regular(info)
	}
	if err == nil {
		f, err = root.Open(name)
	}
	return f, reason(err)
}

// OpenFile is os.OpenFile of a regular file itself: no link is followed, and with os.O_CREATE nothing is made but at the path.
func OpenFile(path string, flag int) (f *os.File, err error) {
	switch there, failed := os.Lstat(path); {
	case failed == nil:
		err = Regular(there)
	case flag&os.O_CREATE == 0 || !errors.Is(failed, fs.ErrNotExist):
		err = failed
	}
	if err == nil {
		f, err = os.OpenFile(path, flag, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, reason(err))
	}
	return f, nil
}

// reason is why, without the path, which is said once.
func reason(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// repository is the directory that links of a file may lead to, and the file's name in that: of a model in Hugging Face's cache the folder
// models--OWNER--NAME, where snapshots/REVISION links to blobs; otherwise the file's own directory.
func repository(dir, name string) (string, string) {
	at, err := filepath.Abs(dir)
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	if err != nil {
		return dir, name
	}
	inside := name
	for at != filepath.Dir(at) {
		inside = filepath.Join(filepath.Base(at), inside)
		at = filepath.Dir(at)
		if strings.HasPrefix(filepath.Base(at), "models--") && strings.HasPrefix(inside, "snapshots"+string(filepath.Separator)) {
			return at, inside
		}
	}
	return dir, name
}

// badLink says what is wrong with a link that could not be followed.
func badLink(path string, err error) error {
	to, unread := os.Readlink(path)
	if unread != nil {
		return reason(unread)
	}
	if errors.Is(err, fs.ErrNotExist) { // not for callers who do without files that are not there: somebody wanted this one
		return fmt.Errorf("is a link to %q, where nothing is: wanted a file", to)
	}
	info, unfound := os.Stat(path)
	if unfound == nil {
		unfound = Regular(info)
	}
	if unfound != nil {
		return fmt.Errorf("is a link to %q: %w", to, reason(unfound))
	}
	return fmt.Errorf("is a link to %q, which is absolute or leads out of its directory: wanted the file itself there, or a hard link to it (ln without -s)", to)
}

// Regular refuses what is no file of bytes.
func Regular(info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("found %s, wanted a regular file", Kind(info))
}

// Kind says what a file is.
func Kind(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Read reads a whole file that Open opens. It refuses one beyond the Limit of its name.
func Read(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := ReadFrom(f, filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return raw, nil
}

// ReadNamed is Read of a file that the user has named: where its links lead is the user's business.
func ReadNamed(path string) ([]byte, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return Read(path)
}

// ReadFrom reads all of a file of that name, and refuses one beyond its Limit. Files of the kernel's say that they are empty, and others grow, so that
// only reading tells.
func ReadFrom(r io.Reader, name string) ([]byte, error) {
	most := limit(name)
	if f, ok := r.(fs.File); ok {
		if info, err := f.Stat(); err == nil && info.Size() > most {
			return nil, fmt.Errorf("found %d bytes, wanted at most %d", info.Size(), most)
		}
	}
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, reason(err)
	}
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("found more than %d bytes, wanted at most that", most)
	}
	return raw, nil
}

// SafetensorsHeader is the most bytes that the header of a safetensors file may have, as in the reference implementation.
const SafetensorsHeader = 100_000_000

// limits are several times what the largest models have: tokenizer.json of Gemma 3 is of 33 MB, an index of 671 billion parameters of 9 MB.
var limits = map[string]int64{
	"adapter_config.json":          1 << 20,
	"config.json":                  1 << 20,
	"generation_config.json":       1 << 20,
	"base.json":                    1 << 16,
	"run.yaml":                     1 << 20, // far more than all keys with long lists take, and any run file may have
	"README.md":                    4 << 20,
	"chat_template.jinja":          4 << 20,
	"chat_template.json":           4 << 20,
	"tokenizer_config.json":        16 << 20,
	"special_tokens_map.json":      16 << 20,
	"added_tokens.json":            16 << 20,
	"vocab.json":                   64 << 20,
	"merges.txt":                   64 << 20,
	"model.safetensors.index.json": 64 << 20,
	"manifest.json":                64 << 20,
	"state.json":                   64 << 20,
}

// limit is the most bytes that a file of a name may have: those that have no row are tokenizers, under names that users have given them.
func limit(name string) int64 {
	if most, ok := limits[name]; ok {
		return most
	}
	return 128 << 20
}
