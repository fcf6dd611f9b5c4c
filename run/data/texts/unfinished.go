package texts

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"gputrain/internal/atomicfile"
)

// createUnfinished begins the file of a key; without a directory, a temporary one.
func createUnfinished(dir string, key tokenKey) (*atomicfile.File, error) {
	return atomicfile.Create(filepath.Join(cmp.Or(dir, os.TempDir()), key.name()), 0o600)
}

// unfinished is the file that a reading writes, which goes when the reading is left behind.
type unfinished struct {
	path atomic.Pointer[string]
	over atomic.Bool
}

// leaveWait is how long leaving waits for a disk that hangs.
const leaveWait = 2 * time.Second

var errLeft = errors.New("the reading is over")

// create is createUnfinished for a reading.
func (u *unfinished) create(dir string, key tokenKey) (*atomicfile.File, error) {
	file, err := createUnfinished(dir, key)
	if err != nil {
		return nil, err
	}
	name := file.Name()
	if u.path.Store(&name); u.over.Load() {
		file.Discard()
		return nil, errLeft
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
