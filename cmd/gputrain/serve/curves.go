package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gputrain/cmd/gputrain/listen"
)

// mostBuckets bounds what one request may cost.
const mostBuckets = 20_000

// serveCurves answers run, x (step, tokens, time), from, to (of x; all by default), bucket (width in x), span (of the mean, in points) and
// key (the name of a series, any number of times; all by default).
func serveCurves(r *run, q *http.Request) ([]byte, error) {
	if r.table == nil { // found, and not yet read
		return nil, fs.ErrNotExist
	}
	query := q.URL.Query()
	axis, err := axisOf(cmp.Or(query.Get("x"), "step"))
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	low, high := r.table.ends(axis)
	v := view{from: low, to: high}
	for name, into := range map[string]*float64{"from": &v.from, "to": &v.to, "bucket": &v.bucket, "span": &v.span} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		if *into, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(*into) || math.IsInf(*into, 0) {
			return nil, fmt.Errorf("serve: %s: found %s, wanted a number", name, listen.Quoted(text))
		}
	}
	if v.bucket == 0 {
		v.bucket = max((v.to-v.from)/1000, 1e-9)
	}
	if !(v.bucket > 0) || (min(v.to, high)-max(v.from, low))/v.bucket > mostBuckets {
		return nil, fmt.Errorf("serve: bucket: found %g, wanted at most %d of them from %g to %g", v.bucket, mostBuckets, v.from, v.to)
	}
	names := r.table.names
	if keys := query["key"]; keys != nil {
		names = slices.DeleteFunc(keys, func(name string) bool { return !slices.Contains(r.table.names, name) })
	}
	out := fmt.Appendf(nil, `{"version":%d,"rewound":%d,"low":%s,"high":%s,"series":{`, r.version, r.rewound, appendNumber(nil, low, 12), appendNumber(nil, high, 12))
	for i, name := range names {
		c := r.table.draw(name, axis, v)
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, key...), ":{\"x\":"...)
		out = append(appendNumbers(out, c.x, 12), ",\"y\":"...)
		out = append(appendNumbers(out, c.y, 7), ",\"bad\":"...)
		out = append(appendNumbers(out, c.bad, 12), '}')
	}
	return append(out, "}}"...), nil
}

func appendNumbers(out []byte, values []float64, digits int) []byte {
	out = append(out, '[')
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNumber(out, v, digits)
	}
	return append(out, ']')
}

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
