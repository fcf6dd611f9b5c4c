package endpoint

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/listen"
	"gputrain/hub"
	"gputrain/run/data"
	"gputrain/run/rollout"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

const jinja = `{% for m in messages %}{% if m.role == 'system' and 'no' in m.content %}{{ raise_exception('no system') }}{% endif %}` +
	`{{ '<|im_start|>' + m.role + ':' + m.content + '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}` +
	`{% if loud %}!{% endif %}`

// scripted draws what it is told to, for as many callers at once as it has rows.
type scripted struct {
	says    func(r rollout.Request) []int32
	onToken func(ctx context.Context, n int) error // before each
	rows    chan struct{}
	waiting int

	mu                sync.Mutex
	open, under, most int
	order             []uint64 // seeds, as they began
	requests          []rollout.Request
}

func (s *scripted) count(under int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under += under
	s.most = max(s.most, s.under)
}

func (s *scripted) enter(r rollout.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= cap(s.rows)+s.waiting {
		return rollout.ErrBusy
	}
	s.open++
	s.requests = append(s.requests, r)
	return nil
}

func (s *scripted) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

func (s *scripted) Complete(ctx context.Context, r rollout.Request, each func(rollout.Token) error) (c rollout.Completion, err error) {
	if err := s.enter(r); err != nil {
		return c, err
	}
	defer s.leave()
	select {
	case s.rows <- struct{}{}:
		defer func() { <-s.rows }()
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
	s.count(1)
	defer s.count(-1)
	s.mu.Lock()
	s.order = append(s.order, r.Seed)
	s.mu.Unlock()
	for i, id := range s.says(r) {
		if s.onToken != nil {
			if err := s.onToken(ctx, i); err != nil {
				return c, err
			}
		}
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		c.Tokens = append(c.Tokens, id)
		t := rollout.Token{ID: id, LogProb: -.5}
		for k := range r.Top {
			t.Top = append(t.Top, rollout.Likely{ID: id + int32(k), LogProb: -.5 - float32(k)})
		}
		if err := each(t); err != nil {
			return c, err
		}
		if slices.Contains(r.Stop, id) || r.Ends != nil && r.Ends(c.Tokens) {
			return c, nil
		}
		if len(c.Tokens) == r.Tokens {
			break
		}
	}
	c.Truncated = true
	return c, nil
}

// place is a server on loopback of two models: "talker" has a tokenizer and a chat template, "bytes" reads bytes and says its prompt again, and ends with a 0.
type place struct {
	*Server
	url           string
	talker, bytes *scripted
	end           context.CancelFunc
	ended         chan error
	said          strings.Builder
}

var opened = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	return setup.OpenTokenizer("../../../text/tokenizer/testdata/qwen2")
})

func models(t testing.TB, rows, waiting int) (_ []*Model, talker, bytes *scripted) {
	t.Helper()
	tok, err := opened()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(jinja), 0o666))
	of, err := chat.OpenTemplate(hub.Open(dir), "")
	require.NoError(t, err)
	encoder, err := chat.NewEncoder(tok, of, chat.Options{Now: time.Unix(0, 0)})
	require.NoError(t, err)
	text := setup.NewTokenizer(tok)
	said, err := tok.Encode("Grüß dich 👍, you.<|im_end|>", tokenizer.Options{})
	require.NoError(t, err)
	talker = &scripted{rows: make(chan struct{}, rows), waiting: waiting, says: func(rollout.Request) []int32 { return said }}
	bytes = &scripted{rows: make(chan struct{}, rows), waiting: waiting, says: func(r rollout.Request) []int32 { return append(slices.Clone(r.Prompt), 0) }}
	ends := func(t train.Tokenizer) func(stop []string) func(tokens []int32) bool {
		return func(stop []string) func(tokens []int32) bool { return setup.EndsWith(stop, t) }
	}
	return []*Model{
		{Name: "talker", Completer: talker, Rows: rows, Window: 64, Tokens: 64, Vocab: tok.VocabSize(), Text: text, Chat: encoder, Draw: rollout.Request{Temperature: .8, TopK: 40, Seed: 42}, Ends: ends(text)},
		{Name: "bytes", Completer: bytes, Rows: rows, Window: 4096, Tokens: 4096, Vocab: 256, Text: train.Bytes, NoChat: errors.New("no template"), Draw: rollout.Request{Temperature: .8, Seed: 42, Stop: []int32{0}}, Ends: ends(train.Bytes)},
	}, talker, bytes
}

// serving is a place with changed bounds.
func serving(t *testing.T, rows, waiting int, change func(c *Config)) *place {
	t.Helper()
	p := &place{ended: make(chan error, 1)}
	c := Config{Waiting: waiting, Patience: time.Minute, Slow: time.Minute, Grace: time.Minute, Say: func(format string, args ...any) { fmt.Fprintf(&p.said, format, args...) }}
	c.Models, p.talker, p.bytes = models(t, rows, waiting)
	if change != nil {
		change(&c)
	}
	p.Server = New(c)
	l, err := listen.Open(":0", "")
	require.NoError(t, err)
	p.url = l.URL + "v1/"
	var ctx context.Context
	ctx, p.end = context.WithCancel(t.Context())
	go func() { p.ended <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		p.end()
		select {
		case err := <-p.ended:
			assert.NoError(t, err)
		case <-time.After(time.Minute):
			t.Error("the server did not end")
		}
	})
	return p
}

func (p *place) post(t testing.TB, path, body string) *http.Response {
	t.Helper()
	r, err := http.Post(p.url+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	t.Cleanup(func() { r.Body.Close() })
	return r
}

func read(t testing.TB, r *http.Response) map[string]any {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	var o map[string]any
	require.NoError(t, json.Unmarshal(raw, &o), "%s", raw)
	return o
}

// ask is an answer that must come.
func (p *place) ask(t testing.TB, path, body string) map[string]any {
	t.Helper()
	r := p.post(t, path, body)
	o := read(t, r)
	require.Equal(t, http.StatusOK, r.StatusCode, o)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	return o
}

// events are those of a stream, which ends as it must.
func (p *place) events(t testing.TB, path, body string) (all []map[string]any) {
	t.Helper()
	r := p.post(t, path, body)
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	events := strings.Split(string(raw), "\n\n")
	require.Equal(t, []string{"data: [DONE]", ""}, events[len(events)-2:])
	for _, e := range events[:len(events)-2] {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &o), e)
		all = append(all, o)
	}
	return all
}

// at is what is there in an object: names of members, and indices.
func at(o any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			of, _ := o.(map[string]any)
			o = of[step]
		case int:
			of, _ := o.([]any)
			if step >= len(of) {
				return nil
			}
			o = of[step]
		}
	}
	return o
}

const hello = `"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]`

func TestChat(t *testing.T) {
	p := serving(t, 2, 2, nil)
	o := p.ask(t, "chat/completions", `{"model": "talker", `+hello+`}`)
	assert.Equal(t, "chat.completion", o["object"])
	assert.Equal(t, "talker", o["model"])
	assert.Regexp(t, "^chatcmpl-[a-z0-9]{20,}$", o["id"])
	assert.InDelta(t, time.Now().Unix(), o["created"], 100)
	assert.Equal(t, []any{map[string]any{
		"index": 0., "finish_reason": "stop", "logprobs": nil, "message": map[string]any{"role": "assistant", "content": "Grüß dich 👍, you.", "refusal": nil},
	}}, o["choices"])
	r := p.talker.requests[0]
	tok, err := opened()
	require.NoError(t, err)
	prompt, err := tok.Decode(r.Prompt, false)
	require.NoError(t, err)
	assert.Equal(t, "<|im_start|>system:Be brief.<|im_end|><|im_start|>user:Hi<|im_end|><|im_start|>assistant:", prompt)
	said := p.talker.says(r)
	assert.Equal(t, map[string]any{"prompt_tokens": float64(len(r.Prompt)), "completion_tokens": float64(len(said)), "total_tokens": float64(len(r.Prompt) + len(said))}, o["usage"])
	assert.Equal(t, said[len(said)-1:], slices.Compact(r.Stop)[:1], "the template's end")
	assert.Equal(t, []any{.8, 40, 64, uint64(42)}, []any{r.Temperature, r.TopK, r.Tokens, r.Seed}, "what the model has where the request says nothing")
}

// A stream has the text of the whole answer, in whole characters: its role first, then texts, the reason, the usage.
func TestStreams(t *testing.T) {
	p := serving(t, 2, 2, nil)
	all := p.events(t, "chat/completions", `{"model": "talker", "stream": true, "stream_options": {"include_usage": true}, `+hello+`}`)
	assert.Equal(t, map[string]any{"role": "assistant", "content": ""}, at(all[0], "choices", 0, "delta"))
	text, last := "", len(all)-1
	for i, o := range all {
		assert.Equal(t, "chat.completion.chunk", o["object"])
		assert.Equal(t, all[0]["id"], o["id"])
		if i == last {
			assert.Equal(t, []any{}, o["choices"])
			assert.Equal(t, at(o, "usage", "total_tokens"), at(o, "usage", "prompt_tokens").(float64)+at(o, "usage", "completion_tokens").(float64))
			continue
		}
		usage, there := o["usage"]
		assert.True(t, there)
		assert.Nil(t, usage)
		more, _ := at(o, "choices", 0, "delta", "content").(string)
		assert.NotContains(t, more, "\uFFFD")
		text += more
		assert.Equal(t, i == last-1, at(o, "choices", 0, "finish_reason") == "stop")
	}
	assert.Equal(t, "Grüß dich 👍, you.", text)
	assert.Equal(t, map[string]any{}, at(all[last-1], "choices", 0, "delta"))

	all = p.events(t, "completions", `{"model": "bytes", "stream": true, "prompt": "né 👍"}`)
	var texts []any
	for _, o := range all {
		texts = append(texts, at(o, "choices", 0, "text"))
		assert.NotContains(t, o, "usage")
	}
	assert.Equal(t, []any{"n", "é", " ", "👍", ""}, texts, "a byte is not told before its character is whole")
	assert.Equal(t, []any{"a\uFFFD", "stop"}, []any{
		at(p.ask(t, "completions", `{"model": "bytes", "prompt": [97, 195]}`), "choices", 0, "text"), at(p.ask(t, "completions", `{"model": "bytes", "prompt": "x"}`), "choices", 0, "finish_reason"),
	}, "what never becomes a character is told at the end")
	o := p.ask(t, "chat/completions", `{"model": "talker", "max_tokens": 3, `+hello+`}`)
	assert.Equal(t, []any{"Gr\uFFFD", "length"}, []any{at(o, "choices", 0, "message", "content"), at(o, "choices", 0, "finish_reason")})
}

func TestStops(t *testing.T) {
	p := serving(t, 2, 2, nil)
	for _, c := range []struct {
		body, text, why string
		tokens          float64
	}{
		{`"prompt": "one two three", "stop": "two"`, "one ", "stop", 7},
		{`"prompt": "one two three", "stop": ["three", "e t"]`, "on", "stop", 5},
		{`"prompt": "one tw", "stop": ["two", "twelve"]`, "one tw", "stop", 7}, // held back, and told at the end
		{`"prompt": "né né", "stop": "né"`, "", "stop", 3},
		{`"prompt": "one two three", "max_tokens": 7`, "one two", "length", 7},
		{`"prompt": "one two three", "max_tokens": 7, "stop": "two"`, "one ", "stop", 7},
		{`"prompt": "one two three", "max_tokens": 6, "stop": "two"`, "one tw", "length", 6},
		{`"prompt": "sixteen tokens and no more"`, "sixteen tokens a", "length", 16}, // as OpenAI's
	} {
		o := p.ask(t, "completions", `{"model": "bytes", `+c.body+`}`)
		assert.Equal(t, []any{c.text, c.why, c.tokens}, []any{at(o, "choices", 0, "text"), at(o, "choices", 0, "finish_reason"), at(o, "usage", "completion_tokens")}, c.body)
		text, why := "", any(nil)
		for _, e := range p.events(t, "completions", `{"model": "bytes", "stream": true, `+c.body+`}`) {
			text += at(e, "choices", 0, "text").(string)
			why = at(e, "choices", 0, "finish_reason")
		}
		assert.Equal(t, []any{c.text, c.why}, []any{text, why}, "a stream of %s", c.body)
	}
	o := p.ask(t, "chat/completions", `{"model": "talker", "stop": " 👍", "max_completion_tokens": 50, `+hello+`}`)
	assert.Equal(t, []any{"Grüß dich", "stop"}, []any{at(o, "choices", 0, "message", "content"), at(o, "choices", 0, "finish_reason")})
}

func TestLogProbs(t *testing.T) {
	p := serving(t, 2, 2, nil)
	const body = `{"model": "talker", "logprobs": true, "top_logprobs": 2, "stop": ", you", ` + hello
	content := at(p.ask(t, "chat/completions", body+`}`), "choices", 0, "logprobs", "content").([]any)
	text := ""
	for _, one := range content {
		text += at(one, "token").(string)
		assert.Equal(t, -.5, at(one, "logprob"))
		require.Len(t, at(one, "top_logprobs"), 2)
		assert.Equal(t, []any{at(one, "token"), -1.5}, []any{at(one, "top_logprobs", 0, "token"), at(one, "top_logprobs", 1, "logprob")})
		if token := at(one, "token").(string); !strings.Contains(token, "\uFFFD") {
			var bytes []byte
			for _, b := range at(one, "bytes").([]any) {
				bytes = append(bytes, byte(b.(float64)))
			}
			assert.Equal(t, token, string(bytes))
		} else {
			assert.Nil(t, at(one, "bytes"))
		}
	}
	assert.Regexp(t, "^Gr(ü|\uFFFD\uFFFD)", text)
	assert.Contains(t, text, " dich")
	assert.NotContains(t, text, "you", "the stop text has none")
	var streamed []any
	for _, e := range p.events(t, "chat/completions", body+`, "stream": true}`) {
		if given, ok := at(e, "choices", 0, "logprobs").(map[string]any); ok {
			streamed = append(streamed, given["content"].([]any)...)
		}
	}
	assert.Equal(t, content, streamed)

	o := p.ask(t, "completions", `{"model": "bytes", "prompt": "éa", "logprobs": 1}`)
	assert.Equal(t, map[string]any{
		"tokens": []any{"\uFFFD", "\uFFFD", "a"}, "token_logprobs": []any{-.5, -.5, -.5}, "text_offset": []any{0., 1., 1.},
		"top_logprobs": []any{map[string]any{"\uFFFD": -.5}, map[string]any{"\uFFFD": -.5}, map[string]any{"a": -.5}},
	}, at(o, "choices", 0, "logprobs"))
	assert.Equal(t, 1, p.bytes.requests[0].Top)
}

// Choices are those of the prompts in their order, each with a number of its own; so are those of a stream, in any order.
func TestChoices(t *testing.T) {
	p := serving(t, 2, 30, nil)
	const body = `{"model": "bytes", "n": 2, "best_of": 2, "seed": -7, "prompt": ["first", "second", "third"]`
	var texts, numbers []any
	o := p.ask(t, "completions", body+`}`)
	for _, c := range o["choices"].([]any) {
		texts, numbers = append(texts, at(c, "text")), append(numbers, at(c, "index"))
	}
	assert.Equal(t, []any{"first", "first", "second", "second", "third", "third"}, texts)
	assert.Equal(t, []any{0., 1., 2., 3., 4., 5.}, numbers)
	assert.Equal(t, 16., at(o, "usage", "prompt_tokens"), "each prompt once")
	assert.Equal(t, 38., at(o, "usage", "completion_tokens"))
	found := map[string]bool{}
	for _, r := range p.bytes.requests {
		found[fmt.Sprint(data.DecodeBytes(r.Prompt), r.Number, r.Sample, int64(r.Seed))] = true
	}
	for i, text := range []string{"first", "second", "third"} {
		assert.True(t, found[fmt.Sprint(text, i, 0, -7)] && found[fmt.Sprint(text, i, 1, -7)], "%v", found)
	}
	streamed := map[float64]string{}
	for _, e := range p.events(t, "completions", body+`, "stream": true}`) {
		streamed[at(e, "choices", 0, "index").(float64)] += at(e, "choices", 0, "text").(string)
	}
	assert.Equal(t, map[float64]string{0: "first", 1: "first", 2: "second", 3: "second", 4: "third", 5: "third"}, streamed)
	assert.Equal(t, "ab", at(p.ask(t, "completions", `{"model": "bytes", "prompt": [[97, 98]]}`), "choices", 0, "text"))
}

func TestDrawnAsAsked(t *testing.T) {
	p := serving(t, 1, 1, nil)
	p.ask(t, "completions", `{"model": "bytes", "prompt": "a", "temperature": 0, "top_p": 0.5, "top_k": -1, "min_p": 0.25, "seed": 9, "max_tokens": 5}`)
	r := p.bytes.requests[0]
	assert.Equal(t, []any{0., .5, 0, .25, uint64(9), 5}, []any{r.Temperature, r.TopP, r.TopK, r.MinP, r.Seed, r.Tokens})
	for range 3 {
		p.ask(t, "completions", `{"model": "bytes", "prompt": "a", "top_p": 0, "max_tokens": 9000}`)
	}
	p.ask(t, "completions", `{"model": "bytes", "prompt": "a", "seed": null}`)
	var seeds []uint64
	for _, r := range p.bytes.requests[1:] {
		seeds = append(seeds, r.Seed)
	}
	assert.Equal(t, []uint64{42, 43, 44, 45}, seeds, "those without a seed take the next one each")
	assert.Equal(t, 4096, p.bytes.requests[1].Tokens, "as many as the model may draw")
	assert.True(t, p.bytes.requests[1].TopP > 0, "0 is the likeliest token alone, not all of them")
}

// Parameters that would change what is drawn are refused by name; without effect they are accepted, and so are those that have none.
func TestParameters(t *testing.T) {
	p := serving(t, 1, 8, nil)
	for _, body := range []string{
		`"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "suffix": "", "echo": false, "best_of": 1, "user": "me", "metadata": {"a": "b"}, "store": true`,
		`"n": null, "stop": null, "temperature": null, "stream_options": null, "logprobs": null, "tools": null, "service_tier": "auto", "stream_options": {"include_obfuscation": false}`,
		`"tools": [], "tool_choice": "auto", "functions": [], "response_format": {"type": "text"}, "modalities": ["text"], "repetition_penalty": 1, "parallel_tool_calls": false, "stop": []`,
	} {
		p.ask(t, "completions", `{"model": "bytes", "prompt": "a", `+body+`}`)
	}
	refused := map[string]string{ // the body, what the message says
		`"frequency_penalty": 0.1`: "frequency_penalty: ", `"presence_penalty": -1`: "presence_penalty: ", `"logit_bias": {"5": 1}`: "logit_bias: ", `"suffix": "x"`: "suffix: ",
		`"echo": true`: "echo: ", `"best_of": 3`: "best_of: ", `"tools": [{}]`: "tools: ", `"tool_choice": "required"`: "tool_choice: ", `"response_format": {"type": "json_object"}`: "response_format: ",
		`"response_format": {"type": "text", "x": 1}`: "response_format: ", `"modalities": ["text", "audio"]`: "modalities: ", `"reasoning_effort": "low"`: "reasoning_effort: ",
		`"tempreature": 1`: `did you mean "temperature"`, `"messages": []`: "messages: found a parameter that is not known here", `"temperature": 2.5`: "temperature: found 2.5, wanted 0 to 2",
		`"temperature": "1"`: "temperature: found a text", `"temperature": 1e999`: "temperature: ", `"top_p": -0.1`: "top_p: ", `"top_k": 1.5`: "top_k: ", `"seed": 1e3`: "seed: ", `"seed": 99999999999999999999`: "seed: ",
		`"n": 0`: "n: found 0, wanted 1 to 128", `"n": 10`: "n: found 10 completions", `"stop": ["a", "b", "c", "d", "e"]`: "stop: found 5 texts, wanted at most 4", `"stop": ""`: "stop: ", `"stop": [1]`: "stop: ",
		`"max_tokens": 0`: "max_tokens: found 0", `"stream": 1`: "stream: ", `"stream_options": {"x": 1}`: "stream_options: ", `"logprobs": 6`: "logprobs: found 6, wanted 0 to 5", `"logprobs": true`: "logprobs: ",
		`"prompt": ""`: "prompt: found no tokens", `"prompt": []`: "prompt: ", `"prompt": [256]`: "no token of the model", `"prompt": [-1]`: "no token", `"prompt": [97, "a"]`: "no token", `"prompt": {}`: "prompt: ", `"prompt": null`: "prompt: ",
		`"model": "gpt-4o"`: `model: found "gpt-4o", wanted one of talker, bytes`, `"model": ""`: "model: found none", `"model": 5`: "model: found none",
	}
	for body, says := range refused {
		r := p.post(t, "completions", `{"model": "bytes", "prompt": "a", `+body+`}`)
		o := read(t, r)
		want := http.StatusBadRequest
		if strings.Contains(body, "gpt") {
			want = http.StatusNotFound
		}
		assert.Equal(t, want, r.StatusCode, body)
		assert.Contains(t, at(o, "error", "message"), says, body)
		assert.Equal(t, "invalid_request_error", at(o, "error", "type"))
		name, _, _ := strings.Cut(strings.TrimPrefix(body, `"`), `"`)
		assert.Contains(t, at(o, "error", "param"), name, body)
		assert.NotNil(t, at(o, "error", "code"), body)
	}
	for body, says := range map[string]string{
		`"messages": []`: "empty conversation", `"messages": "Hi"`: "messages: ", `"messages": [{"role": "robot", "content": "x"}]`: `role: found "robot"`, `"messages": [{"role": "user"}]`: "found no content",
		`"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]`: "found type",
		`"messages": [{"role": "system", "content": "no"}, {"role": "user", "content": "x"}]`:           "no system",
		hello + `, "top_logprobs": 3`: "top_logprobs: found a number of tokens without logprobs", hello + `, "prompt": "x"`: "prompt: found a parameter that is not known here",
		hello + `, "chat_template_kwargs": {"enable_thinking": true}`:                       `found "enable_thinking", which the model's template does not read`,
		`"messages": [{"role": "user", "content": "` + strings.Repeat("word ", 100) + `"}]`: "maximum context length is 64",
	} {
		r := p.post(t, "chat/completions", `{"model": "talker", `+body+`}`)
		assert.Contains(t, at(read(t, r), "error", "message"), says, body)
		assert.Equal(t, http.StatusBadRequest, r.StatusCode, body)
	}
	p.ask(t, "chat/completions", `{"model": "talker", "chat_template_kwargs": {"loud": true}, `+hello+`}`)
	o := read(t, p.post(t, "chat/completions", `{"model": "bytes", `+hello+`}`))
	assert.Contains(t, at(o, "error", "message"), "/v1/completions continues texts")
	for body, says := range map[string]string{
		``: "not JSON", `{`: "not JSON", `[]`: "wanted an object", `{} {}`: "not JSON", `{"model": "bytes", "prompt": "\ud800"}`: "not JSON", "{\"model\": \"bytes\", \"prompt\": \"\xff\"}": "not JSON",
		strings.Repeat("[", 5000): "not JSON", `{"prompt": "a"}`: "model: found none",
	} {
		r := p.post(t, "completions", body)
		assert.Contains(t, at(read(t, r), "error", "message"), says, body)
		assert.Equal(t, http.StatusBadRequest, r.StatusCode, body)
	}
}

func TestModels(t *testing.T) {
	p := serving(t, 1, 1, nil)
	for path, ids := range map[string][]any{"models": {"talker", "bytes"}, "models/bytes": {"bytes"}} {
		r, err := http.Get(p.url + path)
		require.NoError(t, err)
		defer r.Body.Close()
		o := read(t, r)
		list, ok := o["data"].([]any)
		if !ok {
			list = []any{o}
		}
		var found []any
		for _, one := range list {
			found = append(found, at(one, "id"))
			assert.Equal(t, []any{"model", "gputrain"}, []any{at(one, "object"), at(one, "owned_by")})
		}
		assert.Equal(t, ids, found)
	}
}

// scan are the events of a stream as they come.
func scan(r *http.Response) func() string {
	lines := bufio.NewScanner(r.Body)
	return func() string {
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		return ""
	}
}
