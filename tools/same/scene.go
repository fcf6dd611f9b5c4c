package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scene is a case of commands that both programs are given, in turn.
type scene struct {
	name     string
	copies   []string          // what is copied into the scene's folder first
	without  string            // of the copies, what matches this pattern is removed
	files    map[string]string // written into the scene's folder, by name
	commands []command
	then     func(dir string) error // what is done with the scene's folder before it goes; nil: nothing
	measured bool                   // the commands train, so that they say times
}

// command are the arguments of a program, in which @ stands for the scene's folder. One is of the variables if it
// begins with GPUTRAIN_.
type command []string

// on is a command of words, and then whole arguments.
func on(words string, args ...string) command {
	return append(strings.Fields(words), args...)
}

// set are the arguments that set keys.
func set(values ...string) (args []string) {
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// outcome is what commands left, by what it is.
type outcome map[string]string

// tries are how often a scene is played that differs: which of two mistakes a message names, for one, may be chance.
const tries = 3

func (s scene) work() work {
	return work{s.name, func(w *world) ([]difference, error) {
		var old, new []outcome
		for {
			n := w.number()
			for _, s1 := range []struct {
				side *side
				said *[]outcome
			}{{w.old, &old}, {w.new, &new}} {
				said, err := s.play(s1.side, n)
				if err != nil {
					return nil, err
				}
				*s1.said = append(*s1.said, said)
			}
			if found := differencesOfAll(old, new); len(found) == 0 || len(old) == tries {
				return found, nil
			}
		}
	}}
}

// play gives a side the commands.
func (s scene) play(on *side, n int) (outcome, error) {
	at := fmt.Sprintf("at/%04d", n)
	if err := s.prepare(on, at); err != nil {
		return nil, err
	}
	said := outcome{}
	for i, c := range s.commands {
		name := ""
		if len(s.commands) > 1 {
			name = fmt.Sprintf("command %d, ", i+1)
		}
		p, err := on.start(on.program, at, c)
		if err != nil {
			return nil, err
		}
		if err := p.wait(); err != nil {
			return nil, fmt.Errorf("%v: %w", c, err)
		}
		said[name+"exit code"] = fmt.Sprintln(p.cmd.ProcessState.ExitCode())
		said[name+"stdout"] = maskText(p.out.String(), on, s.measured)
		said[name+"stderr"] = maskText(p.err.String(), on, s.measured)
	}
	if err := on.shaders(at, said); err != nil {
		return nil, err
	}
	if err := on.files(filepath.Join(on.root, at), said); err != nil {
		return nil, err
	}
	if s.then != nil {
		if err := s.then(filepath.Join(on.root, at)); err != nil {
			return nil, err
		}
	}
	return said, os.RemoveAll(filepath.Join(on.root, at))
}

// prepare makes the scene's folder, and a cache beside it in which the adapter is measured already.
func (s scene) prepare(on *side, at string) error {
	dir := filepath.Join(on.root, at)
	cache := filepath.Join(dir, "cache")
	if err := os.MkdirAll(cache, 0o777); err != nil {
		return err
	}
	known, err := filepath.Glob(filepath.Join(on.root, "seed", "cache", "*.json"))
	if err != nil {
		return err
	}
	for _, path := range known {
		if err := copyFile(filepath.Join(cache, filepath.Base(path)), path); err != nil {
			return err
		}
	}
	for _, from := range s.copies {
		if err := copyAll(filepath.Join(dir, filepath.Base(from)), filepath.Join(on.root, from)); err != nil {
			return err
		}
	}
	if s.without != "" {
		gone, err := filepath.Glob(filepath.Join(dir, s.without))
		if err != nil {
			return err
		}
		if len(gone) == 0 {
			return fmt.Errorf("nothing matches %s", s.without)
		}
		for _, path := range gone {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	for name, text := range s.files {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

// process is a command under way.
type process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	over     chan error
}

// patience bounds a command; only a program that hangs uses it up.
const patience = 15 * time.Minute

// start starts a command in the side's folder. The environment has no variable of the program but what is said here.
func (on *side) start(program, at string, c command) (*process, error) {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GPUTRAIN_") && !strings.HasPrefix(e, "HOME=") && !strings.HasPrefix(e, "XDG_") {
			env = append(env, e)
		}
	}
	env = append(
		env, "HOME="+filepath.Join(filepath.Dir(on.root), "home"), "TZ=UTC", "NO_COLOR=1", "COLUMNS=120", "GALLIVM_PERF=nopt", "LP_NUM_THREADS=0", "GOGC=400",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1",
		"GPUTRAIN_ADAPTER=vulkan:llvmpipe", "GPUTRAIN_CACHE="+filepath.Join(on.root, at, "cache"),
		"SAME_SHADERS="+on.list(at),
	)
	for len(c) > 0 && strings.HasPrefix(c[0], "GPUTRAIN_") {
		env, c = append(env, c[0]), c[1:]
	}
	if stopping.Load() {
		return nil, errors.New("stopped")
	}
	p := &process{over: make(chan error, 1)}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	var args []string
	for _, a := range c {
		args = append(args, strings.ReplaceAll(a, "@", at))
	}
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = on.root, env, &p.out, &p.err
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		stop()
		return nil, err
	}
	go func() {
		defer stop()
		err := p.cmd.Wait()
		var exit *exec.ExitError
		if ctx.Err() != nil {
			err = fmt.Errorf("not ended after %s: %s", patience, &p.err)
		} else if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
			err = nil
		}
		p.over <- err
	}()
	return p, nil
}

func (p *process) wait() error { return <-p.over }

// list is the file in which a scene's shaders are listed.
func (on *side) list(at string) string { return filepath.Join(on.texts, filepath.Base(at)) }

// shaders adds the digests of what a scene has compiled or planned.
func (on *side) shaders(at string, said outcome) error {
	raw, err := os.ReadFile(on.list(at))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lines := strings.SplitAfter(string(raw), "\n")
	slices.Sort(lines)
	said["shaders"] = strings.Join(slices.Compact(lines), "")
	return errors.Join(err, os.Remove(on.list(at)))
}

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o666)
}

func copyFile(to, from string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, string(raw))
}

func copyAll(to, from string) error {
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		return errors.Join(err, copyFile(to, from))
	}
	return os.CopyFS(to, os.DirFS(from))
}
