package serve

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
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

func ask(s *Server, method, host, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // events have no end
	defer cancel()
	r := httptest.NewRequest(method, path, nil).WithContext(ctx)
	r.Host = host
	s.handler().ServeHTTP(w, r)
	return w
}

func TestOnlyReading(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, 5, 0)
	s := open(t, dir)
	paths := []string{"/", "/main.js", "/api/runs", "/api/events", "/api/curves?run=0", "/api/run?run=0", "/api/samples?run=0", "/api/rollouts?run=0", "/api/histograms?run=0"}
	for _, path := range paths {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"} {
			w := ask(s, method, "127.0.0.1:7070", path)
			assert.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
			assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		w := ask(s, "HEAD", "127.0.0.1:7070", path)
		assert.Equal(t, 200, w.Code, path)
		assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
		assert.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe")
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
	}
}

func TestHostsThatAreNotOurs(t *testing.T) {
	s := open(t, t.TempDir())
	for host, code := range map[string]int{
		"127.0.0.1:7070": 200, "localhost:7070": 200, "LOCALHOST": 200, "[::1]:7070": 200, "[::1]": 200, "127.0.0.1": 200,
		"evil.example:7070": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:7070": 421, "": 421, "10.0.0.1:7070": 421, "[::2]": 421, "gpu-box": 421,
	} {
		assert.Equal(t, code, ask(s, "GET", host, "/api/runs").Code, host)
	}
	s.hosts = listen.Hosts{Names: []string{"localhost", "gpu-box"}, Outside: true}
	for host, code := range map[string]int{"10.0.0.1:7070": 200, "[2001:db8::1]:7070": 200, "gpu-box:7070": 200, "evil.example": 421} {
		assert.Equal(t, code, ask(s, "GET", host, "/api/runs").Code, host)
	}
}

// TestNothingOutsideTheRun asks in every way for a file beside the run directory.
func TestNothingOutsideTheRun(t *testing.T) {
	const secret = "the secret of the folder beside"
	base := t.TempDir()
	dir := filepath.Join(base, "run")
	writeRun(t, dir, 5, 0)
	writeFile(t, base, "secret.txt", secret)
	writeFile(t, base, metricsFile, `{"step":1,"loss":1}`+"\n")
	writeFile(t, dir, "private.txt", secret)
	url := serveTest(t, dir)
	next := events(t, url)
	for next().Step != 5 {
	}
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	for _, path := range []string{
		"/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/run/private.txt", "/private.txt", "/api/../../secret.txt", "//etc/passwd", "/api/run?run=../secret.txt",
		"/api/run?run=0/../..", "/api/run?run=1", "/api/run?run=-1", "/api/run?run=0", "/api/samples?run=0", "/api/rollouts?run=0", "/api/histograms?run=0&name=../secret.txt",
		"/api/samples?run=0&file=../secret.txt", "/api/", "/page/", "/.lock", "http://" + address + "/../secret.txt", "/\\..\\secret.txt", "/api/curves?run=0&key=../secret.txt",
	} {
		// By hand: a client of the library would tidy the path.
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, address)
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, path)
		body := new(strings.Builder)
		_, err = bufio.NewReader(answer.Body).WriteTo(body)
		require.NoError(t, err)
		assert.NotContains(t, body.String(), secret, path)
		assert.NotContains(t, body.String(), "root:", path)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, conn.Close())
	}
}

// TestLinksOutOfTheRun puts one link at a time in the place of something that is shown.
func TestLinksOutOfTheRun(t *testing.T) {
	outside := t.TempDir()
	writeFile(t, outside, "file", `{"step":1,"name":"secret","text":"secret"}`+"\n")
	writeFile(t, filepath.Join(outside, "folder", "secret"), "file", "")
	for name, to := range map[string]string{
		reportFile: "file", settingsFile: "file", samplesFile: "file", rolloutsFile: "file", histogramsFile: "file", checkpointsDir: "folder",
	} {
		dir := t.TempDir()
		writeFile(t, dir, metricsFile, `{"step":1,"loss":1}`+"\n")
		require.NoError(t, os.Symlink(filepath.Join(outside, to), filepath.Join(dir, name)))
		s := open(t, dir)
		for _, path := range []string{"run?run=0", "samples?run=0", "rollouts?run=0", "histograms?run=0", "histograms?run=0&name=secret", "runs"} {
			_, body := get(t, s, "/api/"+path)
			assert.NotContains(t, body, "secret", "%s: %s", name, path)
		}
	}
}

func TestNothingIsWritten(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, 5, 0)
	tree := func() string {
		var b strings.Builder
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := e.Info()
			require.NoError(t, err)
			fmt.Fprintln(&b, path, info.Size(), info.Mode(), info.ModTime())
			return nil
		}))
		return b.String()
	}
	before := tree()
	s := open(t, dir)
	for _, path := range []string{"/", "/api/runs", "/api/curves?run=0", "/api/run?run=0", "/api/samples?run=0", "/api/rollouts?run=0", "/api/histograms?run=0"} {
		get(t, s, path)
		s.poll()
	}
	assert.Equal(t, before, tree())
}
