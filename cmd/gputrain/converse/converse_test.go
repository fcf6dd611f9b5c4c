package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
	"gputrain/text/tokenizer"
)

const jinja = `{% for m in messages %}{% if m.role == 'system' and 'no' in m.content %}{{ raise_exception('no system') }}{% endif %}` +
	`{{ '<|im_start|>' + m.role + ':' + m.content + '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}`

// parrot is a model that says its texts in turn, each with the token that ends a turn, and then nothing else.
type parrot struct {
	t       *testing.T
	tok     *tokenizer.Tokenizer
	texts   []string
	left    []int32
	held    []int32
	windows []string // what it was given
	taken   int      // tokens computed
	onToken func(ctx context.Context, left int)
	fail    error
}

func (p *parrot) Extend(ctx context.Context, window []int32) ([]float32, int, error) {
	kept := 0
	for kept < min(len(p.held), len(window)-1) && p.held[kept] == window[kept] {
		kept++
	}
	p.taken += len(window) - kept
	p.held = append([]int32(nil), window...)
	text, err := p.tok.Decode(window, false)
	require.NoError(p.t, err)
	p.windows = append(p.windows, text)
	require.NotEmpty(p.t, p.texts)
	p.left, err = p.tok.Encode(p.texts[0]+"<|im_end|>", tokenizer.Options{})
	require.NoError(p.t, err)
	p.texts = p.texts[1:]
	logits, err := p.next(ctx)
	return logits, kept, err
}

func (p *parrot) Decode(ctx context.Context, token int32) ([]float32, error) {
	p.held = append(p.held, token)
	p.taken++
	return p.next(ctx)
}

func (p *parrot) next(ctx context.Context) ([]float32, error) {
	logits := make([]float32, p.tok.VocabSize()+8)
	logits[len(logits)-1] = 9 // a row of no token
	logits[p.left[0]] = 5
	p.left = p.left[1:]
	if p.onToken != nil {
		p.onToken(ctx, len(p.left))
	}
	return logits, p.fail
}

// talking is a dialogue with a parrot.
func talking(t *testing.T, window, tokens int, system string, texts ...string) (*Dialogue, *parrot) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(jinja), 0o666))
	tok, err := setup.OpenTokenizer("../../../text/tokenizer/testdata/qwen2")
	require.NoError(t, err)
	of, err := chat.OpenTemplate(hub.Open(dir), "")
	require.NoError(t, err)
	encoder, err := chat.NewEncoder(tok, of, chat.Options{Now: time.Unix(0, 0)})
	require.NoError(t, err)
	p := &parrot{t: t, tok: tok, texts: texts}
	d, err := New(Config{Model: p, Tokenizer: tok, Encoder: encoder, Sampling: train.SampleConfig{Tokens: tokens}, Window: window, System: system})
	require.NoError(t, err)
	return d, p
}

// session talks with a parrot line by line, and returns what was written and what was told.
func session(t *testing.T, d *Dialogue, lines string, change func(*Session)) (out, notes string, err error) {
	t.Helper()
	var written, told strings.Builder
	s := &Session{Dialogue: d, In: strings.NewReader(lines), Out: &written, Notes: func(format string, args ...any) { fmt.Fprintf(&told, format, args...) }}
	if change != nil {
		change(s)
	}
	err = s.Run(t.Context())
	return written.String(), told.String(), err
}

func person(s *Session) { s.Person = true }

// Without a terminal every line is a message, also one with a slash, and nothing but answers is written; the second turn computes only what is new.
func TestLinesAreMessages(t *testing.T) {
	d, p := talking(t, 4096, 100, "", "Grüß 👍\nGott", "two")
	out, notes, err := session(t, d, "/help\n\n \nnext", nil)
	require.NoError(t, err)
	assert.Equal(t, "Grüß 👍\nGott\ntwo\n", out)
	assert.Equal(t, []string{
		"<|im_start|>user:/help<|im_end|><|im_start|>assistant:",
		"<|im_start|>user:/help<|im_end|><|im_start|>assistant:Grüß 👍\nGott<|im_end|><|im_start|>user:next<|im_end|><|im_start|>assistant:",
	}, p.windows)
	assert.Regexp(t, `(?s)^\[\d+ tokens, \S+ tokens a second; the conversation has \d+ of 4096, 0 of them.*\n2 answers, \d+ tokens, \S+ tokens a second\n$`, notes)
	all, err := p.tok.Encode(p.windows[1]+"two", tokenizer.Options{})
	require.NoError(t, err)
	assert.Equal(t, len(all), p.taken, "each token once")
}

// As JSON, a turn is an object that says how it has ended.
func TestAnswersAsJSON(t *testing.T) {
	d, p := talking(t, 4096, 3, "be brief", "a b c d e", "<")
	out, _, err := session(t, d, "one\ntwo", func(s *Session) { s.JSON = true })
	require.NoError(t, err)
	var turns []map[string]any
	for text := range strings.Lines(out) {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &one))
		turns = append(turns, one)
	}
	require.Len(t, turns, 2)
	first, err := p.tok.Encode(p.windows[0], tokenizer.Options{})
	require.NoError(t, err)
	assert.Contains(t, p.windows[0], "<|im_start|>system:be brief<|im_end|>")
	for key, want := range map[string]any{"turn": 1., "message": "one", "end": "tokens", "answer_tokens": 3., "prompt_tokens": float64(len(first)), "kept_tokens": 0.} {
		assert.Equal(t, want, turns[0][key], key)
	}
	assert.Contains(t, p.windows[1], "assistant:"+turns[0]["answer"].(string)+"<|im_end|>", "what was cut stays in the conversation")
	assert.Equal(t, float64(len(first)+2), turns[1]["kept_tokens"], "and the last token of an answer was never taken in")
	assert.Equal(t, []any{"<", "end"}, []any{turns[1]["answer"], turns[1]["end"]})
}

// A person has commands, is told of mistakes, and goes on; a line that ends with a backslash goes on in the next.
func TestCommands(t *testing.T) {
	d, p := talking(t, 4096, 100, "", "1", "2", "3", "4", "5")
	out, notes, err := session(t, d, "/help\none\\\nmore\n/restart\n//slash\n/reset\nthree\n/system be kind\nfour\n/system no\n/system\nfive\n/exit\nnever\n", person)
	require.NoError(t, err)
	assert.Equal(t, "1\n2\n3\n4\n5\n", out)
	const assistant = "<|im_start|>assistant:"
	user := func(text string) string { return "<|im_start|>user:" + text + "<|im_end|>" }
	assert.Equal(t, []string{
		user("one\nmore") + assistant,
		user("one\nmore") + assistant + "1<|im_end|>" + user("/slash") + assistant,
		user("three") + assistant,
		"<|im_start|>system:be kind<|im_end|>" + user("four") + assistant,
		user("five") + assistant,
	}, p.windows)
	for _, says := range []string{"/system TEXT", `"/restart", wanted one of /help, /reset, /system, /undo, /retry, /correct, /save, /exit, did you mean`, "gputrain: chat: prompt: ", "no system", "5 answers"} {
		assert.Contains(t, notes, says)
	}
}

// What was said can be taken back, asked again and corrected, and is saved as rows that training reads; a retry that is interrupted at once leaves what was there.
func TestCorrections(t *testing.T) {
	d, p := talking(t, 4096, 100, "be kind", "1", "2", "3", "4", "")
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"text":"as it was"}`), 0o666))
	const say = "one\n/retry\ntwo\n/undo\nthree\n/correct \"3\" is <it>\n"
	out, notes, err := session(t, d, "/undo\n/save\n/save "+file+"\n"+say+"/save "+file+"\n/undo\n/save "+file+"\n/save "+t.TempDir()+"\n", person)
	require.NoError(t, err)
	assert.Equal(t, "1\n2\n3\n4\n", out)
	const system, user = "<|im_start|>system:be kind<|im_end|>", "<|im_end|><|im_start|>user:"
	one := system + "<|im_start|>user:one<|im_end|><|im_start|>assistant:"
	assert.Equal(t, []string{one, one, one + "2" + user + "two<|im_end|><|im_start|>assistant:", one + "2" + user + "three<|im_end|><|im_start|>assistant:"}, p.windows)
	for _, says := range []string{"found no answer in the conversation", "found /save alone, wanted a file", "taken back: two\n", "corrected\n", "saved: a row of " + file, "is a directory"} {
		assert.Contains(t, notes, says)
	}
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var rows [][]string
	for _, text := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")[1:] {
		row, err := template.Decode([]byte(text))
		require.NoError(t, err)
		talk, err := chat.FromRow(row.(*template.Object), "messages")
		require.NoError(t, err)
		var said []string
		for _, m := range talk.Messages {
			role, _ := m.Get("role")
			content, _ := m.Get("content")
			said = append(said, fmt.Sprint(role, ": ", content))
		}
		rows = append(rows, said)
	}
	first := []string{"system: be kind", "user: one", "assistant: 2"}
	assert.Equal(t, [][]string{append(first[:3:3], "user: three", `assistant: "3" is <it>`), first}, rows)

	kept := len(d.talk.Messages)
	require.NoError(t, d.retry(func(string) error { return nil }))
	assert.Len(t, d.talk.Messages, kept)
}

// repeating is a model that says the last message again.
type repeating struct {
	parrot
	window int
}

func (r *repeating) Window() int          { return r.window }
func (r *repeating) Paging() state.Paging { return state.Paging{} }
func (r *repeating) Logits(ctx context.Context, window []int32) ([]float32, error) {
	text, err := r.tok.Decode(window, false)
	require.NoError(r.t, err)
	_, last, _ := strings.Cut(text[strings.LastIndex(text, "user:"):], ":")
	last, _, _ = strings.Cut(last, "<|im_end|>")
	r.texts = []string{last}
	logits, _, err := r.Extend(ctx, window)
	return logits, err
}
func (r *repeating) Fill(context.Context, state.Places) error                 { panic("no rows") }
func (r *repeating) Advance(context.Context, state.Places) ([]float32, error) { panic("no rows") }
func (r *repeating) Draw(context.Context, state.Places) ([]int32, []float32, error) {
	panic("no rows")
}

// Each line is a conversation of its own, of any form, and gets its answer in the order of lines.
func TestEach(t *testing.T) {
	d, p := talking(t, 90, 4, "")
	of := d.config
	of.System = "S"
	lines := "one\n\n" + `{"id": 7, "prompt": "two"}` + "\n" + `{"messages": [{"role": "system", "content": "T"}, {"role": "user", "content": "a b c d e f"}, {"role": "assistant", "content": "known"}]}` + "\n" +
		`{"prompt": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]}`
	e, err := ReadEach(of, strings.NewReader(lines))
	require.NoError(t, err)
	require.Equal(t, 4, e.Lines())
	m := &repeating{parrot{t: t, tok: p.tok}, e.Window()}
	var out strings.Builder
	require.NoError(t, e.Answer(t.Context(), m, &out, false))
	assert.Equal(t, "one\ntwo\na b c d\nz\n", out.String())
	assert.Equal(t, "<|im_start|>system:S<|im_end|><|im_start|>user:one<|im_end|><|im_start|>assistant:", m.windows[0])
	assert.Contains(t, m.windows[2], "system:T")
	assert.NotContains(t, m.windows[2], "known")
	out.Reset()
	require.NoError(t, e.Answer(t.Context(), m, &out, true))
	var told []string
	for text := range strings.Lines(out.String()) {
		var one struct {
			Line                 int
			ID                   any
			Message, Answer, End string
		}
		require.NoError(t, json.Unmarshal([]byte(text), &one))
		told = append(told, fmt.Sprintf("%d %v %s %s %s", one.Line, one.ID, one.Message, one.Answer, one.End))
	}
	assert.Equal(t, []string{"1 <nil> one one end", "3 7 two two end", "4 <nil> a b c d e f a b c d tokens", "5 <nil> z z end"}, told)
	for wrong, says := range map[string]string{
		"":                          "found no line",
		"a\n{\"x\": 1}":             `line 2: found an object with the keys ["x"], wanted messages or prompt`,
		"{":                         "line 1: found no JSON object",
		"\xff":                      "not UTF-8",
		strings.Repeat("word ", 90): "wanted fewer than the window of 90",
		`{"messages": []}`:          "line 1: ",
		`{"messages": [{"role": "assistant", "content": "known"}]}`: "line 1: ",
	} {
		_, err := ReadEach(d.config, strings.NewReader(wrong))
		var refused *MessageError
		require.ErrorAs(t, err, &refused, wrong)
		assert.ErrorContains(t, err, says)
	}
}

// The oldest turns make room for new ones, the system's message stays; a message that does not fit alone is refused, and changes nothing.
func TestFullWindow(t *testing.T) {
	d, p := talking(t, 60, 8, "S", strings.Repeat("1 ", 3), "2", "3", "4")
	out, notes, err := session(t, d, strings.Repeat("message\n", 2)+strings.Repeat("word ", 60)+"\n"+strings.Repeat("message\n", 2), person)
	require.NoError(t, err)
	assert.Equal(t, "1 1 1 \n2\n3\n4\n", out)
	assert.Contains(t, notes, "wanted at most 52: the window of 60")
	last := p.windows[3]
	assert.True(t, strings.HasPrefix(last, "<|im_start|>system:S<|im_end|><|im_start|>user:message"), last)
	assert.NotContains(t, last, "1 1 1")
	assert.Contains(t, last, "assistant:3<|im_end|>")
	assert.Contains(t, notes, "the window of 60 tokens is full: turns left out, the oldest: 1")

	_, _, err = session(t, d, strings.Repeat("word ", 60), nil)
	var wrong *MessageError
	require.ErrorAs(t, err, &wrong)
	d, _ = talking(t, 24, 100, "", strings.Repeat("x ", 50))
	_, notes, err = session(t, d, "hi", nil)
	require.NoError(t, err)
	assert.Contains(t, notes, "the window is full (--window): the answer ends early")
	for system, says := range map[string]string{"": "chat: what the template adds to the shortest message: found ", "S": "chat: the system's message and what the template adds: found "} {
		_, err = New(Config{Model: p, Tokenizer: p.tok, Encoder: d.config.Encoder, Window: 5, System: system})
		require.ErrorAs(t, err, &wrong)
		assert.ErrorContains(t, err, says)
	}
}

// An interrupt ends an answer, of which stays what has come; without one, the second in a row ends the session.
func TestInterrupts(t *testing.T) {
	d, p := talking(t, 4096, 100, "", "1 2 3 4 5 6", "new")
	interrupts := make(chan os.Signal)
	p.onToken = func(ctx context.Context, left int) {
		if left == 8 {
			interrupts <- os.Interrupt
			<-ctx.Done()
		}
	}
	in, typing := io.Pipe()
	var notes, out strings.Builder
	asked := make(chan bool)
	s := &Session{Dialogue: d, In: in, Out: &out, Person: true, Interrupts: interrupts, Notes: func(format string, args ...any) {
		said := fmt.Sprintf(format, args...)
		if notes.WriteString(said); said == "> " {
			asked <- true
		}
	}}
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context()) }()
	for _, text := range []string{"one\n", "two\n"} {
		<-asked
		_, err := io.WriteString(typing, text)
		require.NoError(t, err)
	}
	for range 2 {
		<-asked
		interrupts <- os.Interrupt
	}
	require.NoError(t, <-ended)
	first, _, _ := strings.Cut(out.String(), "\n")
	assert.Less(t, len(first), len("1 2 3 4 5 6"))
	assert.Contains(t, p.windows[1], "assistant:"+first+"<|im_end|>")
	assert.True(t, strings.HasSuffix(out.String(), "\nnew\n"), out.String())
	assert.Contains(t, notes.String(), "[interrupted]")
	assert.Equal(t, 1, strings.Count(notes.String(), "Ctrl-C again"))
}

// What fails in the model or where answers go ends the session, and what is wrong with a line names it.
func TestSessionsEnd(t *testing.T) {
	d, p := talking(t, 4096, 100, "", "1")
	p.fail = errors.New("gone")
	_, _, err := session(t, d, "a\nb", person)
	require.ErrorIs(t, err, p.fail)

	d, _ = talking(t, 4096, 100, "", "1")
	_, _, err = session(t, d, "a\nb", func(s *Session) { s.Out = broken{} })
	require.ErrorIs(t, err, io.ErrShortWrite)

	d, _ = talking(t, 4096, 100, "", "1")
	_, _, err = session(t, d, "a\n\xff\n", nil)
	require.ErrorContains(t, err, "line 2: chat: message: found nothing, or bytes that are not UTF-8")
}

// A line that is too long is an error, and what follows it is no message: the session ends, for a person too.
func TestLongestLine(t *testing.T) {
	d, _ := talking(t, 4096, 100, "")
	_, _, err := session(t, d, strings.Repeat("a", mostLine+1), nil)
	require.ErrorContains(t, err, "line 1: chat: standard input: found a line of 16777216 bytes or more")
	_, notes, err := session(t, d, strings.Repeat("a", mostLine+1), person)
	require.NoError(t, err)
	require.Contains(t, notes, "found a line of 16777216 bytes or more")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
