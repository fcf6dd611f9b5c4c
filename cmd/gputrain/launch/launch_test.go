//go:build unix

package launch

import (
	"bytes"
	"context"
	"errors"
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
	read := func(text string) ([]Host, error) {
		path := filepath.Join(t.TempDir(), "hosts")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return ReadHosts(path)
	}
	hosts, err := read("# all\nnode1 slots=4 # two cards\n\n  user@10.0.0.7\nnode-3.example.org\tslots=1\r\n")
	require.NoError(t, err)
	assert.Equal(t, []Host{{"node1", 4}, {"user@10.0.0.7", 1}, {"node-3.example.org", 1}}, hosts)
	assert.Equal(t, 6, Slots(hosts))
	assert.Equal(t, "node1:4,user@10.0.0.7:1,node-3.example.org:1", list(hosts))
	for text, want := range map[string]string{
		"a\nb slot=2":                `:2: found "slot=2" after the host, wanted slots=N, did you mean "slots"?`,
		"a slots=0":                  `:1: found "slots=0", wanted slots=N with N from 1 to 1024`,
		"a slots=":                   `:1: found "slots="`,
		"a slots=2 b":                `:1: found "b" after the host`,
		"a:2":                        `:1: found "a:2", wanted the name of a host`,
		"a,b":                        `:1: found "a,b"`,
		"-x":                         `:1: found "-x"`,
		"-Fx@a":                      `:1: found "-Fx@a"`,
		"a slots=1025":               `:1: found "slots=1025"`,
		strings.Repeat("a\n", 1<<20): `found more than 1048576 bytes`,
		"a slots=1\n\na slots=5":     `:3: found host "a", which is in line 1 already`,
		"localhost\nLocalhost":       `:2: found host "Localhost", which is in line 1 already`,
		"me@a\nb\nyou@A":             `:3: found host "you@A", which is in line 1 already`,
		"a slots=1 slots=5":          `:1: found slots=1 and slots=5, wanted one of them`,
		"# nobody\n":                 `found no host`,
	} {
		_, err := read(text)
		assert.ErrorContains(t, err, want)
	}
	_, err = ReadHosts(filepath.Join(t.TempDir(), "none"))
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

func run(t *testing.T, j Job) (code int, log string) {
	t.Helper()
	var b bytes.Buffer
	j.Log = &b
	code, err := j.Run(t.Context(), t.Context())
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
	code, log := run(t, Job{Program: "/bin/gputrain", Args: []string{"train", "a b.yaml"}, Ranks: 3, Hosts: []Host{{"a", 2}, {"b", 1}}})
	assert.Zero(t, code)
	assert.Empty(t, log)
	assert.Equal(t, []string{"--bind-to none" + root + " --host a:2,b:1 -x GPUTRAIN_ADAPTER -x GPUTRAIN_LAUNCH_END -x GPUTRAIN_LAUNCH_ID -n 3 /bin/gputrain train a b.yaml"}, calls())
	calls = fake(t, "exit 0")
	run(t, Job{Program: "p", Ranks: 2})
	assert.Equal(t, []string{"--bind-to none" + root + " --oversubscribe -x GPUTRAIN_ADAPTER -x GPUTRAIN_LAUNCH_END -x GPUTRAIN_LAUNCH_ID -n 2 p"}, calls())
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
		code, log := run(t, Job{Program: "p", Args: []string{"train", []string{"--fresh", "--fresh=true"}[i%2], "x"}, Ranks: 2, Restarts: c.restarts})
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
	note := `echo "$` + idVariable + `" >>'` + path + "'; exit "
	fake(t, note+"137", note+"0")
	_, log := run(t, Job{Program: "p", Args: []string{"train", "--fresh"}, Ranks: 2, Restarts: 1})
	assert.Contains(t, log, "restart 1 of 1 from the newest checkpoint of this launch, on 2 ranks")
	fake(t, note+"0")
	run(t, Job{Program: "p", Ranks: 2})
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
	hosts := []Host{{"a", 2}, {"b", 1}}
	calls := fake(t, "exit 137", down, down, down, up, up, "exit 0")
	code, log := run(t, Job{Program: "p", Ranks: 3, Hosts: hosts, Restarts: 5, Shrink: true})
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
	assert.Contains(t, log, "code 137 (signal 9): restart 1 of 5 from the newest checkpoint, on 2 ranks of a:2")

	calls = fake(t, "exit 137", "exit 0")
	run(t, Job{Program: "p", Ranks: 3, Hosts: hosts, Restarts: 5})
	assert.Len(t, calls(), 2, "nobody is asked where nothing may go")

	fake(t, "exit 137", "exit 1", "exit 1")
	code, err := Job{Program: "p", Ranks: 3, Hosts: hosts, Restarts: 5, Shrink: true, Log: &bytes.Buffer{}}.Run(t.Context(), t.Context())
	assert.Equal(t, 137, code)
	assert.ErrorContains(t, err, "found none of the hosts")

	calls = fake(t, "exit 137", down, down, "exit 0")
	run(t, Job{Program: "p", Ranks: 4, Replica: 2, Hosts: []Host{{"a", 3}, {"b", 1}}, Restarts: 1, Shrink: true})
	all := calls()
	assert.Regexp(t, `^.*--host a:3 .*-n 2 p$`, all[len(all)-1], "replicas are whole")
	fake(t, "exit 137", down, down)
	_, err = Job{Program: "p", Ranks: 2, Replica: 2, Hosts: []Host{{"a", 1}, {"b", 1}}, Restarts: 1, Shrink: true, Log: &bytes.Buffer{}}.Run(t.Context(), t.Context())
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
			code, err := Job{Program: "p", Ranks: 2, Restarts: 3, Log: &bytes.Buffer{}}.Run(ctx, now)
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
	program := `trap "" USR1; printf 9 >"$` + endVariable + `"; while :; do sleep 0.02; done`
	calls := fake(t, program, "exit 0")
	code, log := run(t, Job{Program: "p", Ranks: 2, Restarts: 1})
	assert.Zero(t, code)
	assert.Len(t, calls(), 2)
	assert.Contains(t, log, "code 9 (a rank was lost): restart 1 of 1")
}

func TestNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "end")
	t.Setenv(endVariable, path)
	Note(0)
	_, noted := readNote(path)
	assert.False(t, noted)
	Note(6)
	Note(9)
	code, noted := readNote(path)
	assert.True(t, noted)
	assert.Equal(t, 6, code, "the first says why")
	t.Setenv(endVariable, filepath.Join(t.TempDir(), "no such host", "end"))
	Note(6)
}

// A rank says what its launcher was told, and not the signal by which it hears of it.
func TestSignalName(t *testing.T) {
	note := filepath.Join(t.TempDir(), "end")
	t.Setenv(endVariable, "")
	assert.Equal(t, "user defined signal 1", SignalName(syscall.SIGUSR1))
	t.Setenv(endVariable, note)
	assert.Equal(t, "user defined signal 1", SignalName(syscall.SIGUSR1), "nobody has told the launcher anything")
	assert.Equal(t, "terminated", SignalName(syscall.SIGTERM))

	calls := fake(t, `trap 'cat "$`+endVariable+askedSuffix+`" >>`+note+`; exit 3' USR1; touch `+note+`; while :; do sleep 0.02; done`)
	ctx, stop := context.WithCancelCause(t.Context())
	go func() {
		for !exists(note) && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		stop(errors.New("signal hangup"))
	}()
	code, err := Job{Program: "p", Ranks: 2, Log: &bytes.Buffer{}}.Run(ctx, t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, code)
	assert.Len(t, calls(), 1)
	text, err := os.ReadFile(note)
	require.NoError(t, err)
	assert.Equal(t, "signal hangup", string(text))

	ask(note, errors.New("signal hangup"))
	assert.Equal(t, "hangup to gputrain launch", SignalName(syscall.SIGUSR1))
	t.Setenv(endVariable, filepath.Join(t.TempDir(), "no such host", "end"))
	assert.Equal(t, "user defined signal 1 of gputrain launch, which was told to stop", SignalName(syscall.SIGUSR1))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestNoMPI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Job{Program: "p", Ranks: 2}.Run(t.Context(), t.Context())
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
	shell := func(script string) Job {
		return Job{Program: "/bin/sh", Args: []string{"-c", script}, Ranks: 2, Restarts: 1}
	}
	code, _ := run(t, shell("exit 4"))
	assert.Equal(t, 4, code)
	once := shell("test -e " + dir + "/died && exit 0; touch " + dir + "/died; kill -9 $$")
	once.Ranks = 1
	code, log := run(t, once)
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
	j.Log = &bytes.Buffer{}
	code, err := j.Run(ctx, t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, code)
}
