package endpoint

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/listen"
)

// Who may not ask is told why in the form of the protocol, before anything is drawn.
func TestGuard(t *testing.T) {
	models, _, drawn := models(t, 1, 1)
	s := New(Config{Models: models, Waiting: 1, Patience: time.Minute, Slow: time.Minute, Token: "sesame-sesame-sesame"})
	s.hosts = listen.Hosts{Names: []string{"localhost"}}
	const path, json, key = "/v1/completions", "application/json", "Bearer sesame-sesame-sesame"
	ask := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(`{"model": "bytes", "prompt": "a"}`))
		r.Host = "127.0.0.1:8080"
		r.Header.Set("Content-Type", json)
		r.Header.Set("Authorization", key)
		for i := 0; i < len(headers); i += 2 {
			if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
				r.Host = headers[i+1]
			}
		}
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		assert.Equal(t, json, w.Header().Get("Content-Type"))
		assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		return w
	}
	for _, host := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:8080"} {
		assert.Equal(t, http.StatusOK, ask("POST", path, "Host", host).Code, host)
	}
	before := len(drawn.requests)
	for _, c := range []struct {
		code   int
		method string
		path   string
		header []string
		says   string
	}{
		{http.StatusMisdirectedRequest, "POST", path, []string{"Host", "evil.example:8080"}, "not a name of this server"},
		{http.StatusMisdirectedRequest, "POST", path, []string{"Host", "10.0.0.1"}, "not a name of this server"},
		{http.StatusForbidden, "POST", path, []string{"Origin", "https://evil.example"}, "pages of other sites"},
		{http.StatusForbidden, "POST", path, []string{"Sec-Fetch-Site", "cross-site"}, "pages of other sites"},
		{http.StatusUnauthorized, "POST", path, []string{"Authorization", ""}, "Authorization: Bearer"},
		{http.StatusUnauthorized, "POST", path, []string{"Authorization", "Bearer sesame-sesame-sesam"}, "Authorization: Bearer"},
		{http.StatusUnauthorized, "GET", "/v1/models", []string{"Authorization", "sesame"}, "Authorization: Bearer"},
		{http.StatusUnauthorized, "GET", "/nowhere", []string{"Authorization", "x"}, "Authorization: Bearer"},
		{http.StatusNotFound, "POST", "/v1/embeddings", nil, "there are POST /v1/chat/completions"},
		{http.StatusNotFound, "GET", "/", nil, "not here"},
		{http.StatusNotFound, "GET", "/v1/models/other", nil, "wanted one of talker, bytes"},
		{http.StatusMethodNotAllowed, "GET", path, nil, "not here"},
		{http.StatusMethodNotAllowed, "OPTIONS", path, nil, "not here"},
		{http.StatusMethodNotAllowed, "DELETE", "/v1/models/bytes", nil, "not here"},
		{http.StatusUnsupportedMediaType, "POST", path, []string{"Content-Type", "text/plain"}, "wanted application/json"},
	} {
		w := ask(c.method, c.path, c.header...)
		assert.Equal(t, c.code, w.Code, "%v", c)
		assert.Contains(t, w.Body.String(), `"error":{`)
		assert.Contains(t, w.Body.String(), c.says)
	}
	assert.Len(t, drawn.requests, before)
	assert.Equal(t, "Bearer", ask("POST", path, "Authorization", "").Header().Get("WWW-Authenticate"))
	assert.Equal(t, "POST", ask("GET", path).Header().Get("Allow"))
}

// What is no request of HTTP, or ends in the middle, is answered or left, and others are served.
func TestBrokenRequests(t *testing.T) {
	p := serving(t, 1, 1, func(c *Config) { c.Slow = 200 * time.Millisecond })
	address := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/v1/")
	for sent, want := range map[string]string{
		"GARBAGE\r\n\r\n": "400", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{": "408",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n": "400",
		"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n":                                   "400",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n":               "400",
		"POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{":                                                    "404",
		"POST //v1/../v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n":                                           "307",
	} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = io.WriteString(conn, sent)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		line, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err, sent)
		assert.Contains(t, line, want, sent)
		require.NoError(t, conn.Close())
	}
	r := p.post(t, "completions", `{"model": "bytes", "prompt": "`+strings.Repeat("a", 300_000)+`"}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, r.StatusCode)
	assert.Equal(t, codeLength, at(read(t, r), "error", "code"))
	assert.Equal(t, "a", at(p.ask(t, "completions", `{"model": "bytes", "prompt": "a"}`), "choices", 0, "text"))
}
