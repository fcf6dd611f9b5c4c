package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// serveEvents sends the summary of every run, and again each time that one changes, as server-sent events.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	sent := map[int]int64{}
	for {
		changed := s.wait()
		gone := map[int]bool{}
		for id := range sent {
			gone[id] = true
		}
		var out []byte
		for _, run := range s.list() {
			delete(gone, run.id)
			if version, known := sent[run.id]; known && version == run.at() {
				continue
			}
			sum := run.summary()
			sent[run.id] = sum.Version
			data, err := json.Marshal(sum)
			if err != nil {
				return
			}
			out = fmt.Appendf(out, "event: run\ndata: %s\n\n", data)
		}
		for id := range gone {
			delete(sent, id)
			out = fmt.Appendf(out, "event: gone\ndata: %d\n\n", id)
		}
		if out == nil {
			out = []byte(": alive\n\n")
		}
		_ = control.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a recorder in a test has none
		if _, err := w.Write(out); err != nil {
			return
		}
		if control.Flush() != nil || r.Method == http.MethodHead {
			return
		}
		select {
		case <-changed:
			time.Sleep(interval / 8) // the other runs that changed with it
		case <-time.After(15 * time.Second):
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}
