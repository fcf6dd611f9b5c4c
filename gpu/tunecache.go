package gpu

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// tuneFile is the choices made on one adapter with one driver.
type tuneFile struct {
	Version int               `json:"version"`
	Adapter string            `json:"adapter"`
	Backend string            `json:"backend"`
	Driver  string            `json:"driver"`
	Choices map[string]string `json:"choices"`
}

const tuneVersion = 1

// Two devices of one process write the same file.
var tuneFiles sync.Mutex

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

func tunePath(a Adapter) string { return a.CacheFile("choices") }

// loadChoices never fails: a file that cannot be read counts as none, with a line in the log, and is written anew.
func loadChoices(a Adapter, log *slog.Logger) map[string]string {
	path := tunePath(a)
	if path == "" {
		return map[string]string{}
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}
	}
	var f tuneFile
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err == nil && (f.Version != tuneVersion || f.Choices == nil) {
		err = fmt.Errorf("version %d with %d choices, want version %d", f.Version, len(f.Choices), tuneVersion)
	}
	if err != nil {
		log.Warn("gpu: choose: the file of choices is not usable, starting anew", "path", path, "error", err)
		return map[string]string{}
	}
	return f.Choices
}

// saveChoice adds a choice to the file, keeping what other processes put there, in one atomic step.
func saveChoice(a Adapter, key, name string) error {
	path := tunePath(a)
	if path == "" {
		return nil
	}
	tuneFiles.Lock()
	defer tuneFiles.Unlock()
	f := tuneFile{Version: tuneVersion, Adapter: a.Name, Backend: a.Backend, Driver: a.Driver, Choices: loadChoices(a, slog.New(slog.DiscardHandler))}
	f.Choices[key] = name
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return WriteCache(path, raw)
}

// WriteCache puts a text, and the end of its last line, into a file of the cache (Adapter.CacheFile) in one atomic step.
func WriteCache(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(append(raw, '\n'))
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
