package setup

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gputrain/checkpoint"
	"gputrain/gguf"
	"gputrain/gguf/modeldir"
	"gputrain/internal/stranger"
	"gputrain/model"
)

// HoldModel is path itself where it is a GGUF file, or holds a config.json or an adapter_config.json, the newest whole checkpoint where path is a run directory; out is told of damaged
// ones. A training run that goes on leaves the checkpoint until release.
func HoldModel(path string, out io.Writer) (dir string, release func(), err error) {
	if gguf.Is(path) {
		return path, func() {}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return "", nil, &UsageError{fmt.Errorf("%s: found %s, wanted a run directory, a checkpoint, a model directory or a GGUF file",
			path, stranger.Kind(info))}
	}
	let := func(unlock func() error) func() {
		return func() { _ = unlock() } // nothing was written
	}
	for _, name := range []string{"config.json", model.AdapterConfigFile} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			unlock, err := checkpoint.Hold(checkpoint.OS, path)
			return path, let(unlock), err
		}
	}
	found, unlock, err := Checkpoints(path).Hold()
	if err != nil {
		return "", nil, err
	}
	if found.Path == "" {
		what := ""
		if files, _ := filepath.Glob(filepath.Join(path, "*.gguf")); len(files) > 0 {
			what = fmt.Sprintf("; name the GGUF file in it, such as %s", filepath.Base(files[0]))
		}
		return "", nil, &UsageError{fmt.Errorf("%s: found neither config.json nor checkpoints, wanted a run directory, a checkpoint or a model directory%s",
			path, what+modeldir.Download(path))}
	}
	for _, r := range found.Rejected {
		fmt.Fprintf(out, "gputrain: %s\n", r)
	}
	return found.Path, let(unlock), nil
}

// Checkpoints are those of a run directory.
func Checkpoints(runDir string) checkpoint.Store {
	return checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(runDir, "checkpoints")}
}
