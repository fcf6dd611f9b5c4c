package serve

import (
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
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
	mux.HandleFunc("/api/run", s.of(serveRun))
	mux.HandleFunc("/api/samples", s.of(serveSamples))
	mux.HandleFunc("/api/histograms", s.of(serveHistograms))
	return s.guard(mux)
}

// of finds the run that a request names and writes what is answered as JSON.
func (s *Server) of(answer func(*run, *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.URL.Query().Get("run"))
		found := s.find(id)
		if err != nil || found == nil {
			http.Error(w, "serve: run "+quoted(r.URL.Query().Get("run"))+": not there", http.StatusNotFound)
			return
		}
		found.mu.Lock()
		out, err := answer(found, r)
		found.mu.Unlock()
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
func serveRun(r *run, _ *http.Request) ([]byte, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out := struct {
		Settings    []setting `json:"settings"`
		Report      string    `json:"report"`
		Checkpoints []string  `json:"checkpoints"`
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
func serveSamples(r *run, _ *http.Request) ([]byte, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return r.samples.read(root, 200, func(item) bool { return true })
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
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return r.histograms.read(root, 28, func(i item) bool { return i.name == name })
}
