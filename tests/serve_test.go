package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/train"
)

// serving is a command that shows a page.
type serving struct {
	*process
	url string
}

// startServing starts a command and waits until it says where its page is.
func startServing(t *testing.T, c command) serving {
	t.Helper()
	s := serving{process: c.start(t)}
	s.says(t, "live page at ")
	found := regexp.MustCompile(`live page at (http\S+)\n`).FindStringSubmatch(s.err.String())
	require.NotNil(t, found, s.err)
	s.url = found[1]
	return s
}

// ask reads JSON from the page's server.
func (s serving) ask(t *testing.T, path string, into any) error {
	t.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", path, body)
	return json.Unmarshal(body, into)
}

type servedRun struct {
	ID          int
	Dir         string
	Step, Steps float64
	Samples     int
	Resumes     []float64
	Warnings    []string
}

// TestServe looks at a run while it trains and goes on, and at what it has left.
func TestServe(t *testing.T) {
	p := newPlace(t)
	dir := p.runDir(t, "run")
	s := startServing(t, p.train("run", "--serve", ":0"))
	assert.Regexp(t, `^http://127\.0\.0\.1:\d+/$`, s.url)
	var seen []float64
	for stopped := false; ; {
		var runs []servedRun
		if s.ask(t, "api/runs", &runs) != nil {
			break // it has ended
		}
		if len(runs) == 0 {
			continue // no file of it yet
		}
		assert.Equal(t, dir, runs[0].Dir)
		assert.Empty(t, runs[0].Warnings)
		if seen = append(seen, runs[0].Step); runs[0].Step > steps/3 && !stopped {
			require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
			stopped = true
		}
		time.Sleep(20 * time.Millisecond)
	}
	end := s.wait(t)
	require.Equal(t, 3, end.code, end.err)
	assert.IsNonDecreasing(t, seen)

	all := startServing(t, p.command("serve", ".", "--port", "0").withoutAdapter())
	wait := func(step float64, samples int) servedRun {
		var runs []servedRun
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if require.NoError(t, all.ask(t, "api/runs", &runs)); len(runs) == 1 && runs[0].Step >= step && runs[0].Samples >= samples {
				return runs[0]
			}
		}
		t.Fatalf("step %v is not shown: %+v", step, runs)
		return servedRun{}
	}
	before, _, err := train.ReadMetrics(dir)
	require.NoError(t, err)
	stop := float64(before[len(before)-1].Step)
	wait(stop, 0)
	ok(t, p.train("run"))
	run := wait(steps, steps/16)
	assert.Equal(t, []float64{stop}, run.Resumes, "where the second process went on")
	assert.EqualValues(t, steps, run.Steps)

	measured, evals, err := train.ReadMetrics(dir)
	require.NoError(t, err)
	var curves struct {
		Series map[string]struct{ X, Y []float64 }
	}
	require.NoError(t, all.ask(t, "api/curves?run=0&bucket=1", &curves))
	loss := curves.Series["loss"]
	require.Len(t, loss.Y, len(measured))
	for i, m := range measured {
		assert.EqualValues(t, m.Step, loss.X[i])
		assert.InEpsilon(t, float64(m.Loss), loss.Y[i], 1e-6)
	}
	assert.Len(t, curves.Series["eval_loss"].Y, len(evals))
	var papers struct {
		Settings []struct{ Key, Origin string }
		Report   string
	}
	require.NoError(t, all.ask(t, "api/run?run=0", &papers))
	assert.Contains(t, papers.Settings, struct{ Key, Origin string }{"train.steps", "run.yaml:6"})
	assert.Equal(t, read(t, p.path("run", "report.md")), papers.Report)

	require.NoError(t, all.cmd.Process.Signal(os.Interrupt))
	end = all.wait(t)
	assert.Zero(t, end.code, end.err)
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for want, args := range map[string][]string{
		"no such file":        {"serve", "nowhere"},
		"wanted a run":        {"serve", "text.txt"},
		"wanted --serve":      {"train", "run.yaml", "--run-dir", "run", "--host", "0.0.0.0"},
		"wanted loopback":     {"train", "run.yaml", "--run-dir", "run", "--serve", "0.0.0.0:0"},
		"no such host|lookup": {"serve", ".", "--port", "0", "--host", "no-such-host.invalid"},
	} {
		end := p.command(args...).withoutAdapter().run(t)
		assert.Equal(t, 2, end.code, end.err)
		assert.Regexp(t, want, end.err)
	}
}
