package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"gputrain/train"
	"gputrain/train/runfile"
)

// runDirOf is the directory of a run below runs/: named for the run file, with a short hash of what was laid over it and makes it another run.
// Where an older program has called it otherwise, as it took all that was laid over, that is said.
func runDirOf(files []string, cfg *runfile.Config) string {
	dir, former := runName(files, cfg.Apart(files)), runName(files, cfg.Laid(files))
	if _, err := train.ReadMarker(dir); err == nil || dir == former {
		return dir
	}
	if _, err := os.Stat(filepath.Join(former, "run.yaml")); err != nil {
		return dir
	}
	fmt.Fprintf(os.Stderr, "gputrain: the run is in %s, as an older gputrain called it; wanted %s\n", former, dir)
	return former
}

func runName(files, laid []string) string {
	name := "default"
	if len(files) > 0 {
		base := filepath.Base(files[len(files)-1])
		name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if len(laid) > 0 {
		name = fmt.Sprintf("%s-%08x", name, crc32.ChecksumIEEE([]byte(strings.Join(laid, "\n"))))
	}
	return filepath.Join("runs", name)
}
