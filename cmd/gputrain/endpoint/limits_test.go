package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/rollout"
)

// soon is a moment that comes, unless something is broken.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, time.Minute, time.Millisecond, what)
}

// drawing tells how many completions of bytes are under way.
func (p *place) drawing() int {
	p.bytes.mu.Lock()
	defer p.bytes.mu.Unlock()
	return p.bytes.under
}

// held makes each completion of bytes wait for its end.
func (p *place) held() (release func()) {
	gate := make(chan struct{})
	p.bytes.onToken = func(ctx context.Context, n int) error {
		if n == 0 {
			return nil
		}
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return sync.OnceFunc(func() { close(gate) })
}

const long = `{"model": "bytes", "prompt": "abc", "stream": true}`

func TestBusy(t *testing.T) {
	p := serving(t, 1, 1, func(c *Config) { c.Models = c.Models[1:] })
	release := p.held()
	defer release()
	codes := make(chan int, 3)
	ask := func() {
		r, err := http.Post(p.url+"completions", "application/json", strings.NewReader(strings.Replace(long, "true", "false", 1)))
		if assert.NoError(t, err) {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			codes <- r.StatusCode
		}
	}
	go ask()
	soon(t, "it draws", func() bool { return p.drawing() == 1 })
	go ask()
	soon(t, "the next one waits", func() bool { return len(p.slots) == 2 })
	r := p.post(t, "completions", long)
	assert.Equal(t, http.StatusTooManyRequests, r.StatusCode)
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	assert.Equal(t, []any{"requests", codeBusy}, []any{at(read(t, r), "error", "type"), codeBusy})
	release()
	assert.Equal(t, []int{200, 200}, []int{<-codes, <-codes})
	p.bytes.waiting = 0 // choices of one request are callers, too
	defer p.held()()
	assert.Equal(t, http.StatusTooManyRequests, p.post(t, "completions", `{"model": "bytes", "prompt": "a", "n": 2}`).StatusCode)
	soon(t, "nothing is left", func() bool { return p.drawing() == 0 && len(p.slots) == 0 })
}

func TestPatience(t *testing.T) {
	p := serving(t, 1, 3, func(c *Config) { c.Patience = 500 * time.Millisecond })
	release := p.held()
	first := p.post(t, "completions", long) // it has its first token in time
	next := scan(first)
	assert.Contains(t, next(), `"text":"a"`)
	r := p.post(t, "completions", long)
	assert.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	assert.Contains(t, at(read(t, r), "error", "message"), "wanted one within 500ms")
	release()
	rest, err := io.ReadAll(first.Body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "[DONE]", "what has begun goes on")
}

// Who leaves gives back the row, in the middle of a stream, of a whole answer and while waiting.
func TestCancelled(t *testing.T) {
	p := serving(t, 1, 3, nil)
	defer p.held()()
	for _, body := range []string{long, strings.Replace(long, "true", "false", 1)} {
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"completions", strings.NewReader(body))
				if !assert.NoError(t, err) {
					return
				}
				r.Header.Set("Content-Type", "application/json")
				answer, err := http.DefaultClient.Do(r)
				if err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		soon(t, "one draws and two wait", func() bool { return p.drawing() == 1 && len(p.slots) == 3 })
		cancel()
		callers.Wait()
		soon(t, "nothing is left", func() bool { return p.drawing() == 0 && len(p.slots) == 0 })
	}
}

// A reader that does not read holds its row for as long as a write may take.
func TestSlowReaders(t *testing.T) {
	p := serving(t, 1, 3, func(c *Config) { c.Slow = 100 * time.Millisecond })
	p.bytes.says = func(r rollout.Request) []int32 { return slices.Repeat([]int32{'a'}, 1<<20) }
	p.Models[1].Tokens = 1 << 20
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/v1/"))
	require.NoError(t, err)
	defer conn.Close()
	const body = `{"model": "bytes", "prompt": "a", "stream": true, "max_tokens": 1000000}`
	_, err = fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	soon(t, "it draws", func() bool { return p.drawing() == 1 })
	soon(t, "its row is free", func() bool { return p.drawing() == 0 && len(p.slots) == 0 })
	p.bytes.mu.Lock()
	defer p.bytes.mu.Unlock()
	assert.Len(t, p.bytes.order, 1)
}

func TestErrors(t *testing.T) {
	p := serving(t, 1, 1, nil)
	fail := func(at int, with func() error) {
		p.bytes.onToken = func(_ context.Context, n int) error {
			if n == at {
				return with()
			}
			return nil
		}
	}
	fail(0, func() error { return errors.New("the device is lost") })
	r := p.post(t, "completions", long)
	assert.Equal(t, http.StatusInternalServerError, r.StatusCode)
	assert.Equal(t, map[string]any{"message": "the device is lost", "type": "server_error", "param": nil, "code": nil}, read(t, r)["error"])
	fail(1, func() error { return errors.New("the device is lost") })
	next := scan(p.post(t, "completions", long))
	assert.Contains(t, next(), `"text":"a"`)
	assert.Contains(t, next(), `data: {"error":{`)
	assert.Empty(t, next(), "a stream that was cut has no end")
	fail(0, func() error { panic("oh") })
	assert.Equal(t, http.StatusInternalServerError, p.post(t, "completions", long).StatusCode)
	assert.Contains(t, p.said.String(), "a bug of gputrain: oh")
	p.bytes.onToken = nil
	p.ask(t, "completions", `{"model": "bytes", "prompt": "a"}`)
}

// At its end a server lets what is under way go on for a while, and then cuts it.
func TestGrace(t *testing.T) {
	p := serving(t, 2, 1, nil)
	release := p.held()
	r := p.post(t, "completions", long)
	next := scan(r)
	next()
	p.end()
	soon(t, "nobody is let in", func() bool {
		_, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/v1/"))
		return err != nil
	})
	release()
	rest, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "[DONE]")

	p = serving(t, 2, 1, func(c *Config) { c.Grace = 50 * time.Millisecond })
	defer p.held()()
	next = scan(p.post(t, "completions", long))
	next()
	p.end()
	assert.Contains(t, next(), errEnding.Error())
}

// Of 300 callers at once every one gets its own answer, so many at once as there are rows, and nothing is left of them.
func TestManyCallers(t *testing.T) {
	const callers, rows = 300, 4
	p := serving(t, rows, callers, nil)
	p.bytes.onToken = func(context.Context, int) error {
		runtime.Gosched()
		return nil
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	round := func() {
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				want := fmt.Sprintf("%03d is the number of caller %d", i, i)
				body := fmt.Sprintf(`{"model": "bytes", "prompt": %q, "stream": %t, "max_tokens": 100, "seed": %d}`, want, i%2 == 0, i)
				r, err := client.Post(p.url+"completions", "application/json", strings.NewReader(body))
				if !assert.NoError(t, err) {
					return
				}
				defer r.Body.Close()
				raw, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.Equal(t, http.StatusOK, r.StatusCode)
				var got strings.Builder
				for part := range strings.SplitSeq(string(raw), `"text":"`) {
					if text, _, ok := strings.Cut(part, `"`); ok && !strings.HasPrefix(part, "data") && !strings.HasPrefix(part, "{") {
						got.WriteString(text)
					}
				}
				assert.Equal(t, want, got.String())
			})
		}
		all.Wait()
		soon(t, "nothing is left", func() bool { return p.drawing() == 0 && len(p.slots) == 0 })
	}
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.bytes.requests, p.bytes.order = nil, nil
		return m.HeapAlloc
	}
	round()
	before := live()
	for range 3 {
		round()
	}
	assert.Equal(t, rows, p.bytes.most)
	seen := slices.Compact(slices.Sorted(slices.Values(p.bytes.order[len(p.bytes.order)-callers:])))
	assert.Len(t, seen, callers, "each once")
	assert.Less(t, live(), before+8<<20)
}
