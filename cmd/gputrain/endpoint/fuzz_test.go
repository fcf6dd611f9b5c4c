package endpoint

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/listen"
)

// Whatever a body is, it is answered in the form of the protocol: what was asked for, or what is wrong with it and no bug.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"model": "talker", ` + hello + `}`, `{"model": "talker", "stream": true, "stream_options": {"include_usage": true}, "n": 2, "logprobs": true, "top_logprobs": 3, ` + hello + `}`,
		`{"model": "bytes", "prompt": "one two", "stop": ["two", "\u00e9"], "logprobs": 2, "temperature": 0.5, "top_p": 0, "seed": -1, "max_tokens": 9}`,
		`{"model": "bytes", "prompt": [[1, 2], [3]], "stream": true}`, `{"model": "talker", "messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]}`,
		`{"model": "talker", "chat_template_kwargs": {"loud": 1}, "messages": [{"role": "user", "content": null}]}`, `[]`, `{"model"`, `{"model": "bytes", "prompt": "a", "logit_bias": {"1": 2}}`,
	} {
		f.Add("chat/completions", body)
		f.Add("completions", body)
	}
	models, talker, bytes := models(f, 2, 200)
	s := New(Config{Models: models, Waiting: 200, Patience: time.Minute, Slow: time.Minute, Grace: time.Minute, Say: func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }})
	s.hosts = listen.Hosts{Names: []string{"localhost"}}
	handler := s.handler()
	f.Fuzz(func(t *testing.T, path, body string) {
		if path != "chat/completions" && path != "completions" {
			t.Skip()
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/"+path, strings.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Less(t, w.Code, http.StatusInternalServerError, "%s", w.Body)
		require.True(t, utf8.Valid(w.Body.Bytes()))
		if w.Header().Get("Content-Type") == "text/event-stream" {
			all, done := strings.CutSuffix(w.Body.String(), "data: [DONE]\n\n")
			require.True(t, done)
			for event := range strings.SplitSeq(strings.TrimSuffix(all, "\n\n"), "\n\n") {
				require.True(t, json.Valid([]byte(strings.TrimPrefix(event, "data: "))), event)
			}
		} else {
			var o map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &o), "%s", w.Body)
			_, wrong := o["error"]
			require.Equal(t, w.Code != http.StatusOK, wrong)
		}
		require.Empty(t, s.slots)
		talker.requests, bytes.requests, talker.order, bytes.order = nil, nil, nil, nil
	})
}
