package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gputrain/model"
)

// A person at a terminal is asked for messages, is told of mistakes, and leaves with the second Ctrl-C in a row.
func TestChatAtATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("model"), os.DirFS(filepath.Join(tokenizers, "qwen2"))))
	tok := openTokenizer(t, p.path("model"))
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 2, Width: 8, Vocab: tok.VocabSize(), Context: 64, RopeTheta: 1e4})
	require.NoError(t, err)
	values := map[string][]float32{}
	for _, h := range model.Init(def, 3) {
		values[h.Path] = h.Data
	}
	require.NoError(t, model.Export(p.path("written"), def, func(path string) ([]float32, error) { return values[path], nil }, model.ExportOptions{}))
	for _, name := range []string{"config.json", "model.safetensors"} {
		require.NoError(t, os.Rename(p.path("written", name), p.path("model", name)))
	}

	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer keys.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	c := p.command("chat", "model", "--template", "chatml", "--tokens", "3")
	run := exec.Command(c.program, c.args...)
	run.Dir, run.Env, run.Stdin, run.Stdout, run.Stderr = c.dir, c.environment(t), screen, screen, screen
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, run.Start())
	require.NoError(t, screen.Close())
	t.Cleanup(func() { _ = run.Process.Kill() })

	seen := ""
	until := func(says string) {
		t.Helper()
		b := make([]byte, 1000)
		for !strings.Contains(seen, says) {
			n, err := keys.Read(b)
			require.NoError(t, err, "before %q: %q", says, seen)
			seen += string(b[:n])
		}
		_, seen, _ = strings.Cut(seen, says)
	}
	for _, step := range [][2]string{
		{"/help lists the commands\r\n> ", "Hi\n"},
		{"of them from the turn before]\r\n> ", "/rest\n"},
		{`found "/rest", wanted one of /help`, "\x03"},
		{"Ctrl-C again, or Ctrl-D, ends the program\r\n> ", "/reset\n"},
		{"the conversation begins anew\r\n> ", "\x03"},
		{"ends the program\r\n> ", "\x03"},
		{"1 answer, ", ""},
	} {
		until(step[0])
		_, err := keys.WriteString(step[1])
		require.NoError(t, err)
	}
	assert.NoError(t, run.Wait())
}
