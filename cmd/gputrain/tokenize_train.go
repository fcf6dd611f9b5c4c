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

	"gputrain/internal/atomicfile"
	"gputrain/internal/system"
	"gputrain/run/train"
	"gputrain/text/tokenizer"
)

type trainTokenizeCmd struct {
	Tokenizer    string   `arg:"" help:"The tokenizer.json to write, or the directory to write it into." type:"path" placeholder:"TOKENIZER"`
	Text         []string `help:"A file to learn from; repeat it for more files. Without it, standard input." sep:"none" placeholder:"FILE"`
	VocabSize    int      `help:"Number of tokens: the special ones, 256 bytes, and merges." default:"32000"`
	Pattern      string   `help:"Pattern of words: gpt2, llama3, qwen2, qwen35, o200k, tekken, or a regular expression." default:"gpt2"`
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
	_, stop := signal.NotifyContext(context.Background(), train.StopSignals()...) // they wait until it is written, which takes milliseconds
	defer stop()
	made := &atomicfile.New{Path: path, Write: func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}}
	if err := atomicfile.Make(made); err != nil {
		return fmt.Errorf("tokenize: train: %w", err)
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
