package tests

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// patience bounds every wait for the program; it is only ever used up by a failure.
const patience = 15 * time.Minute

// command is a program with its arguments and what is special about its environment.
type command struct {
	program, dir string
	args         []string
	env          []string // over the test's own, without its GPUTRAIN_ variables
	bare         bool     // needs no adapter
	in           string   // standard input
	stderr       *os.File // instead of what is collected
}

// ended is what a command left. A code of -1 is a death by signal.
type ended struct {
	code     int
	out, err string
}

// with changes a copy.
func (c command) with(change func(*command)) command {
	change(&c)
	return c
}

// withoutAdapter says that the command needs no adapter to do what is tested.
func (c command) withoutAdapter() command { return c.with(func(c *command) { c.bare = true }) }

func (c command) environment(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GPUTRAIN_") {
			env = append(env, e)
		}
	}
	env = append(env, "GPUTRAIN_CACHE="+workshop)
	if !c.bare {
		env = append(env, "GPUTRAIN_ADAPTER="+adapter(t))
	}
	return append(env, c.env...)
}

// adapter is the selector of the adapter that tests use; without one the test is skipped, or fails where one is required.
func adapter(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(gputest.Adapters(t)[0].Index)
}

func (c command) run(t *testing.T) ended {
	t.Helper()
	return c.start(t).wait(t)
}

// ok runs a command that must do what it says.
func ok(t *testing.T, c command) ended {
	t.Helper()
	r := c.run(t)
	require.Zero(t, r.code, r.err)
	return r
}

// loss is what eval finds of a model.
func (p *place) loss(t *testing.T, model string, more ...string) float64 {
	t.Helper()
	return objects(t, ok(t, p.command(append([]string{"eval", model, "--json"}, more...)...)).out)[0]["eval_loss"].(float64)
}

// process is a command under way.
type process struct {
	cmd      *exec.Cmd
	out, err *output
	over     chan struct{} // closed at its end
}

// output collects what a process writes, while it writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// watched makes go test notice when the program's own sources change, so that it does not answer with a cached result: these tests import
// the packages below cmd, and of other files go test knows those that a test has looked at.
var watched = sync.OnceValue(func() error {
	return filepath.WalkDir("../cmd", func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
})

// start starts the command; it is killed at the end of the test, should it still run.
func (c command) start(t *testing.T) *process {
	t.Helper()
	require.NoError(t, watched())
	p := &process{cmd: exec.Command(c.program, c.args...), out: &output{}, err: &output{}, over: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = c.dir, c.environment(t)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if c.in != "" {
		p.cmd.Stdin = strings.NewReader(c.in)
	}
	if c.stderr != nil {
		p.cmd.Stderr = c.stderr
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			panic(err)
		}
		close(p.over)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.over
	})
	return p
}

func (p *process) wait(t *testing.T) ended {
	t.Helper()
	select {
	case <-p.over:
	case <-time.After(patience):
		require.Fail(t, "no end", "%v has not ended after %v:\n%s", p.cmd.Args, patience, p.err)
	}
	return ended{code: p.cmd.ProcessState.ExitCode(), out: p.out.String(), err: p.err.String()}
}

// running says that the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// until waits for something to become true while the process runs, and says whether it did before the process ended.
func (p *process) until(t *testing.T, what string, is func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); p.running(); time.Sleep(time.Millisecond) {
		if is() {
			return true
		}
		require.True(t, time.Now().Before(deadline), "%v: waited in vain for %s:\n%s", p.cmd.Args, what, p.err)
	}
	return is()
}

// says waits until the process has written text to standard error.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	require.True(t, p.until(t, text, func() bool { return strings.Contains(p.err.String(), text) }), "%q not in:\n%s", text, p.err)
}
