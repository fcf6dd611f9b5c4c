package setup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/state/checkpoint"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

// Open opens a model: path itself where it is a GGUF file, or holds a config.json or an adapter_config.json, the newest
// whole checkpoint where it is a run directory; out is told of damaged ones. A training run that goes on leaves the
// checkpoint until Close.
func Open(path string, out io.Writer) (*hub.Bundle, error) {
	b := hub.Open(path)
	if b.IsGGUF() {
		return b, nil
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, &UsageError{fmt.Errorf("%s: found %s, wanted a run directory, a checkpoint, a model directory or a GGUF file",
			path, stranger.Kind(info))}
	}
	for _, name := range []string{"config.json", model.AdapterConfigFile} {
		if _, err := os.Stat(b.Path(name)); err == nil {
			unlock, err := checkpoint.Hold(checkpoint.OS, path)
			if err != nil {
				return nil, err
			}
			return b.AtClose(unlock), nil
		}
	}
	found, unlock, err := Checkpoints(path).Hold()
	if err != nil {
		return nil, err
	}
	if found.Path == "" {
		what := ""
		if files, _ := filepath.Glob(filepath.Join(path, "*.gguf")); len(files) > 0 {
			what = fmt.Sprintf("; name the GGUF file in it, such as %s", filepath.Base(files[0]))
		}
		return nil, &UsageError{fmt.Errorf("%s: found neither config.json nor checkpoints, wanted a run directory, a checkpoint or a model directory%s",
			path, what+hub.Download(path))}
	}
	for _, r := range found.Rejected {
		fmt.Fprintf(out, "gputrain: %s\n", r)
	}
	return hub.Open(found.Path).AtClose(unlock), nil
}

// OpenTokenizer opens the tokenizer at a path, a directory, a file of one, or a GGUF file.
func OpenTokenizer(path string) (*tokenizer.Tokenizer, error) {
	files, err := hub.OpenTokenizer(path)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Open(files)
	return t, errors.Join(err, files.Close())
}

// OpenTemplate opens the chat template of the directory at a path.
func OpenTemplate(path string) (*chat.Template, error) {
	b := hub.Open(path)
	t, err := chat.OpenTemplate(b, "")
	return t, errors.Join(err, b.Close())
}

// Checkpoints are those of a run directory.
func Checkpoints(runDir string) checkpoint.Store {
	return checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(runDir, "checkpoints")}
}

// OfRun is the run file of the run in a directory, as its record has it; nil: it is no run's.
func OfRun(dir string) (*runfile.Config, error) {
	if !hub.Has(dir, runfile.RecordFile) {
		return nil, nil
	}
	return runfile.OfRun(dir)
}

// runDirOf is the run directory of a checkpoint; "" where dir is none.
func runDirOf(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil || filepath.Dir(dir) != Checkpoints(filepath.Dir(filepath.Dir(dir))).Dir {
		return "", err
	}
	return filepath.Dir(filepath.Dir(dir)), nil
}
