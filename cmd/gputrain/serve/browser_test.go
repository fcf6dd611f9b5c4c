package serve

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium, driven over the pipe of its developer tools.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	next    int
	session string
	console []string
}

// newBrowser starts a browser, or skips the test where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		if os.Getenv("GPUTRAIN_REQUIRE_BROWSER") == "1" {
			t.Fatal("no chromium found, wanted one (apt-get install chromium)")
		}
		t.Skip("no chromium found; apt-get install chromium")
	}
	read, write, err := os.Pipe() // to the browser
	require.NoError(t, err)
	back, answer, err := os.Pipe() // from it
	require.NoError(t, err)
	profile := t.TempDir()
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{read, answer}
	require.NoError(t, cmd.Start())
	require.NoError(t, read.Close())
	require.NoError(t, answer.Close())
	b := &browser{t: t, in: write, out: bufio.NewReader(back)}
	t.Cleanup(func() {
		_, _ = fmt.Fprint(write, `{"id":1000000,"method":"Browser.close"}`+"\x00")
		killer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		_, _ = write.Close(), back.Close()
	})
	require.NoError(t, back.SetReadDeadline(time.Now().Add(20*time.Minute)))
	return b
}

// tab is a new page of the browser.
func (b *browser) tab(t *testing.T, width, height int, scheme string) *browser {
	t.Helper()
	b.t, b.session, b.console = t, "", nil
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call("Runtime.enable", nil, nil)
	b.call("Log.enable", nil, nil)
	b.call("Page.enable", nil, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	t.Cleanup(func() {
		b.session = ""
		b.call("Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil)
	})
	return b
}

// call sends a command and takes its answer; what the page logs meanwhile is kept.
func (b *browser) call(method string, params, into any) {
	b.t.Helper()
	b.next++
	message := map[string]any{"id": b.next, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	data, err := json.Marshal(message)
	require.NoError(b.t, err)
	_, err = b.in.Write(append(data, 0))
	require.NoError(b.t, err)
	for {
		data, err := b.out.ReadBytes(0)
		require.NoError(b.t, err, "browser: %s", method)
		var answer struct {
			ID     int
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		require.NoError(b.t, json.Unmarshal(data[:len(data)-1], &answer))
		switch answer.Method {
		case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
			b.console = append(b.console, answer.Method+" "+string(answer.Params))
		}
		if answer.ID != b.next {
			continue
		}
		require.Nil(b.t, answer.Error, "browser: %s", method)
		if into != nil {
			require.NoError(b.t, json.Unmarshal(answer.Result, into))
		}
		return
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
}

// eval is the value of an expression in the page, as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "awaitPromise": true, "returnByValue": true}, &out)
	require.Empty(b.t, string(out.ExceptionDetails), expression)
	return out.Result.Value.(string)
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if b.eval("Boolean("+expression+")") == "true" {
			return
		}
	}
	b.t.Fatalf("browser: not so within 5 minutes: %s\n%s\n%s", expression, b.eval("document.body.innerText"), strings.Join(b.console, "\n"))
}

// shot writes a picture of the whole page to the folder that GPUTRAIN_SCREENSHOTS names, and returns it.
func (b *browser) shot(name string) []byte {
	b.t.Helper()
	var out struct{ Data string }
	height := b.eval("document.documentElement.scrollHeight")
	width := b.eval("innerWidth")
	var w, h float64
	_, err := fmt.Sscan(width+" "+height, &w, &h)
	require.NoError(b.t, err)
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": map[string]any{"x": 0, "y": 0, "width": w, "height": h, "scale": 1}}, &out)
	data, err := base64.StdEncoding.DecodeString(out.Data)
	require.NoError(b.t, err)
	if dir := os.Getenv("GPUTRAIN_SCREENSHOTS"); dir != "" {
		require.NoError(b.t, os.MkdirAll(dir, 0o777))
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o666))
	}
	return data
}
