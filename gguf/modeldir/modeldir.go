// Package modeldir reads the small files of a model's directory in the Hugging Face layout, or of a GGUF file in its place, which stands for one.
//
//	raw, err := modeldir.Read("models/Qwen3-0.6B-Q8_0.gguf/config.json")
package modeldir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gputrain/gguf"
	"gputrain/gguf/llamacpp"
	"gputrain/internal/stranger"
)

// TokenizerFiles are the names of files that a tokenizer consists of, or that belong to it.
func TokenizerFiles() []string {
	return []string{
		"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
		"chat_template.jinja", "chat_template.json",
	}
}

// Read is stranger.Read of a file in a directory; where a GGUF file stands for the directory, of what that says. Where there is none of the name, the error is
// fs.ErrNotExist.
func Read(path string) ([]byte, error) {
	dir := filepath.Dir(path)
	if !gguf.Is(dir) {
		return stranger.Read(path)
	}
	mutex.Lock()
	defer mutex.Unlock()
	if err := open(dir); err != nil {
		return nil, err
	}
	return last.as.Read(filepath.Base(path))
}

// ReadJSON is Read into a value.
func ReadJSON(path string, into any) error {
	raw, err := Read(path)
	if err != nil {
		return err
	}
	if err := stranger.JSON(raw, into); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	return nil
}

// Beside is ReadJSON of a file that a directory may lack: into stays as it is.
func Beside(dir, name string, into any) error {
	if err := ReadJSON(filepath.Join(dir, name), into); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Is tells whether a path is a directory, or a GGUF file that stands for one.
func Is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || gguf.Is(path))
}

// Has tells whether a directory has something under a name, whatever it is: who reads it says what is wrong with it.
func Has(dir, name string) bool {
	if !gguf.Is(dir) {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	mutex.Lock()
	defer mutex.Unlock()
	return open(dir) != nil || last.as.Has(name)
}

// last is the model that was read last: a command asks for many files of one, whose header is large.
var (
	mutex sync.Mutex
	last  struct {
		path    string
		changed time.Time
		size    int64
		as      *llamacpp.Directory
	}
)

// open makes last the model at a path. It stays open for those who ask next.
func open(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if last.as != nil && last.path == path && last.changed.Equal(info.ModTime()) && last.size == info.Size() {
		return nil
	}
	as, err := llamacpp.Open(path)
	if err != nil {
		return err
	}
	if last.as != nil {
		_ = last.as.Close() // nothing was written
	}
	last.path, last.changed, last.size, last.as = path, info.ModTime(), info.Size(), as
	return nil
}
