package endpoint

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"gputrain/cmd/gputrain/listen"
	"gputrain/internal/caught"
	"gputrain/run/rollout"
	"gputrain/run/train"
	"gputrain/text/chat"
)

// A Completer draws completions of prompts for several callers at once: a rollout.Service.
type Completer interface {
	Complete(ctx context.Context, r rollout.Request, each func(rollout.Token) error) (rollout.Completion, error)
}

// A Model answers by its name.
type Model struct {
	Name      string
	Since     time.Time
	Completer Completer
	Rows      int // completions that it draws at once
	Window    int // tokens that it sees at most
	Tokens    int // of an answer, at most
	Vocab     int

	Text   train.Tokenizer
	Chat   *chat.Encoder // nil: it has no chat template
	NoChat error         // why

	Draw rollout.Request                                       // how text is drawn where a request does not say; the first request without a seed has this one, each later one the next
	Ends func(stop []string) func(tokens []int32) (ended bool) // as of rollout.Request, for stop texts
}

// Config says what a server bounds.
type Config struct {
	Models   []*Model
	Token    string        // that a request has to have; "": none
	Waiting  int           // requests that wait while others are drawn, at most
	Patience time.Duration // until the first token of a request
	Slow     time.Duration // for each read of a body, and each write
	Grace    time.Duration // for what is drawn when the server ends
	Say      func(format string, args ...any)
}

// Server answers for models.
type Server struct {
	Config
	hosts    listen.Hosts
	slots    chan struct{} // of requests under way
	unseeded atomic.Uint64
}

// New is a server of models, of which no two have the same name.
func New(c Config) *Server {
	slots := c.Waiting
	for _, m := range c.Models {
		slots += m.Rows
	}
	return &Server{Config: c, slots: make(chan struct{}, slots)}
}

// Serve answers until ctx ends, and then ends what is under way, at the latest after the grace.
func (s *Server) Serve(ctx context.Context, l *listen.Listener) error {
	s.hosts = l.Hosts
	under, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	server := http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return under }, ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- caught.Do(func() error { return server.Serve(l.Listener) }) }()
	select {
	case err := <-ended:
		return fmt.Errorf("endpoint: %w", err)
	case <-ctx.Done():
	}
	if n := len(s.slots); n > 0 {
		s.Say("gputrain: endpoint: ending: %d requests under way have %v\n", n, s.Grace)
	}
	hurry := time.AfterFunc(s.Grace, func() { cut(errEnding) })
	defer hurry.Stop()
	last, cancel := context.WithTimeout(under, s.Grace+time.Second)
	defer cancel()
	err := server.Shutdown(context.WithoutCancel(last))
	<-ended
	return err
}

// handler answers requests.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, f := range []*form{chatForm, textForm} {
		mux.HandleFunc("POST "+f.path, func(w http.ResponseWriter, r *http.Request) { s.ask(w, r, f) })
	}
	mux.HandleFunc("GET /v1/models", s.list)
	mux.HandleFunc("GET /v1/models/{name}", func(w http.ResponseWriter, r *http.Request) {
		if m, p := s.named(r.PathValue("name")); p != nil {
			p.answer(w)
		} else {
			writeJSON(w, http.StatusOK, m.object())
		}
	})
	return s.guard(mux)
}

// guard lets through who may ask.
func (s *Server) guard(mux *http.ServeMux) http.Handler {
	pages := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &timed{w, http.NewResponseController(w), s.Slow}
		if r.ContentLength != 0 { // a body is on its way, for which an answer does not wait: body takes this back
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.Slow))
			w.Header().Set("Connection", "close")
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		err := caught.Do(func() error {
			if p := s.refused(pages, mux, r); p != nil {
				p.answer(w)
				return nil
			}
			mux.ServeHTTP(w, r)
			return nil
		})
		if err != nil {
			s.problemOf(err).answer(w)
		}
	})
}

// refused is why a request is not looked at.
func (s *Server) refused(pages *http.CrossOriginProtection, mux *http.ServeMux, r *http.Request) *problem {
	if !s.hosts.Has(r.Host) {
		return &problem{status: http.StatusMisdirectedRequest, why: "host " + listen.Quoted(r.Host) + ": not a name of this server; ask for it by its address, or start it with --host"}
	}
	if err := pages.Check(r); err != nil {
		return &problem{status: http.StatusForbidden, why: "origin " + listen.Quoted(r.Header.Get("Origin")) + ": pages of other sites may not ask"}
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	found, wanted := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(s.Token))
	if s.Token != "" && subtle.ConstantTimeCompare(found[:], wanted[:]) == 0 {
		return &problem{status: http.StatusUnauthorized, code: codeKey, why: "found no token or another one, wanted the endpoint's: Authorization: Bearer TOKEN", header: "WWW-Authenticate", value: "Bearer"}
	}
	if _, pattern := mux.Handler(r); pattern != "" {
		return nil
	}
	p := &problem{status: http.StatusNotFound}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "" {
			p.status, p.header, p.value = http.StatusMethodNotAllowed, "Allow", method
		}
	}
	p.why = fmt.Sprintf("%s %s: not here; there are POST %s, POST %s and GET /v1/models", listen.Quoted(r.Method), listen.Quoted(r.URL.Path), chatForm.path, textForm.path)
	return p
}

// timed gives each write so much time.
type timed struct {
	http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration
}

func (t *timed) Write(raw []byte) (int, error) {
	t.deadline()
	return t.ResponseWriter.Write(raw)
}

// FlushError is for http.ResponseController.
func (t *timed) FlushError() error {
	t.deadline()
	return t.control.Flush()
}

// Unwrap is for http.ResponseController.
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *timed) deadline() { _ = t.control.SetWriteDeadline(time.Now().Add(t.slow)) } // what records answers for tests has none

// list answers the models.
func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	all := []any{}
	for _, m := range s.Models {
		all = append(all, m.object())
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": all})
}

func (m *Model) object() any {
	return map[string]any{"id": m.Name, "object": "model", "created": m.Since.Unix(), "owned_by": "gputrain"}
}

// ask reads a request and answers it.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, f *form) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		busy(s.Waiting).answer(w)
		return
	}
	raw, p := s.body(w, r)
	var a *asked
	if p == nil {
		a, p = s.read(f, raw)
	}
	if p != nil {
		p.answer(w)
		return
	}
	s.answer(w, r, a)
}

// Bounds of a body: what is there for a prompt that fills a window, whose characters may all be written as \u0000, and for the rest.
const bodyBytes, tokenBytes = 64 << 10, 32

func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &problem{status: http.StatusUnsupportedMediaType, why: "Content-Type: found " + listen.Quoted(r.Header.Get("Content-Type")) + ", wanted application/json"}
	}
	window := 0
	for _, m := range s.Models {
		window = max(window, m.Window)
	}
	most := int64(bodyBytes + tokenBytes*window)
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &problem{
			status: http.StatusRequestEntityTooLarge, code: codeLength,
			why: fmt.Sprintf("the body: found more than %d bytes, wanted fewer: the window is of %d tokens", most, window),
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &problem{status: http.StatusRequestTimeout, why: fmt.Sprintf("the body: found no end after %v, wanted it sooner", s.Slow)}
	case err != nil:
		return nil, &problem{status: http.StatusBadRequest, why: "the body: " + err.Error()}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // from here on it waits for the caller to leave
	w.Header().Del("Connection")
	return raw, nil
}
