package data

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// reading is what opening a corpus reads: it ends with its context, also inside a read that hangs.
type reading struct {
	ctx    context.Context
	config Config

	mu    sync.Mutex
	bytes int64     // read so far
	name  string    // of the file that is being read
	since time.Time // when its read was begun; zero: none is under way
}

// opened is the outcome of opening.
type opened struct {
	corpus *Corpus
	err    error
}

// How often a reading looks at itself, and how often it tells.
const readingTick = 100 * time.Millisecond

// wait takes the outcome, or what keeps it from coming: the reading is then left behind, and closes what it opens.
func (r *reading) wait(done <-chan opened) (*Corpus, error) {
	begun, tick := time.Now(), time.NewTicker(readingTick)
	defer tick.Stop()
	for {
		var err error
		select {
		case o := <-done:
			return o.corpus, o.err
		case <-r.ctx.Done():
			err = fmt.Errorf("data: open: %w", context.Cause(r.ctx))
		case <-tick.C:
			if r.config.Progress != nil {
				r.config.Progress(r.total(), time.Since(begun))
			}
			err = r.late()
		}
		if err != nil {
			go func() {
				if o := <-done; o.corpus != nil {
					o.corpus.Close()
				}
			}()
			return nil, err
		}
	}
}

func (r *reading) total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// late says that a read takes longer than Config.Timeout.
func (r *reading) late() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := r.config.Timeout; limit > 0 && !r.since.IsZero() && time.Since(r.since) > limit {
		return &TimeoutError{Waited: limit, File: r.name}
	}
	return nil
}

// do makes one read of a file, unless the reading is over.
func (r *reading) do(name string, read func() (int, error)) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	r.mu.Lock()
	r.name, r.since = name, time.Now()
	r.mu.Unlock()
	n, err := read()
	r.mu.Lock()
	r.bytes, r.since = r.bytes+int64(n), time.Time{}
	r.mu.Unlock()
	return n, err
}

// file reads a whole file.
func (r *reading) file(name string) (content []byte, err error) {
	_, err = r.do(name, func() (int, error) {
		content, err = os.ReadFile(name)
		return len(content), err
	})
	return content, err
}

// at fills dst from offset on.
func (r *reading) at(name string, from io.ReaderAt, dst []byte, offset int64) error {
	_, err := r.do(name, func() (int, error) { return len(dst), readBytes(from, dst, offset) })
	return err
}
