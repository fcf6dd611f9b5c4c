package texts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gputrain/internal/system"
)

// A token file that is being written has a name of its own: the one that it will have, the machine of its writer, a number, and .tmp. The writer holds
// a lock on it, which the system releases however the writer ends. So any process removes at once what a dead one of its own machine has left. Locks of
// other machines may not be seen here, and some file systems have none: there a file counts as left once nothing was written to it for a day.
var unfinishedName = regexp.MustCompile(`^[0-9a-f]{32}\.(?:tokens|windows|sums)\.([0-9a-f]{8})\.[0-9]+\.tmp$`)

// unfinishedStale is that day.
const unfinishedStale = 24 * time.Hour

// machine is a name for the running system, the same in all its containers, which share its locks.
var machine = sync.OnceValue(func() string {
	name, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		host, _ := os.Hostname() // without one, what others have left is removed later
		name = []byte(host)
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(name))))
	return hex.EncodeToString(sum[:4])
})

// createUnfinished creates the file of a key, and locks it.
func createUnfinished(dir string, key tokenKey) (*os.File, error) {
	for range 100 {
		file, err := os.CreateTemp(dir, key.name()+"."+machine()+".*.tmp")
		if err != nil {
			return nil, err
		}
		if lockUnfinished(file) != held && isAt(file, file.Name()) {
			return file, nil
		}
		_ = file.Close() // somebody has taken it for one that is left, and removes it
	}
	return nil, fmt.Errorf("create %s: another process removes it each time", filepath.Join(dir, key.name()))
}

// isAt tells whether a path leads to an open file.
func isAt(file *os.File, path string) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	open, err := file.Stat()
	return err == nil && os.SameFile(there, open)
}

// removeDead removes what dead processes have left in a directory. What it cannot look at stays.
func removeDead(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		name := unfinishedName.FindStringSubmatch(e.Name())
		info, err := e.Info()
		if name == nil || err != nil || !info.Mode().IsRegular() {
			continue
		}
		if stale := time.Since(info.ModTime()) > unfinishedStale; name[1] == machine() || stale {
			removeUnlocked(filepath.Join(dir, e.Name()), stale)
		}
	}
}

// removeUnlocked removes a file that nobody has locked; where locks do not tell, one that is stale.
func removeUnlocked(path string, stale bool) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	lock := lockUnfinished(file)
	if !system.RenamesOpen && lock == taken && lately(file) {
		lock = held
	}
	if lock == taken || lock == unknown && stale {
		removeOpen(file) // another process may have done it
	}
	_ = file.Close()
}

func lockUnfinished(file *os.File) lockState {
	switch err := system.Lock(file, true); {
	case err == nil:
		return taken
	case errors.Is(err, system.ErrLocked):
		return held
	}
	return unknown
}

// removeOpen removes a file, if it can be while its lock keeps others from it.
func removeOpen(file *os.File) {
	if !system.RenamesOpen {
		_ = file.Close()
	}
	_ = os.Remove(file.Name())
}

// renameUnfinished gives a file its last name, if it can be before it loses its lock.
func renameUnfinished(file *os.File, to string) error {
	if system.RenamesOpen {
		return errors.Join(os.Rename(file.Name(), to), file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	return system.Rename(file.Name(), to)
}

// lately tells whether a file may have been closed just now, to get its last name.
func lately(file *os.File) bool {
	info, err := file.Stat()
	return err != nil || time.Since(info.ModTime()) < time.Minute
}

// lockState is what became of a wish for a lock.
type lockState int

const (
	taken   lockState = iota // it is ours, until the file is closed
	held                     // another process has it
	unknown                  // there are no locks here
)

// unfinished is the file that a reading writes, which goes when the reading is left behind.
type unfinished struct {
	path atomic.Pointer[string]
	over atomic.Bool
}

// leaveWait is how long leaving waits for a disk that hangs.
const leaveWait = 2 * time.Second

var errLeft = errors.New("the reading is over")

// create is createUnfinished for a reading.
func (u *unfinished) create(dir string, key tokenKey) (*os.File, error) {
	file, err := createUnfinished(dir, key)
	if err != nil {
		return nil, err
	}
	name := file.Name()
	if u.path.Store(&name); u.over.Load() {
		_ = os.Remove(name)
		return nil, errors.Join(errLeft, file.Close())
	}
	return file, nil
}

// leave removes what is unfinished, and all that is begun from now on. It does not wait for a disk that hangs.
func (u *unfinished) leave() {
	u.over.Store(true)
	path := u.path.Load()
	if path == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		_ = os.Remove(*path) // it may have its last name by now
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(leaveWait):
	}
}
