// Package atomicfile writes files and directories so that whoever looks finds all of one, what was there before, or nothing: also where the writer is killed, the
// disk is full, or two write at once.
//
// What is not finished lies beside its place, as .gputrain-MACHINE-NUMBER.tmp. Its writer holds a lock on it, which the system releases however the
// writer ends: the next writer in that folder removes at once what nobody holds. Another machine's locks may not be seen, and some file systems have none:
// there something counts as left a day after its last change.
package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"gputrain/internal/system"
)

// unfinished is the form of a name of what is not finished.
var unfinished = regexp.MustCompile(`^\.gputrain-([0-9a-f]{8})-[0-9]+\.tmp$`)

// earlier are the names that older programs gave: tokens in the cache, measurements of an adapter, tokenizers, files of a run, exports.
var earlier = regexp.MustCompile(`^([0-9a-f]{32}\.(tokens|windows|sums)\.[0-9a-f]{8}\.[0-9]+\.tmp|(texels|power)-[0-9a-f]{12}\.json-[0-9]+\.tmp|` +
	`\.tokenizer\.json\.tmp|\.gputrain(\.tmp|-export-[A-Z2-7]{26}))$`)

// stale is how long something has not been changed that counts as left where locks do not tell.
const stale = 24 * time.Hour

// machine is a name for this machine that goes into names of files.
var machine = sync.OnceValue(func() string {
	host, _ := os.Hostname() // without one, locks tell alone
	sum := sha256.Sum256([]byte(host))
	return hex.EncodeToString(sum[:4])
})

// hold makes something beside a path under a name of its own, and locks it. What create makes may be gone before it is open: then it gives nil.
func hold(path string, create func(name string) (*os.File, error)) (*os.File, error) {
	for range 100 {
		f, err := create(filepath.Join(filepath.Dir(path), fmt.Sprintf(".gputrain-%s-%d.tmp", machine(), rand.Uint32())))
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		if !errors.Is(system.Lock(f, true), system.ErrLocked) && there(f) {
			return f, nil
		}
		_ = f.Close() // another writer has taken it for one that is left, and removes it
	}
	return nil, fmt.Errorf("%s: another process removes what is to become it each time", path)
}

// there tells whether an open file has its name still.
func there(f *os.File) bool {
	named, err := os.Lstat(f.Name())
	if err != nil {
		return false
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(named, open)
}

// clean removes what dead writers have left in a folder, and tells what that was, or why it stays. Writing there says what is wrong with the folder.
func clean(dir string, tell func(path string, err error)) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		own := unfinished.FindStringSubmatch(e.Name())
		if own == nil && !earlier.MatchString(e.Name()) || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if removed, err := removeLeft(path, e.IsDir(), own != nil && own[1] == machine()); tell != nil && (removed || err != nil) {
			tell(path, err)
		}
	}
}

// removeLeft removes what is at a path if its writer is dead; here says that it was on this machine.
func removeLeft(path string, dir, here bool) (removed bool, err error) {
	flag := os.O_RDWR // some file systems lock nothing else
	if dir {
		flag = os.O_RDONLY
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return false, nil // somebody else's, or just removed
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	age := time.Since(info.ModTime())
	lock := system.Lock(f, true)
	dead := lock == nil && here && (system.RenamesOpen || age > time.Minute) // elsewhere the lock ends a moment before the file gets its last name
	if !dead && (errors.Is(lock, system.ErrLocked) || age < stale) {
		return false, nil
	}
	if !system.RenamesOpen {
		_ = f.Close()
	}
	return true, system.RemoveAll(path)
}
