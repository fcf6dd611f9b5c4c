package texts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"gputrain/internal/atomicfile"
	"gputrain/run/data"
)

// reading is what opening a corpus reads. It ends with its context.
type reading struct {
	ctx    context.Context
	end    context.CancelCauseFunc // of the context; nil: the opening is over, and no read is late
	config Config

	mu       sync.Mutex
	progress Progress // without the time

	unfinished unfinished
}

// opened is the outcome of opening.
type opened struct {
	corpus *Corpus
	err    error
}

// readingTick is how often a reading tells how far it is.
const readingTick = 100 * time.Millisecond

// wait takes the outcome of opening. A reading whose context ends before that may hang in a read: it is left behind, and
// closes what it opens.
func (r *reading) wait(done <-chan opened) (*Corpus, error) {
	begun, tick := time.Now(), time.NewTicker(readingTick)
	defer tick.Stop()
	for r.ctx.Err() == nil {
		select {
		case o := <-done:
			return o.corpus, o.err
		case <-tick.C:
			if r.config.Progress != nil {
				r.config.Progress(r.far(time.Since(begun)))
			}
		case <-r.ctx.Done():
		}
	}
	r.unfinished.leave()
	go func() {
		if o := <-done; o.corpus != nil {
			o.corpus.Close()
		}
	}()
	err := context.Cause(r.ctx)
	if late := (*data.TimeoutError)(nil); !errors.As(err, &late) {
		err = fmt.Errorf("data: open: %w", err)
	}
	return nil, err
}

func (r *reading) far(took time.Duration) (p Progress) {
	r.tell(func(now *Progress) { p = *now })
	if p.Took = took; p.Of > 0 {
		p.Bytes = min(p.Bytes, p.Of) // Parquet is read in places twice
	}
	return p
}

// tell changes what is told of the reading.
func (r *reading) tell(change func(p *Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.progress)
}

// begin begins a phase, in which files are read.
func (r *reading) begin(phase string, files []file) {
	begun := Progress{Phase: phase}
	for _, f := range files {
		begun.Of += f.size
	}
	r.tell(func(p *Progress) { *p = begun })
}

// do makes one read of a file, unless the reading is over, and counts the bytes that it has got further. A read that
// takes longer than Config.Timeout, and than a tick, ends the reading: its disk hangs.
func (r *reading) do(name string, read func() (int, error)) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	if limit := r.config.Timeout; limit > 0 && r.end != nil {
		defer time.AfterFunc(max(limit, readingTick), func() { r.end(&data.TimeoutError{Waited: limit, File: name}) }).Stop()
	}
	n, err := read()
	r.tell(func(p *Progress) { p.Bytes += int64(n) })
	return n, err
}

// at fills dst from offset on.
func (r *reading) at(name string, from io.ReaderAt, dst []byte, offset int64) error {
	_, err := r.do(name, func() (int, error) { return len(dst), data.ReadBytes(from, dst, offset) })
	return err
}

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
