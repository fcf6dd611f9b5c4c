//go:build unix

package mpi

// #cgo linux LDFLAGS: -ldl -lpthread
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// installs is what to do where there is no library.
const installs = "wanted Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin; Fedora: dnf install openmpi, module load mpi; macOS: brew install open-mpi)"

// load opens the library.
func load() error {
	// Otherwise UCX takes SIGSEGV for itself. It reads this when it is loaded.
	if err := os.Setenv("UCX_ERROR_SIGNALS", ""); err != nil {
		return err
	}
	var version [8192]C.char
	wrong := C.gtmpi_load(&version[0], C.size_t(len(version)))
	name, _, _ := strings.Cut(C.GoString(&version[0]), ",")
	switch {
	case wrong != nil:
		return fmt.Errorf("transport/mpi: open the library: %s: %s", C.GoString(wrong), installs)
	case !strings.HasPrefix(name, "Open MPI v4.") && !strings.HasPrefix(name, "Open MPI v5."):
		return fmt.Errorf("transport/mpi: open the library: found %.60q, %s", name, installs)
	}
	return nil
}

// engine is the thread that makes all calls of the library.
type engine struct {
	rank, size int

	mu    sync.Mutex
	asked []func()

	// The thread's own.
	under map[C.int]chan<- ended // by slot
	tests int64                  // of what is under way, so far
	over  bool
}

// ended is a request that is done.
type ended struct {
	err           error
	source, count int
}

const (
	longestPause = time.Millisecond
	idlePause    = 5 * time.Millisecond
)

// start opens the library, finds the others and serves requests until it is finalized.
func start() (*engine, error) {
	e := &engine{under: map[C.int]chan<- ended{}}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := load()
		var r, n C.int
		if err == nil {
			err = inWords("init", C.gtmpi_init(&r, &n))
		}
		e.rank, e.size = int(r), int(n)
		ready <- err
		if err == nil {
			e.serve()
		}
	}()
	return e, <-ready
}

// serve starts what is asked for, and tests what is under way.
func (e *engine) serve() {
	var done [64]C.struct_gtmpi_done
	moved := time.Now()
	for {
		e.mu.Lock()
		asked := e.asked
		e.asked = nil
		e.mu.Unlock()
		for _, do := range asked {
			if do(); e.over { // the library takes no call behind its end, and what is asked for meanwhile never begins
				return
			}
		}
		e.tests++
		n := C.gtmpi_test(&done[0], C.int(len(done)))
		for _, d := range done[:n] {
			e.under[d.slot] <- ended{codeError(d.code), int(d.source), int(d.count)}
			delete(e.under, d.slot)
		}
		if n > 0 || len(asked) > 0 {
			moved = time.Now()
			continue
		}
		longest := longestPause
		if len(e.under) <= 1 { // the question that is always awaited
			longest = idlePause
		}
		if pause := min(time.Since(moved)/8, longest); pause > 5*time.Microsecond {
			C.gtmpi_pause(C.long(pause))
		}
	}
}

// ask has do called by the thread.
func (e *engine) ask(do func()) {
	e.mu.Lock()
	e.asked = append(e.asked, do)
	e.mu.Unlock()
	C.gtmpi_wake()
}

// channel is a new one between all ranks, which must all ask for it.
func (e *engine) channel() (channel int, err error) {
	made := make(chan struct{})
	e.ask(func() {
		var c C.int
		err = inWords("channel", C.gtmpi_channel(&c))
		channel = int(c)
		close(made)
	})
	<-made
	return channel, err
}

// request starts one. The channel has room for its end.
func (e *engine) request(begin func(slot *C.int) C.int) <-chan ended {
	end := make(chan ended, 1)
	e.ask(func() {
		var slot C.int
		if code := begin(&slot); code != 0 {
			end <- ended{err: codeError(code)}
			return
		}
		e.under[slot] = end
	})
	return end
}

func (e *engine) send(channel int, m memory, n, to, tag int) <-chan ended {
	return e.request(func(slot *C.int) C.int {
		return C.gtmpi_send(C.int(channel), m.at, C.int(n), C.int(to), C.int(tag), slot)
	})
}

func (e *engine) receive(channel int, m memory, from, tag int) <-chan ended {
	return e.request(func(slot *C.int) C.int {
		return C.gtmpi_receive(C.int(channel), m.at, C.int(m.size), C.int(from), C.int(tag), slot)
	})
}

func (e *engine) gather(channel int, own memory, n int, all, counts, offsets memory) <-chan ended {
	return e.request(func(slot *C.int) C.int {
		return C.gtmpi_gather(C.int(channel), own.at, C.int(n), all.at, (*C.int)(counts.at), (*C.int)(offsets.at), slot)
	})
}

// finalize ends the library, which waits for all ranks, and the thread.
func (e *engine) finalize() <-chan error {
	end := make(chan error, 1)
	e.ask(func() {
		end <- inWords("finalize", C.gtmpi_finalize())
		e.over = true
	})
	return end
}

// inWords is the error of a code of the library.
func inWords(operation string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("transport/mpi: %s: %w", operation, codeError(code))
}

func codeError(code C.int) error {
	if code == 0 {
		return nil
	}
	var text [512]C.char
	C.gtmpi_error(code, &text[0], C.size_t(len(text)))
	return errors.New(C.GoString(&text[0]))
}

// memory is C's.
type memory struct {
	at   unsafe.Pointer
	size int
}

func allocate(size int) memory {
	return memory{C.malloc(C.size_t(max(size, 1))), size} // which ends the process where there is none
}

func (m memory) free() { C.free(m.at) }

func (m memory) bytes() []byte { return unsafe.Slice((*byte)(m.at), m.size) }

// put sets the ith int.
func (m memory) put(i, v int) { unsafe.Slice((*C.int)(m.at), m.size/C.sizeof_int)[i] = C.int(v) }
