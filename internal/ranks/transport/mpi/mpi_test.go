//go:build unix

package mpi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/caught"
	"gputrain/internal/ranks/transport/internal/transporttest"
)

// program is what a rank of a test does instead of testing.
const program = "GPUTRAIN_TEST_MPI"

func TestMain(m *testing.M) {
	run, ok := programs[os.Getenv(program)]
	if !ok {
		os.Exit(m.Run())
	}
	e, err := start()
	if err == nil {
		err = run(e)
	}
	if err != nil {
		report(e, err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// libraryName is the library's file.
var libraryName = map[bool]string{false: "libmpi.so.40", true: "libmpi.40.dylib"}[runtime.GOOS == "darwin"]

// said is a line of a rank.
type said struct {
	Rank int
	What string
}

func report(e *engine, what string) {
	b, err := json.Marshal(said{e.rank, what})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", b) // one write, so that lines of ranks stay whole
}

// mpirun runs a program on n ranks. It returns what they say, everything that was written, and the exit code.
func mpirun(t *testing.T, n int, name string, args ...string) ([]said, string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	lines, all, code := mpirunUntil(ctx, t, n, name, args...)
	require.NoError(t, ctx.Err(), "%s", all)
	return lines, all, code
}

// mpirunUntil ends mpirun when ctx ends.
func mpirunUntil(ctx context.Context, t *testing.T, n int, name string, args ...string) ([]said, string, int) {
	t.Helper()
	path, err := exec.LookPath("mpirun")
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_MPI") == "1" {
			t.Fatal("no mpirun: ", err)
		}
		t.Skip("mpirun is not installed (Debian, Ubuntu: apt-get install openmpi-bin)")
	}
	args = slices.Concat([]string{"--bind-to", "none", "--oversubscribe", "-n", strconv.Itoa(n), "-x", program}, args, []string{os.Args[0]})
	c := exec.CommandContext(ctx, path, args...)
	c.Env = append(os.Environ(), program+"="+name, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	var all bytes.Buffer
	c.Stdout, c.Stderr = &all, &all
	err = c.Run()
	var lines []said
	for line := range strings.Lines(all.String()) {
		var s said
		if json.Unmarshal([]byte(line), &s) == nil {
			lines = append(lines, s)
		}
	}
	if err != nil && ctx.Err() == nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return lines, all.String(), c.ProcessState.ExitCode()
}

// programs are what ranks do. One that returns an error ends with code 1.
var programs = map[string]func(e *engine) error{
	"contract": contract,
	"waiting":  waiting,
	"panic":    recovered,
	"end":      behindTheEnd,
	"killed":   func(e *engine) error { return signalled(e, syscall.SIGKILL) },
	"stopped":  func(e *engine) error { return signalled(e, syscall.SIGSTOP) },
	"failed":   failed,
	"exit 3":   exit3,
	"speed":    speed,
	"cut":      cut,
}

// contract runs all cases in one job: each has ranks of its own.
func contract(e *engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	leftPatience, toldPatience, roundBytes = 200*time.Millisecond, 0, 100_000
	for _, c := range transporttest.Cases() {
		r, err := join(e)
		if err != nil {
			return err
		}
		if err := c.Run(ctx, r); err != nil {
			report(e, fmt.Sprintf("%s: %v", c.Name, err))
		}
		over, err := join(e)
		if err == nil {
			_, err = over.Gather(ctx, nil)
		}
		if err != nil {
			return err
		}
	}
	r, err := join(e)
	if err == nil {
		err = r.Close()
	}
	return err
}

func TestContract(t *testing.T) {
	lines, all, code := mpirun(t, transporttest.Ranks, "contract")
	for _, line := range lines {
		t.Errorf("rank %d: %s", line.Rank, line.What)
	}
	require.Zero(t, code, "%s", all)
}

// waiting: a rank looks once a millisecond for what it waits for, and more often only in the beginning.
func waiting(e *engine) error {
	r, err := join(e)
	if err != nil {
		return err
	}
	if r.Rank() == 0 {
		time.Sleep(time.Second)
	}
	looks := func() int64 {
		n := make(chan int64)
		e.ask(func() { n <- e.tests })
		return <-n
	}
	began, before := time.Now(), looks()
	if _, err := r.Gather(context.Background(), nil); err != nil {
		return err
	}
	// Rank 0 comes last and waits for nobody: how often it looks in a few microseconds says how fast the machine is.
	if n := looks() - before; r.Rank() > 0 && n > 2*time.Since(began).Milliseconds()+500 {
		return fmt.Errorf("%d looks in %v", n, time.Since(began))
	}
	return r.Close()
}

func TestWaitingTakesNoCore(t *testing.T) {
	lines, all, code := mpirun(t, 2, "waiting")
	assert.Empty(t, lines)
	assert.Zero(t, code, "%s", all)
}

// recovered is a nil dereference, beside the library.
func recovered(e *engine) error {
	r, err := join(e)
	if err != nil {
		return err
	}
	report(e, caught.Do(func() error {
		var nobody *ranks
		return fmt.Errorf("rank %d", nobody.Rank())
	}).Error())
	return r.Close()
}

func TestPanicIsRecovered(t *testing.T) {
	lines, all, code := mpirun(t, 1, "panic")
	require.Len(t, lines, 1, "%s", all)
	assert.Contains(t, lines[0].What, "nil pointer dereference")
	assert.Zero(t, code, "%s", all)
}

// behindTheEnd asks for a message and for the end of the library before its thread looks.
func behindTheEnd(e *engine) error {
	r, err := join(e)
	if err != nil {
		return err
	}
	looks := make(chan struct{})
	e.ask(func() { <-looks })
	end := e.finalize()
	e.receive(r.messages, allocate(1), -1, 0)
	close(looks)
	return <-end
}

func TestNothingBeginsBehindTheEnd(t *testing.T) {
	_, all, code := mpirun(t, 1, "end")
	assert.Zero(t, code, "%s", all)
}

// signalled: rank 1 sends itself a signal, and the others wait for it and for each other.
func signalled(e *engine, s syscall.Signal) error {
	r, err := join(e)
	if err != nil {
		return err
	}
	if _, err := r.Gather(context.Background(), nil); err != nil {
		return err
	}
	if r.Rank() == 1 {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			return err
		}
		time.Sleep(time.Minute)
	}
	ctx, cancel := context.WithTimeout(context.Background(), transporttest.Brief)
	defer cancel()
	if s == syscall.SIGKILL { // mpirun comes first
		ctx = context.Background()
	}
	if r.Rank() == 2 {
		return r.Receive(ctx, 0, 0, make([]byte, 1))
	}
	_, err = r.Gather(ctx, nil)
	return err
}

func TestRankKilled(t *testing.T) {
	_, all, code := mpirun(t, transporttest.Ranks, "killed")
	assert.Equal(t, 137, code)
	assert.Regexp(t, `(?s)process rank 1 .*signal 9`, all) // Open MPI 5 breaks the line
}

func TestRankStopped(t *testing.T) {
	lines, all, code := mpirun(t, transporttest.Ranks, "stopped")
	assert.Equal(t, 1, code)
	require.NotEmpty(t, lines, "%s", all)
	for _, line := range lines {
		assert.Regexp(t, `^transport: (gather|receive): rank 1 \(.+\): it does not answer: context deadline exceeded$`, line.What)
	}
}

// failed: rank 2 ends with a code of its own, while the others wait.
func failed(e *engine) error {
	r, err := join(e)
	if err != nil {
		return err
	}
	if r.Rank() == 2 {
		r.Fail(errors.New("the disk is full"))
		err = r.Close()
		time.Sleep(200 * time.Millisecond)
		report(e, err.Error())
		os.Exit(6)
	}
	_, err = r.Gather(context.Background(), nil)
	report(e, err.Error())
	_ = r.Close()
	return err
}

func TestExitCodeIsTheFailedRanks(t *testing.T) { exitCodeIsTheFailedRanks(t) }

func TestHostsExitCodeIsTheFailedRanks(t *testing.T) { exitCodeIsTheFailedRanks(t, "--host", hosts(t)) }

func exitCodeIsTheFailedRanks(t *testing.T, where ...string) {
	t.Helper()
	lines, all, code := mpirun(t, transporttest.Ranks, "failed", where...)
	assert.Equal(t, 6, code)
	require.Len(t, lines, transporttest.Ranks, "%s", all)
	for _, line := range lines {
		assert.Regexp(t, `^transport: (gather|close): rank 2 \(.+\): the disk is full$`, line.What)
	}
}

func exit3(e *engine) error {
	r, err := join(e)
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		return err
	}
	os.Exit(3)
	return nil
}

func TestExitCodeOfAll(t *testing.T) {
	_, all, code := mpirun(t, transporttest.Ranks, "exit 3")
	assert.Equal(t, 3, code, "%s", all)
}

// A library that cannot be used is named, with what would do; without MPI, as a process of its own.
func TestLibraryThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct{ source, says string }{
		"another make": {`void MPI_Get_library_version(char *v, int *n) { __builtin_strcpy(v, "MPICH Version: 4.0.2"); *n = 20; }`, "MPICH Version: 4.0.2"},
		"too old":      {`void MPI_Get_library_version(char *v, int *n) { __builtin_strcpy(v, "Open MPI v3.1.6, package"); *n = 24; }`, "Open MPI v3.1.6"},
		"a part of it": {`void MPI_Get_library_version(char *v, int *n) { __builtin_strcpy(v, "Open MPI v4.1.4"); *n = 15; }`, "MPI_Init_thread"},
		"no library":   {"", libraryName},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if path := filepath.Join(dir, libraryName); c.source == "" {
				require.NoError(t, os.WriteFile(path, []byte("not a library"), 0o600))
			} else {
				source := filepath.Join(dir, "fake.c")
				require.NoError(t, os.WriteFile(source, []byte(c.source), 0o600))
				out, err := exec.Command("cc", "-shared", "-fPIC", "-o", path, source).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			run := exec.Command(os.Args[0])
			run.Env = append(os.Environ(), program+"=exit 3", "LD_LIBRARY_PATH="+dir, "DYLD_LIBRARY_PATH="+dir)
			out, err := run.CombinedOutput()
			assert.Error(t, err)
			assert.Contains(t, string(out), "transport/mpi: open the library: ")
			assert.Contains(t, string(out), c.says)
			assert.Contains(t, string(out), "apt-get install openmpi-bin")
		})
	}
}

// hosts are those of mpirun between which a link can be cut; see tools/netns.
func hosts(t *testing.T) string {
	t.Helper()
	hosts := os.Getenv("GPUTRAIN_TEST_HOSTS")
	if hosts == "" {
		t.Skip("one host; make netns has two")
	}
	return hosts
}

func TestHostsContract(t *testing.T) {
	lines, all, code := mpirun(t, transporttest.Ranks, "contract", "--host", hosts(t))
	assert.Empty(t, lines)
	require.Zero(t, code, "%s", all)
}

// cut: ranks 0 and 1 of one host and rank 2 of another send to each other without an end, until rank 1 cuts the link. Each writes its error to a
// file, as what the other host prints does not arrive.
func cut(e *engine) error {
	r, err := join(e)
	if err != nil {
		return err
	}
	if r.Rank() == 1 {
		time.AfterFunc(500*time.Millisecond, func() { _ = exec.Command("sh", "-c", os.Getenv("GPUTRAIN_TEST_CUT")).Run() })
	}
	for b := make([]byte, 2<<20); err == nil; {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		switch r.Rank() {
		case 0:
			err = r.Send(ctx, 2, 0, b)
		case 2:
			err = r.Receive(ctx, 0, 0, b)
		}
		if err == nil {
			_, err = r.Gather(ctx, []byte("one more"))
		}
		cancel()
	}
	dir := os.Getenv("MPI_TEST_DIR")
	return errors.Join(err, os.WriteFile(filepath.Join(dir, strconv.Itoa(r.Rank())), []byte(err.Error()), 0o600))
}

func TestHostsLinkIsCut(t *testing.T) {
	list := hosts(t)
	t.Cleanup(func() { assert.NoError(t, exec.Command("sh", "-c", os.Getenv("GPUTRAIN_TEST_MEND")).Run()) })
	dir := t.TempDir()
	t.Setenv("MPI_TEST_DIR", dir)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if files, err := os.ReadDir(dir); err == nil && len(files) == transporttest.Ranks {
				cancel() // mpirun waits for the other host until TCP gives up
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	_, all, _ := mpirunUntil(ctx, t, transporttest.Ranks, "cut", "--host", list, "-x", "MPI_TEST_DIR", "-x", "GPUTRAIN_TEST_CUT")
	for rank, blames := range []string{"rank 2 (hostb)", "rank 2 (hostb)", "rank 0 (hosta)"} {
		b, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(rank)))
		require.NoError(t, err, "%s", all)
		assert.Contains(t, string(b), blames)
		assert.Contains(t, string(b), "it does not answer")
	}
}

// speed prints what a message costs between two ranks.
func speed(e *engine) error {
	r, err := join(e)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, n := range []int{1, 1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20} {
		b := make([]byte, n)
		times := 20
		var began time.Time
		for i := range times + 2 {
			if i == 2 {
				began = time.Now()
			}
			if r.Rank() == 0 {
				err = errors.Join(r.Send(ctx, 1, 0, b), r.Receive(ctx, 1, 0, b))
			} else {
				err = errors.Join(r.Receive(ctx, 0, 0, b), r.Send(ctx, 0, 0, b))
			}
			if err != nil {
				return err
			}
		}
		if one := time.Since(began) / time.Duration(2*times); r.Rank() == 0 {
			report(e, fmt.Sprintf("%8d bytes: %v, %.2f GB/s", n, one, float64(n)/one.Seconds()/1e9))
		}
	}
	return r.Close()
}

func TestSpeed(t *testing.T) {
	if os.Getenv("GPUTRAIN_SOAK") != "1" {
		t.Skip("measures; GPUTRAIN_SOAK=1")
	}
	for _, how := range [][]string{nil, {"--mca", "btl", "tcp,self"}} {
		lines, all, code := mpirun(t, 2, "speed", how...)
		require.Zero(t, code, "%s", all)
		for _, line := range lines {
			t.Log(how, line.What)
		}
	}
}
