//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadHosts(t *testing.T) {
	read := func(text string) ([]string, error) {
		path := filepath.Join(t.TempDir(), "hosts")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return readHosts(path)
	}
	hosts, err := read("# all\nnode1 slots=4 # two cards\n\n  user@10.0.0.7\nnode-3.example.org\tslots=1\r\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"node1:4", "user@10.0.0.7:1", "node-3.example.org:1"}, hosts)
	assert.Equal(t, 6, slotsOf(hosts))
	for text, want := range map[string]string{
		"a\nb slot=2":   `:2: found "b slot=2", wanted a host`,
		"a slots=0":     `:1: found "a slots=0"`,
		"a slots=":      `:1: found "a slots="`,
		"a slots=2 b":   `:1: found "a slots=2 b"`,
		"a:2":           `:1: found "a:2"`,
		"a,b":           `:1: found "a,b"`,
		"-x":            `:1: found "-x"`,
		"-Fx@a":         `:1: found "-Fx@a"`,
		"a slots=10000": `:1: found "a slots=10000"`,
		"# nobody\n":    `found no host`,
	} {
		_, err := read(text)
		assert.ErrorContains(t, err, want)
	}
	_, err = readHosts(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// fake puts a script in mpirun's place. It writes its arguments to calls, one call a line, and then does what the shell does with the line of its turn.
func fake(t *testing.T, does ...string) (calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$*\" >>'" + dir + "/calls'\ncase $(wc -l <'" + dir + "/calls' | tr -d ' ') in\n"
	for i, do := range does {
		script += fmt.Sprintf("%d) %s;;\n", i+1, do)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mpirun"), []byte(script+"esac\n"), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	pause := firstPause
	firstPause = time.Millisecond
	t.Cleanup(func() { firstPause = pause })
	return func() []string {
		b, err := os.ReadFile(filepath.Join(dir, "calls"))
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

func launchJob(t *testing.T, j job) (code int, log string) {
	t.Helper()
	var b bytes.Buffer
	j.log = &b
	code, err := j.run(t.Context(), t.Context())
	require.NoError(t, err)
	return code, b.String()
}

func TestArguments(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GPUTRAIN_") {
			t.Setenv(name, "") // and back afterwards
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("GPUTRAIN_ADAPTER", "0")
	root := ""
	if os.Geteuid() == 0 {
		root = " --allow-run-as-root"
	}
	calls := fake(t, "exit 0")
	code, log := launchJob(t, job{command: []string{"/bin/gputrain", "train", "a b.yaml"}, ranks: 3, hosts: []string{"a:2", "b:1"}})
	assert.Zero(t, code)
	assert.Empty(t, log)
	assert.Equal(t, []string{"--bind-to none" + root + " --host a:2,b:1 -x GPUTRAIN_ADAPTER -x GPUTRAIN_LAUNCH -n 3 /bin/gputrain train a b.yaml"}, calls())
	calls = fake(t, "exit 0")
	launchJob(t, job{command: []string{"p"}, ranks: 2})
	assert.Equal(t, []string{"--bind-to none" + root + " --oversubscribe -x GPUTRAIN_ADAPTER -x GPUTRAIN_LAUNCH -n 2 p"}, calls())
}

// What is worth a restart gets one, and no more than asked for.
func TestRestarts(t *testing.T) {
	for i, c := range []struct {
		restarts int
		does     []string
		code     int
		calls    int
	}{
		{3, []string{"exit 137", "exit 9", "exit 0"}, 0, 3},
		{3, []string{"exit 1", "kill -9 $$", "exit 3"}, 3, 3},
		{1, []string{"exit 137", "exit 139"}, 139, 2},
		{0, []string{"exit 137"}, 137, 1},
		{3, []string{"exit 2"}, 2, 1},
		{3, []string{"exit 4"}, 4, 1},
		{3, []string{"exit 5"}, 5, 1},
		{3, []string{"exit 6"}, 6, 1},
		{3, []string{"exit 7"}, 7, 1},
		{3, []string{"exit 8"}, 8, 1},
	} {
		calls := fake(t, c.does...)
		code, log := launchJob(t, job{command: []string{"p", "train", []string{"--fresh", "--fresh=true"}[i%2], "x"}, ranks: 2, restarts: c.restarts})
		assert.Equal(t, c.code, code, "%v", c.does)
		require.Len(t, calls(), c.calls, "%v", c.does)
		assert.Equal(t, c.calls-1, strings.Count(log, "restart "), "%s", log)
		for k, call := range calls() {
			assert.Contains(t, call, "--fresh", "%d: the earlier run may still be there", k)
		}
	}
}

// All starts of a launch have one name, by which ranks know what it has begun, and no other launch has it.
func TestID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids")
	note := `echo "$` + launchVariable + `" >>'` + path + "'; exit "
	fake(t, note+"137", note+"0")
	_, log := launchJob(t, job{command: []string{"p", "train", "--fresh"}, ranks: 2, restarts: 1})
	assert.Contains(t, log, "restart 1 of 1 from the newest checkpoint, on 2 ranks")
	fake(t, note+"0")
	launchJob(t, job{command: []string{"p"}, ranks: 2})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	ids := strings.Fields(string(text))
	require.Len(t, ids, 3)
	assert.Equal(t, ids[0], ids[1])
	assert.NotEqual(t, ids[1], ids[2])
}

// A host that is gone is left out, where that is allowed, and taken again once it is back.
func TestShrink(t *testing.T) {
	probe := `case "$*" in *true) case "$*" in *" b:1 "*) exit %d;; esac; exit 0;; esac; exit %d`
	down, up := fmt.Sprintf(probe, 255, 137), fmt.Sprintf(probe, 0, 137)
	hosts := []string{"a:2", "b:1"}
	calls := fake(t, "exit 137", down, down, down, up, up, "exit 0")
	code, log := launchJob(t, job{command: []string{"p"}, ranks: 3, replica: 1, hosts: hosts, restarts: 5, shrink: true})
	assert.Zero(t, code)
	var jobs []string
	for _, c := range calls() {
		if !strings.HasSuffix(c, " true") {
			jobs = append(jobs, c[strings.Index(c, "--host"):])
		}
	}
	require.Len(t, jobs, 3)
	assert.Regexp(t, `^--host a:2,b:1 .*-n 3 p$`, jobs[0])
	assert.Regexp(t, `^--host a:2 .*-n 2 p$`, jobs[1])
	assert.Regexp(t, `^--host a:2,b:1 .*-n 3 p$`, jobs[2])
	assert.Contains(t, log, "host b is gone")
	assert.Contains(t, log, "code 137: restart 1 of 5 from the newest checkpoint, on 2 ranks")

	calls = fake(t, "exit 137", "exit 0")
	launchJob(t, job{command: []string{"p"}, ranks: 3, replica: 1, hosts: hosts, restarts: 5})
	assert.Len(t, calls(), 2, "nobody is asked where nothing may go")

	fake(t, "exit 137", "exit 1", "exit 1")
	code, err := job{command: []string{"p"}, ranks: 3, replica: 1, hosts: hosts, restarts: 5, shrink: true, log: &bytes.Buffer{}}.run(t.Context(), t.Context())
	assert.Equal(t, 137, code)
	assert.ErrorContains(t, err, "found hosts of 0 slots, wanted 1 or more")

	calls = fake(t, "exit 137", down, down, "exit 0")
	launchJob(t, job{command: []string{"p"}, ranks: 4, replica: 2, hosts: []string{"a:3", "b:1"}, restarts: 1, shrink: true})
	all := calls()
	assert.Regexp(t, `^.*--host a:3 .*-n 2 p$`, all[len(all)-1], "replicas are whole")
	fake(t, "exit 137", down, down)
	_, err = job{command: []string{"p"}, ranks: 2, replica: 2, hosts: []string{"a:1", "b:1"}, restarts: 1, shrink: true, log: &bytes.Buffer{}}.run(t.Context(), t.Context())
	assert.ErrorContains(t, err, "found hosts of 1 slots, wanted 2 or more")
}

// The first signal reaches mpirun as USR1, the second as TERM.
func TestStop(t *testing.T) {
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	wait := "touch '" + begun + "'; while :; do sleep 0.02; done"
	for name, c := range map[string]struct {
		does string
		now  bool
		code int
	}{
		"saves and stops":       {"trap 'exit 3' USR1; " + wait, false, 3},
		"before it is known":    {wait, false, 3},
		"dies meanwhile":        {"trap 'exit 137' USR1; " + wait, false, 137},
		"the second":            {"trap '' USR1; trap 'exit 7' TERM; " + wait, true, 7},
		"leaves the group late": {"trap '' USR1; " + wait, true, 128 + int(syscall.SIGTERM)},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(begun)
			calls := fake(t, c.does, "exit 0")
			ctx, stop := context.WithCancel(t.Context())
			now, end := context.WithCancel(t.Context())
			defer end()
			go func() {
				defer stop()
				for !exists(begun) && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				if c.now {
					stop()
					time.Sleep(50 * time.Millisecond)
					end()
				}
			}()
			code, err := job{command: []string{"p"}, ranks: 2, restarts: 3, log: &bytes.Buffer{}}.run(ctx, now)
			require.NoError(t, err)
			assert.Equal(t, c.code, code)
			assert.Len(t, calls(), 1, "what is told to stop is not started again")
		})
	}
}

// mpirun that waits for a host behind a cut link is ended once a rank has noted its code, and the run goes on.
func TestRanksHaveEnded(t *testing.T) {
	patience := finishPatience
	finishPatience = 200 * time.Millisecond
	defer func() { finishPatience = patience }()
	program := `trap "" USR1; ln -s 9 "$` + launchVariable + `/end"; while :; do sleep 0.02; done`
	calls := fake(t, program, "exit 0")
	code, log := launchJob(t, job{command: []string{"p"}, ranks: 2, restarts: 1})
	assert.Zero(t, code)
	assert.Len(t, calls(), 2)
	assert.Contains(t, log, "code 9: restart 1 of 1")
}

func TestNote(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, noteFile)
	t.Setenv(launchVariable, dir)
	noteEnd(0)
	_, noted := readNote(path)
	assert.False(t, noted)
	noteEnd(6)
	noteEnd(9)
	code, noted := readNote(path)
	assert.True(t, noted)
	assert.Equal(t, 6, code, "the first says why")
	t.Setenv(launchVariable, filepath.Join(dir, "on another host"))
	noteEnd(6)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestNoMPI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := job{command: []string{"p"}, ranks: 2}.run(t.Context(), t.Context())
	assert.ErrorContains(t, err, "apt-get install openmpi-bin")
}

// The true mpirun: codes of ranks, deaths, and the signal that stops.
func TestMPIRun(t *testing.T) {
	if _, err := exec.LookPath("mpirun"); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_MPI") == "1" {
			t.Fatal("no mpirun: ", err)
		}
		t.Skip("mpirun is not installed (Debian, Ubuntu: apt-get install openmpi-bin)")
	}
	firstPause = time.Millisecond
	defer func() { firstPause = time.Second }()
	dir := t.TempDir()
	shell := func(script string) job {
		return job{command: []string{"/bin/sh", "-c", script}, ranks: 2, restarts: 1}
	}
	code, _ := launchJob(t, shell("exit 4"))
	assert.Equal(t, 4, code)
	once := shell("test -e " + dir + "/died && exit 0; touch " + dir + "/died; kill -9 $$")
	once.ranks = 1
	code, log := launchJob(t, once)
	assert.Zero(t, code, "%s", log)
	assert.Contains(t, log, "restart 1 of 1")

	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		for !exists(dir+"/begun0") || !exists(dir+"/begun1") {
			time.Sleep(5 * time.Millisecond)
		}
	}()
	j := shell("trap 'exit 3' USR1; touch " + dir + "/begun$OMPI_COMM_WORLD_RANK; while :; do sleep 0.05; done")
	j.log = &bytes.Buffer{}
	code, err := j.run(ctx, t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, code)
}
