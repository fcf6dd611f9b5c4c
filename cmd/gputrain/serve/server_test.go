package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/listen"
)

// writeRun writes a run of n steps whose loss at step s is 5 - s/n, with a spike of 50 at step spike.
func writeRun(t *testing.T, dir string, n, spike int) {
	t.Helper()
	var b strings.Builder
	for s := 1; s <= n; s++ {
		loss := 5 - float64(s)/float64(n)
		if s == spike {
			loss = 50
		}
		fmt.Fprintf(&b, `{"step":%d,"loss":%v,"learning_rate":0.001,"grad_norm":1.5,"tokens":%d,"tokens_per_second":5000,"step_ms":20,"stage_busy":[0.9,0.6]}`+"\n", s, loss, s*100)
		if s%100 == 0 {
			fmt.Fprintf(&b, `{"step":%d,"eval_loss":%v,"eval_tokens":1000,"eval_ms":3}`+"\n", s, loss+0.125)
		}
	}
	writeFile(t, dir, metricsFile, b.String())
	writeFile(t, dir, settingsFile, fmt.Sprintf("model:\n  width: 96   # run.yaml:2\ntrain:\n  steps: %d   # default\n", 2*n))
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
}

func appendFile(t *testing.T, dir, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// open is a server of these directories, which has looked at them once.
func open(t *testing.T, dirs ...string) *Server {
	t.Helper()
	s, err := New(dirs...)
	require.NoError(t, err)
	s.hosts = listen.Hosts{Names: []string{"localhost"}}
	s.poll()
	return s
}

// get asks the server as the page does.
func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:7070"
	s.handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

type sentCurves struct {
	Low, High float64
	Series    map[string]struct{ X, Y, Bad []float64 }
}

func curves(t *testing.T, s *Server, query string) sentCurves {
	t.Helper()
	code, body := get(t, s, "/api/curves?run=0&"+query)
	require.Equal(t, 200, code, body)
	var c sentCurves
	require.NoError(t, json.Unmarshal([]byte(body), &c))
	return c
}

func TestCurvesOverAnyAxis(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, 2000, 777)
	s := open(t, dir)
	for axis, at := range map[string]float64{"step": 777, "tokens": 77700, "time": 777 * .02} {
		c := curves(t, s, "x="+axis+"&bucket=256")
		loss := c.Series["loss"]
		i := 0
		for loss.Y[i] != 50 {
			i++
		}
		assert.InDelta(t, at, loss.X[i], 1e-6, axis)
		assert.Equal(t, 11, len(c.Series))
	}
	c := curves(t, s, "from=500&to=600&bucket=1&key=eval_loss&key=loss&key=none")
	assert.Equal(t, 2, len(c.Series))
	assert.Len(t, c.Series["loss"].X, 103, "101 steps, one before and one behind")
	assert.Equal(t, []float64{400, 500, 600, 700}, c.Series["eval_loss"].X)

	for _, bad := range []string{"x=miles", "bucket=-1", "bucket=NaN", "from=x", "bucket=1e-9", "bucket=Inf"} {
		code, _ := get(t, s, "/api/curves?run=0&"+bad)
		assert.Equal(t, 400, code, bad)
	}
}

func TestResumedRunIsRewoundAndMarked(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, 100, 0)
	s := open(t, dir)
	writeFile(t, dir, sessionsFile, `{"step":0,"time":"2026-01-02T03:04:05Z"}`+"\n")
	assert.Empty(t, s.list()[0].summary().Resumes)
	first := s.list()[0].summary()

	text, err := os.ReadFile(filepath.Join(dir, metricsFile))
	require.NoError(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	// The new process has written more than there was before anybody looked again.
	grown := strings.Join(lines[:60], "")
	for step := 61; step <= 130; step++ {
		grown += fmt.Sprintf(`{"step":%d,"loss":2}`+"\n", step)
	}
	writeFile(t, dir, metricsFile, grown)
	appendFile(t, dir, sessionsFile, `{"step":60}`+"\n")
	s.poll()
	sum := s.list()[0].summary()
	assert.Equal(t, []float64{60}, sum.Resumes)
	assert.EqualValues(t, 130, sum.Step)
	assert.Greater(t, sum.Rewound, first.Version)
	c := curves(t, s, "bucket=1&key=loss")
	assert.Len(t, c.Series["loss"].X, 130)
	assert.NotContains(t, sum.Series, "eval_loss", "the evaluation of step 100 is gone")

	// Stopped and saved at the last line, and gone on before anybody looked: nothing is cut.
	appendFile(t, dir, sessionsFile, `{"step":130}`+"\n")
	appendFile(t, dir, metricsFile, `{"step":131,"loss":2}`+"\n"+`{"step":132,"loss":2}`+"\n")
	s.poll()
	assert.Equal(t, []float64{60, 130}, s.list()[0].summary().Resumes)
	// Killed, and gone on from a checkpoint of before.
	appendFile(t, dir, sessionsFile, `{"step":100}`+"\n")
	s.poll()
	assert.Equal(t, []float64{60, 100}, s.list()[0].summary().Resumes)
	assert.Equal(t, []float64{60, 100}, open(t, dir).list()[0].summary().Resumes, "also for who looks later")

	// It has ended: its line is written anew, in a file that takes the place of the one before.
	assert.Empty(t, s.list()[0].summary().Ended)
	sessions, err := os.ReadFile(filepath.Join(dir, sessionsFile))
	require.NoError(t, err)
	ended := strings.TrimSuffix(string(sessions), "}\n") + `,"ended":{"reason":"stopped early","step":132}}` + "\n"
	writeFile(t, dir, sessionsFile+".new", ended)
	require.NoError(t, os.Rename(filepath.Join(dir, sessionsFile+".new"), filepath.Join(dir, sessionsFile)))
	s.poll()
	assert.Equal(t, "stopped early", s.list()[0].summary().Ended)
	assert.Empty(t, s.list()[0].summary().Warnings)

	// Started over.
	require.NoError(t, os.Remove(filepath.Join(dir, metricsFile)))
	writeFile(t, dir, sessionsFile, `{"step":0}`+"\n")
	s.poll()
	sum = s.list()[0].summary()
	assert.Empty(t, sum.Resumes)
	assert.Empty(t, sum.Series)
}

func TestRunsComeAndGo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "later"), dir)
	assert.Zero(t, s.Runs())
	for _, name := range []string{"a", "b", ".hidden", "later"} {
		writeRun(t, filepath.Join(dir, name), 3, 0)
	}
	writeFile(t, filepath.Join(dir, "other"), "notes.txt", "no run")
	s.poll()
	assert.Equal(t, 3, s.Runs(), "a, b and later, which both arguments name")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
	s.poll()
	assert.Equal(t, 2, s.Runs())
}

func TestDamagedFilesAreSaid(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, 5, 0)
	appendFile(t, dir, metricsFile, "nonsense\n"+`{"step":6,"loss":1}`+"\n"+`{"step":2,"loss":1}`+"\n")
	writeFile(t, dir, samplesFile, `{"step":1,"prompt":"p","text":"t"}`+"\n{\n")
	s := open(t, dir)
	sum := s.list()[0].summary()
	require.Len(t, sum.Warnings, 3)
	assert.Contains(t, sum.Warnings[0], "line 6")
	assert.EqualValues(t, 6, sum.Step, "what follows is shown")
	code, body := get(t, s, "/api/samples?run=0")
	assert.Equal(t, 200, code)
	assert.JSONEq(t, `[{"step":1,"prompt":"p","text":"t"}]`, body)
	s.poll()
	assert.Len(t, s.list()[0].summary().Warnings, 3, "they stay")
}

func TestOtherFilesOfARun(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, 5, 0)
	writeFile(t, dir, reportFile, "# title\n")
	writeFile(t, filepath.Join(dir, checkpointsDir, "step-00000005"), "manifest.json", "{}")
	for step := range 300 {
		appendFile(t, dir, samplesFile, fmt.Sprintf(`{"step":%d,"prompt":"p","text":"t"}`+"\n", step))
		appendFile(t, dir, histogramsFile, fmt.Sprintf(`{"step":%d,"name":"%s","counts":[1]}`+"\n", step, []string{"a", "b"}[step%2]))
	}
	s := open(t, dir)
	_, body := get(t, s, "/api/run?run=0")
	assert.JSONEq(t, `{"settings":[{"key":"model.width","value":96,"origin":"run.yaml:2"},{"key":"train.steps","value":10,"origin":"default"}],
		"report":"# title\n","checkpoints":["step-00000005"]}`, body)
	steps := func(path string) []int {
		_, body := get(t, s, path)
		var all []struct{ Step int }
		require.NoError(t, json.Unmarshal([]byte(body), &all))
		var out []int
		for _, one := range all {
			out = append(out, one.Step)
		}
		return out
	}
	for step := range 3 {
		appendFile(t, dir, rolloutsFile, fmt.Sprintf(`{"step":%d,"prompt":"p","completions":[]}`+"\n", step+1))
	}
	s.poll()
	assert.Len(t, steps("/api/rollouts?run=0"), 3)
	samples := steps("/api/samples?run=0")
	assert.Len(t, samples, 200)
	assert.Equal(t, []int{0, 299}, []int{samples[0], samples[199]})
	_, body = get(t, s, "/api/histograms?run=0")
	assert.JSONEq(t, `["a","b"]`, body)
	histograms := steps("/api/histograms?run=0&name=b")
	assert.Equal(t, []int{1, 299}, []int{histograms[0], histograms[len(histograms)-1]})
}

// events connects to a running server and hands over the summaries that it sends.
func events(t *testing.T, url string) func() summary {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"api/events", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	assert.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	in := bufio.NewReader(answer.Body)
	return func() summary {
		for {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.HasPrefix(data, "{") {
				var s summary
				require.NoError(t, json.Unmarshal([]byte(data), &s))
				return s
			}
		}
	}
}

// UnmarshalJSON lets a test read summaries back.
func (v *value) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*float64)(v)) }

// serveTest serves directories on a free port for the time of a test.
func serveTest(t *testing.T, dirs ...string) string {
	t.Helper()
	s, err := New(dirs...)
	require.NoError(t, err)
	l, err := listen.Open(":0", "")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			assert.NoError(t, err)
		case <-time.After(10 * time.Minute):
			t.Error("the server did not end")
		}
	})
	return l.URL
}

func TestEventsFollowARun(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, 10, 0)
	next := events(t, serveTest(t, dir))
	for next().Step != 10 {
	}
	appendFile(t, dir, metricsFile, `{"step":11,"loss":1.25}`+"\n")
	sum := next()
	assert.EqualValues(t, 11, sum.Step)
	assert.EqualValues(t, 1.25, sum.Last["loss"])
	writeFile(t, dir, metricsFile, `{"step":1,"loss":3}`+"\n")
	sum = next()
	assert.EqualValues(t, 1, sum.Step)
	assert.Equal(t, sum.Version, sum.Rewound+1)
}

func TestPageComesFromTheProgram(t *testing.T) {
	s := open(t, t.TempDir())
	for path, kind := range map[string]string{"/": "text/html", "/main.js": "javascript", "/base.css": "text/css", "/icon.svg": "image/svg+xml"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "localhost"
		s.handler().ServeHTTP(w, r)
		assert.Equal(t, 200, w.Code, path)
		assert.Contains(t, w.Header().Get("Content-Type"), kind)
		body, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		for _, outside := range []string{"http://", "https://", "//cdn", "@import"} {
			assert.NotContains(t, strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", ""), outside, path)
		}
	}
}
