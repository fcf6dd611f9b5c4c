package texts

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"gputrain/data"
)

// reading is what opening a corpus reads: it ends with its context, also inside a read that hangs.
type reading struct {
	ctx    context.Context
	config Config

	mu       sync.Mutex
	progress Progress         // without the time
	under    []*readRequest   // under way, the oldest first
	reached  map[string]int64 // bytes of each file that this phase has read: what is read twice, for its fingerprint, counts once

	unfinished unfinished
}

// readRequest is a read that may hang.
type readRequest struct {
	name  string // of the file
	since time.Time
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
				r.config.Progress(r.far(time.Since(begun)))
			}
			err = r.late()
		}
		if err != nil {
			r.unfinished.leave()
			go func() {
				if o := <-done; o.corpus != nil {
					o.corpus.Close()
				}
			}()
			return nil, err
		}
	}
}

func (r *reading) far(took time.Duration) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.progress
	p.Took = took
	return p
}

// begin begins a phase, in which files are read.
func (r *reading) begin(phase string, files []file) {
	p := Progress{Phase: phase}
	for _, f := range files {
		p.Of += f.size
	}
	r.mu.Lock()
	r.progress, r.reached = p, nil
	r.mu.Unlock()
}

// beginRows says that files of this phase have rows.
func (r *reading) beginRows() {
	r.mu.Lock()
	r.progress.OfRows = true
	r.mu.Unlock()
}

// row counts a row that has become tokens.
func (r *reading) row() {
	r.mu.Lock()
	r.progress.Rows++
	r.mu.Unlock()
}

// late says that a read takes longer than Config.Timeout.
func (r *reading) late() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := r.config.Timeout; limit > 0 && len(r.under) > 0 && time.Since(r.under[0].since) > limit {
		return &data.TimeoutError{Waited: limit, File: r.under[0].name}
	}
	return nil
}

// do makes one read of a file from an offset on, unless the reading is over.
func (r *reading) do(name string, offset int64, read func() (int, error)) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	now := &readRequest{name, time.Now()}
	r.mu.Lock()
	r.under = append(r.under, now)
	r.mu.Unlock()
	n, err := read()
	r.mu.Lock()
	i := slices.Index(r.under, now)
	r.under = slices.Delete(r.under, i, i+1)
	if end, was := offset+int64(n), r.reached[name]; end > was {
		if r.reached == nil {
			r.reached = map[string]int64{}
		}
		r.reached[name] = end
		r.progress.Bytes += min(int64(n), end-was)
	}
	r.mu.Unlock()
	return n, err
}

// file reads a whole file.
func (r *reading) file(name string) (content []byte, err error) {
	_, err = r.do(name, 0, func() (int, error) {
		content, err = os.ReadFile(name)
		return len(content), err
	})
	return content, err
}

// at fills dst from offset on.
func (r *reading) at(name string, from io.ReaderAt, dst []byte, offset int64) error {
	_, err := r.do(name, offset, func() (int, error) { return len(dst), data.ReadBytes(from, dst, offset) })
	return err
}
