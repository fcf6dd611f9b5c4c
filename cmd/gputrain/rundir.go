package main

import (
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"

	"gputrain/train/runfile"
)

// runDirOf is the directory of a run below runs/: named for the run file, with a short hash of what was laid over it and makes it another run.
func runDirOf(files []string, cfg *runfile.Config) string {
	name := "default"
	if len(files) > 0 {
		base := filepath.Base(files[len(files)-1])
		name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if laid := cfg.Apart(files); len(laid) > 0 {
		name = fmt.Sprintf("%s-%08x", name, crc32.ChecksumIEEE([]byte(strings.Join(laid, "\n"))))
	}
	return filepath.Join("runs", name)
}
