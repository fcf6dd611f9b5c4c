package serve

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"gputrain/cmd/gputrain/follow"
	"gputrain/cmd/gputrain/listen"
	"gputrain/internal/stranger"
	"gputrain/run/runfile"
)

//go:embed page
var pageFiles embed.FS

func (s *Server) handler() http.Handler {
	page, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // embedded
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page))
	mux.HandleFunc("/api/runs", s.serveRuns)
	mux.HandleFunc("/api/events", s.serveEvents)
	mux.HandleFunc("/api/curves", s.of(serveCurves))
	mux.HandleFunc("/api/run", s.of(inDir(serveRun)))
	mux.HandleFunc("/api/samples", s.of(inDir(serveSamples)))
	mux.HandleFunc("/api/rollouts", s.of(inDir(serveRollouts)))
	mux.HandleFunc("/api/histograms", s.of(serveHistograms))
	return s.guard(mux)
}

// inDir answers from files in the directory of a run.
func inDir(answer func(*run, *os.Root, *http.Request) ([]byte, error)) func(*run, *http.Request) ([]byte, error) {
	return func(r *run, q *http.Request) ([]byte, error) {
		root, err := os.OpenRoot(r.dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return answer(r, root, q)
	}
}

// of finds the run that a request names and writes what is answered as JSON.
func (s *Server) of(answer func(*run, *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.URL.Query().Get("run"))
		runs := s.list()
		i := slices.IndexFunc(runs, func(r *run) bool { return r.id == id })
		if err != nil || i < 0 {
			http.Error(w, "serve: run "+listen.Quoted(r.URL.Query().Get("run"))+": not there", http.StatusNotFound)
			return
		}
		runs[i].mu.Lock()
		out, err := answer(runs[i], r)
		runs[i].mu.Unlock()
		if err != nil {
			code := http.StatusBadRequest
			if errors.Is(err, fs.ErrNotExist) {
				code = http.StatusNotFound
			}
			http.Error(w, err.Error(), code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out) // the reader may have gone
	}
}

func (s *Server) serveRuns(w http.ResponseWriter, _ *http.Request) {
	all := []summary{}
	for _, r := range s.list() {
		all = append(all, r.summary())
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // the reader may have gone
}

// serveRun answers the settings with their origins, the report and the names of the checkpoints.
func serveRun(r *run, root *os.Root, _ *http.Request) ([]byte, error) {
	out := struct {
		Settings    []runfile.Recorded `json:"settings"`
		Report      string             `json:"report"`
		Checkpoints []string           `json:"checkpoints"`
	}{Settings: r.settings, Checkpoints: []string{}}
	report, err := readSmall(root, reportFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out.Report = string(report)
	entries, err := fs.ReadDir(root.FS(), checkpointsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && !strings.Contains(e.Name(), "tmp") {
			out.Checkpoints = append(out.Checkpoints, e.Name())
		}
	}
	return json.Marshal(out)
}

// serveSamples answers samples, the first, the last and others between.
func serveSamples(r *run, root *os.Root, _ *http.Request) ([]byte, error) {
	return r.samples.read(root, 200, func(item) bool { return true })
}

// serveRollouts answers prompts with their completions, likewise.
func serveRollouts(r *run, root *os.Root, _ *http.Request) ([]byte, error) {
	return r.rollouts.read(root, 100, func(item) bool { return true })
}

// serveHistograms answers the names that there are, or with name= the histograms of that name over steps.
func serveHistograms(r *run, q *http.Request) ([]byte, error) {
	name := q.URL.Query().Get("name")
	if name == "" {
		names, seen := []string{}, map[string]bool{}
		for _, i := range r.histograms.items {
			if !seen[i.name] {
				names, seen[i.name] = append(names, i.name), true
			}
		}
		return json.Marshal(names)
	}
	return inDir(func(r *run, root *os.Root, _ *http.Request) ([]byte, error) {
		return r.histograms.read(root, 28, func(i item) bool { return i.name == name })
	})(r, q)
}

// readSmall reads a file that people read.
func readSmall(root *os.Root, name string) ([]byte, error) {
	const most = 4 << 20
	file, err := stranger.OpenIn(root, name)
	if err != nil {
		return nil, fmt.Errorf("serve: open: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("found more than %d bytes", most)
	}
	if err != nil {
		return nil, fmt.Errorf("serve: read %q: %w", name, err)
	}
	return text, nil
}

// list is a file of JSON objects, one a line, of which only places and steps are remembered: samples, histograms, sessions.
type list struct {
	lines follow.Lines
	items []item
}

// item is where a line stands and what it is chosen by.
type item struct {
	from, to int64
	step     int64
	name     string // of a histogram
	ended    string // how a process has
}

// poll says whether anything came or went.
func (l *list) poll(root *os.Root) (changed bool, err error) {
	var first error
	err = l.lines.Poll(root, func() {
		l.items, changed = nil, true
	}, func(line []byte, offset int64) {
		var head struct {
			Step int64  `json:"step"`
			Name string `json:"name"`

			Ended struct {
				Reason string `json:"reason"`
			} `json:"ended"`
		}
		if err := json.Unmarshal(line, &head); err != nil && first == nil {
			first = fmt.Errorf("%s: line %d: %w", l.lines.Name, len(l.items)+1, err)
		}
		l.items, changed = append(l.items, item{offset, offset + int64(len(line)), head.Step, head.Name, head.Ended.Reason}), true
	})
	if err == nil {
		err = first
	}
	return changed, err
}

// read writes those items that take wants, at most so many evenly spread with the first and the last, as a JSON array.
func (l *list) read(root *os.Root, most int, want func(item) bool) ([]byte, error) {
	var chosen []item
	for _, i := range l.items {
		if want(i) {
			chosen = append(chosen, i)
		}
	}
	out := []byte{'['}
	for k, n := 0, min(most, len(chosen)); k < n; k++ {
		i := chosen[len(chosen)-1]
		if n > 1 {
			i = chosen[k*(len(chosen)-1)/(n-1)]
		}
		line, err := follow.At(root, l.lines.Name, i.from, i.to)
		if err != nil {
			return nil, err
		}
		if !json.Valid(line) { // cut back since it was found
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, bytes.TrimSpace(line)...)
	}
	return append(out, ']'), nil
}
