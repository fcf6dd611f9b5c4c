// Package cache keeps what the program remembers of a machine between runs.
package cache

import (
	"os"
	"path/filepath"

	"gputrain/internal/atomicfile"
)

// Dir is $GPUTRAIN_CACHE or else the program's own in the user's cache folder; "": there is no such folder.
func Dir() string {
	if dir := os.Getenv("GPUTRAIN_CACHE"); dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(user, "gputrain")
}

// Write puts a text, and the end of its last line, into a file of the cache in one atomic step.
func Write(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Replace(path, append(raw, '\n'))
}
