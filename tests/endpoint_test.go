package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An asked endpoint is one that answers.
type askedEndpoint struct {
	*process
	url, token string
}

// startEndpoint starts a command and waits until it says where it answers.
func startEndpoint(t *testing.T, c command) askedEndpoint {
	t.Helper()
	s := askedEndpoint{process: c.start(t)}
	s.says(t, "in an editor or a client of OpenAI")
	found := regexp.MustCompile(`protocol at (http\S+/v1);`).FindStringSubmatch(s.err.String())
	require.NotNil(t, found, s.err)
	s.url = found[1]
	return s
}

// ask posts an object, and reads the one that comes back.
func (s askedEndpoint) ask(t *testing.T, path string, question map[string]any) (status int, answer map[string]any) {
	t.Helper()
	raw, err := json.Marshal(question)
	require.NoError(t, err)
	r, err := http.NewRequest(http.MethodPost, s.url+path, bytes.NewReader(raw))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	raw, err = io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &answer), "%s", raw)
	return got.StatusCode, answer
}

// choices are the texts of an answer.
func choices(t *testing.T, status int, answer map[string]any) (texts []string) {
	t.Helper()
	require.Equal(t, http.StatusOK, status, answer)
	for _, one := range answer["choices"].([]any) {
		c := one.(map[string]any)
		text, ok := c["text"].(string)
		if !ok {
			text = c["message"].(map[string]any)["content"].(string)
		}
		texts = append(texts, text)
	}
	return texts
}

// speaker is a run that has learned a conversation.
func (p *place) speaker(t *testing.T) {
	t.Helper()
	require.NoError(t, os.CopyFS(p.path("speaker"), os.DirFS(filepath.Join(tokenizers, "qwen2"))))
	p.write(t, "chats.jsonl", strings.Repeat(strings.ReplaceAll(chatRow, "Hello, you", "Grüß dich 👍")+"\n", 40))
	p.write(t, "chats.yaml", `
model: {kind: llama, layers: 1, heads: 2, width: 32, context: 64}
data: {jsonl: chats.jsonl, tokenizer: speaker, template: chatml, format: messages, validation: 0}
optimizer: {name: adamw, learning_rate: 0.01, schedule: {warmup_steps: 2}}
train: {steps: 40, batch: 4, sample_tokens: 0}
`)
	ok(t, p.command("train", "chats.yaml", "--run-dir", p.runDir(t, "run"), "--progress", "plain"))
}

// What a caller gets is what chat and sample write for the same settings, whoever else asks.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.speaker(t)
	s := startEndpoint(t, p.command("endpoint", "run", "--listen", ":0", "--rows", "3"))
	assert.Regexp(t, `^http://127\.0\.0\.1:\d+/v1$`, s.url)
	assert.Contains(t, s.err.String(), "curl "+s.url+"/chat/completions")
	chat := func(temperature float64, seed int) []string {
		status, answer := s.ask(t, "/chat/completions", map[string]any{
			"model": "run", "messages": []any{map[string]any{"role": "user", "content": "Hi"}}, "temperature": temperature, "seed": seed, "max_tokens": 30,
		})
		return choices(t, status, answer)
	}
	assert.Equal(t, []string{"Grüß dich 👍"}, chat(0, 1))
	written := ok(t, p.command("sample", "run", "--prompt", "Hi", "-n", "3", "--seed", "5", "--tokens", "20")).out
	status, answer := s.ask(t, "/completions", map[string]any{"model": "run", "prompt": "Hi", "n": 3, "seed": 5, "max_tokens": 20})
	sampled := ""
	for i, text := range choices(t, status, answer) {
		sampled += fmt.Sprintf("--- %d of 3\nHi%s\n", i+1, text)
	}
	assert.Equal(t, written, sampled)
	alone := map[int][]string{}
	for seed := range 8 {
		alone[seed] = chat(1.5, seed)
	}
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() { assert.Equal(t, alone[i%8], chat(1.5, i%8), "among others") })
	}
	callers.Wait()
	status, answer = s.ask(t, "/chat/completions", map[string]any{"model": "walk", "messages": []any{}})
	assert.Equal(t, http.StatusNotFound, status)
	assert.Contains(t, fmt.Sprint(answer), "wanted one of run")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, s.wait(t).code)
	if testing.Short() {
		return
	}

	ok(t, p.command("export", "run", "--to", "model"))
	loudAdapters(t, p)
	p.write(t, "token", "sesame-sesame-sesame\n")
	s = startEndpoint(t, p.command("endpoint", "model", "--adapter", "peft", "--adapter", "shout=peft", "--adapter", adapter(t), "--listen", ":0", "--token-file", "token", "--rows", "1"))
	question := map[string]any{"messages": []any{map[string]any{"role": "user", "content": "Hi"}}, "temperature": 0, "max_tokens": 9}
	status, _ = s.ask(t, "/chat/completions", question)
	assert.Equal(t, http.StatusUnauthorized, status)
	s.token = "sesame-sesame-sesame"
	for name, flags := range map[string][]string{"model": nil, "peft": {"--adapter", "peft"}, "shout": {"--adapter", "peft"}} {
		question["model"] = name
		status, answer := s.ask(t, "/chat/completions", question)
		want := ok(t, p.command(append([]string{"chat", "model", "--prompt", "Hi", "--temperature", "0", "--tokens", "9"}, flags...)...)).out
		assert.Equal(t, want, choices(t, status, answer)[0]+"\n", name)
	}
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	assert.Zero(t, s.wait(t).code)

	p.write(t, "model/config.json", regexp.MustCompile(`("max_position_embeddings": *)\d+`).ReplaceAllString(read(t, p.path("model", "config.json")), "${1}1048576"))
	end := p.command("endpoint", "model", "--listen", ":0", "--rows", "64", "--window", "1048576").run(t)
	assert.Equal(t, 5, end.code)
	assert.Contains(t, end.err, "--rows (64) and --window (1048576) lower what it takes")
	assert.NotContains(t, end.err, "answers OpenAI's protocol", "before anybody can ask")
}

func TestEndpointRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(t, "short", "sesame")
	require.NoError(t, os.Mkdir(p.path("model"), 0o777))
	for want, args := range map[string][]string{
		"--rows: found 0, wanted 1 to 64":   {"--rows", "0"},
		"--waiting: found -1":               {"--waiting=-1"},
		"--patience: found 0s":              {"--patience", "0s"},
		"--window: found -1":                {"--window=-1"},
		"found no --token-file, wanted one": {"--host", "0.0.0.0"},
		"one word of 16 or more":            {"--token-file", "short"},
		"no such file":                      {"--token-file", "nowhere"},
		"wanted NAME=DIR with adapters":     {"--adapter", "x=nowhere"},
		"top_p":                             {"--top-p", "2"},
	} {
		end := p.command(append([]string{"endpoint", "model"}, args...)...).withoutAdapter().run(t)
		assert.Equal(t, 2, end.code, end.err)
		assert.Contains(t, end.err, want)
	}
}

// OpenAI's client from npm, as `make openai-client` installs it, gets what it asks for, and so does a chat page in a browser.
func TestOpenAIClient(t *testing.T) {
	folder := os.Getenv("GPUTRAIN_OPENAI")
	if folder == "" {
		t.Skip("no client of OpenAI: GPUTRAIN_OPENAI is not set (make openai-client installs it)")
	}
	p := newPlace(t)
	p.speaker(t)
	s := startEndpoint(t, p.command("endpoint", "run", "--listen", ":0", "--rows", "3"))
	out, err := exec.Command("node", "../tools/openai/client.mjs", folder, s.url, "run").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("no chromium for the chat page; apt-get install chromium")
	}
	out, err = exec.Command("node", "../tools/openai/page.mjs", folder, s.url, "run").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, strings.Repeat("ai Grüß dich 👍\n", 2), string(out), "whole, and as a stream")
}
