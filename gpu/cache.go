package gpu

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"gputrain/internal/atomicfile"
)

// CacheDir is $GPUTRAIN_CACHE or else the program's own in the user's cache folder; "": there is no such folder.
func CacheDir() string {
	if dir := os.Getenv("GPUTRAIN_CACHE"); dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(user, "gputrain")
}

// CacheFile is the path of a file for what is remembered of an adapter under its driver, in $GPUTRAIN_CACHE or else the user's cache
// folder; adapters of one name, backend and driver share it. It is "" when there is no cache folder: nothing is remembered then.
func (a Adapter) CacheFile(what string) string {
	dir := CacheDir()
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(a.Name + "\n" + a.Backend + "\n" + a.Driver))
	return filepath.Join(dir, fmt.Sprintf("%s-%x.json", what, sum[:6]))
}

// WriteCache puts a text, and the end of its last line, into a file of the cache (Adapter.CacheFile) in one atomic step.
func WriteCache(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Replace(path, append(raw, '\n'))
}
