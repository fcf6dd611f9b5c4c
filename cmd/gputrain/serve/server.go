package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gputrain/cmd/gputrain/listen"
	"gputrain/internal/caught"
)

// interval is how often files are looked at.
const interval = 400 * time.Millisecond

// Server shows runs.
type Server struct {
	paths []string
	hosts listen.Hosts

	mu      sync.Mutex
	runs    []*run
	ids     int
	version int64
	changed chan struct{} // closed when version goes up
	done    chan struct{} // closed when Serve ends
}

// New is a server of the runs in these directories. Each is a run directory, or one that holds run directories, where new ones are found as
// they come; it need not be there yet.
func New(paths ...string) (*Server, error) {
	s := &Server{changed: make(chan struct{}), done: make(chan struct{})}
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("serve: %q: %w", p, err)
		}
		s.paths = append(s.paths, abs)
	}
	s.discover()
	return s, nil
}

// Runs is how many there are now.
func (s *Server) Runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// Serve answers requests and follows the runs until ctx ends.
func (s *Server) Serve(ctx context.Context, l *listen.Listener) error {
	s.hosts = l.Hosts
	server := http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	ended := make(chan error, 1)
	go func() { ended <- caught.Do(func() error { return server.Serve(l.Listener) }) }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		s.poll()
		select {
		case err := <-ended:
			close(s.done)
			return fmt.Errorf("serve: %w", err)
		case <-ctx.Done():
			close(s.done)
			patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			err := server.Shutdown(patience)
			if errors.Is(err, context.DeadlineExceeded) {
				err = server.Close()
			}
			<-ended
			return err
		case <-tick.C:
		}
	}
}

// poll reads what is new in all runs.
func (s *Server) poll() {
	s.discover()
	for _, r := range s.list() {
		r.poll(s.next)
	}
}

// next is a new version, and wakes those who wait for one.
func (s *Server) next() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
	return s.version
}

func (s *Server) list() []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// wait is a channel that is closed at the next change.
func (s *Server) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// discover adds the runs that have come and drops those that have gone.
func (s *Server) discover() {
	var dirs []string
	for _, p := range s.paths {
		if isRun(p) {
			dirs = append(dirs, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			continue // not there yet
		}
		for _, e := range entries {
			if dir := filepath.Join(p, e.Name()); !strings.HasPrefix(e.Name(), ".") && isRun(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	s.mu.Lock()
	gone := len(s.runs)
	s.runs = slices.DeleteFunc(s.runs, func(r *run) bool {
		_, err := os.Stat(r.dir) // a run that starts over has no metrics for a while
		return err != nil
	})
	gone -= len(s.runs)
	for _, dir := range dirs {
		if !slices.ContainsFunc(s.runs, func(r *run) bool { return r.dir == dir }) {
			s.runs = append(s.runs, newRun(s.ids, dir))
			s.ids++
		}
	}
	s.mu.Unlock()
	if gone > 0 {
		s.next()
	}
}

// guard lets through what only reads, asked for by a name of this server, and says to browsers that the page needs nothing but itself.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.hosts.Has(r.Host) {
			http.Error(w, "serve: host "+listen.Quoted(r.Host)+": not a name of this server; ask for it by its address, or start it with --host", http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "serve: method "+listen.Quoted(r.Method)+": wanted GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}
