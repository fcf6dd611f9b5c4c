package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"gputrain/checkpoint"
	"gputrain/internal/stranger"
	"gputrain/internal/system"
	"gputrain/tokenizer"
	"gputrain/train"
)

type trainTokenizeCmd struct {
	Tokenizer    string   `arg:"" help:"The tokenizer.json to write, or the directory to write it into." type:"path" placeholder:"TOKENIZER"`
	Text         []string `help:"A file to learn from; repeat it for more files. Without it, standard input." sep:"none" placeholder:"FILE"`
	VocabSize    int      `help:"Number of tokens: the special ones, 256 bytes, and merges." default:"32000"`
	Pattern      string   `help:"Pattern of words: gpt2, llama3, qwen2, o200k, tekken, or a regular expression." default:"gpt2"`
	Special      []string `help:"A special token; repeat it for more. They come first, in this order." sep:"none" placeholder:"TOKEN"`
	MinFrequency int64    `help:"Rarer pairs are not merged." default:"2"`
}

func (c *trainTokenizeCmd) Run(ctx context.Context) error {
	path, err := c.path()
	if err != nil {
		return usageError{err}
	}
	pattern := c.Pattern
	if !strings.ContainsAny(pattern, `\[(.*+?|^$`) {
		if pattern, err = tokenizer.Pattern(c.Pattern); err != nil {
			return usageError{err}
		}
	}
	config := tokenizer.TrainConfig{
		VocabSize: c.VocabSize, Pattern: pattern, Special: c.Special, MinFrequency: c.MinFrequency, Progress: toldBytes("tokenize: counted words of"),
	}
	if err := config.Validate(); err != nil {
		return usageError{err}
	}
	texts, err := c.texts()
	if err != nil {
		return usageError{err}
	}
	trained, err := tokenizer.Train(ctx, texts, config)
	if errors.Is(err, tokenizer.ErrNoText) {
		err = usageError{err}
	}
	if err != nil {
		return err
	}
	raw, err := trained.JSON()
	if err != nil {
		return err
	}
	if err := system.MkdirAll(filepath.Dir(path)); errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("tokenize: train: %w", err)}
	} else if err != nil {
		return err
	}
	if err := writeNew(path, raw); err != nil {
		return err
	}
	_, err = fmt.Printf("%s: %d tokens, %d of them merges\n", path, len(trained.Tokens), len(trained.Merges))
	return err
}

// path is the file to write, which nothing may be in the way of.
func (c *trainTokenizeCmd) path() (string, error) {
	path := c.Tokenizer
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir(), err != nil && !strings.HasSuffix(path, ".json"):
		path = filepath.Join(path, "tokenizer.json")
	case err == nil && !strings.HasSuffix(path, ".json"):
		return "", fmt.Errorf("tokenize: train: %s is a file: wanted a directory, or a name that ends with .json", path)
	}
	switch _, err := os.Lstat(path); {
	case err == nil:
		return "", fmt.Errorf("tokenize: train: %s is there already: wanted a path that is free", path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("tokenize: train: %w", err)
	}
	return path, nil
}

func (c *trainTokenizeCmd) texts() (texts []io.Reader, err error) {
	if len(c.Text) == 0 {
		return []io.Reader{os.Stdin}, nil
	}
	for _, name := range c.Text {
		f, err := openText(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("tokenize: train: --text %q: found no such file, wanted one; patterns are the shell's: --text a.txt --text b.txt", name)
		}
		if err != nil {
			return nil, err
		}
		texts = append(texts, f) // closed at the end of the process
	}
	return texts, nil
}

// writeNew writes a file that was not there: whole, or not at all. A signal waits until it is written, which takes milliseconds; who is killed meanwhile
// leaves what the next one takes over.
func writeNew(path string, raw []byte) (err error) {
	_, stop := signal.NotifyContext(context.Background(), train.StopSignals()...)
	defer stop()
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	f, err := stranger.OpenFile(temporary, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("tokenize: train: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lock, err := checkpoint.OS.Lock(temporary, true)
	if err != nil {
		return fmt.Errorf("tokenize: train: another process writes %s: %w", path, err)
	}
	defer lock.Close()
	defer os.Remove(temporary)
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err = f.Write(raw); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return placeNew(temporary, path, os.Link)
}

// placeNew gives a file a name that nothing has. Where link, which does so in one go, is not to be had (FAT, some network file systems), the name is taken
// by an empty file of our own, which is then replaced: who is killed in between leaves that.
func placeNew(temporary, path string, link func(from, to string) error) error {
	linked := link(temporary, path)
	if linked == nil || errors.Is(linked, fs.ErrExist) {
		return linked
	}
	taken, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return errors.Join(linked, err)
	}
	if err := errors.Join(taken.Close(), system.Rename(temporary, path)); err != nil {
		return errors.Join(linked, err, os.Remove(path))
	}
	return nil
}
