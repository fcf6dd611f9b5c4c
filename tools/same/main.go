// Same holds the program of the working tree to the program of an earlier commit: it builds both, gives both the same
// commands in folders of their own, and compares what they say, their exit codes, the files that they write, and the
// text of every shader that they compile, case by case.
//
//	go run ./same -before COMMIT [-part shaders,plans,runs] [-case REGEXP] [-keep]
//
// Parts are tables: shaders.go, plans.go and keys.go, runs.go. Differences on purpose stand in expected.txt.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// parts are in the order in which they run.
var parts = []part{
	{"shaders", shaderCases},
	{"plans", planCases},
	{"runs", runCases},
}

// part is a table of cases.
type part struct {
	name  string
	cases func(*world) ([]work, error)
}

// work is a case: what it returns lists what differs.
type work struct {
	name string
	do   func(*world) ([]difference, error)
}

func main() {
	err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "same:", err)
		os.Exit(1)
	}
}

// stopping says that a signal has come: nothing more is started, and nothing is told of what it ended.
var stopping atomic.Bool

func run() (err error) {
	before := flag.String("before", "", "commit whose program the working tree's is compared with")
	names := flag.String("part", "shaders,plans,runs", "parts to compare")
	only := flag.String("case", "", "regular expression of the names of cases to compare")
	jobs := flag.Int("jobs", 2, "cases at a time")
	keep := flag.Bool("keep", false, "leave the folder of both programs")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-case: %w", err)
	}
	if *before == "" {
		return errors.New("-before names no commit")
	}
	wanted := strings.Split(*names, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("-part: found %q, wanted shaders, plans or runs", name)
		}
	}
	expected, err := readExpected()
	if err != nil {
		return err
	}
	begin := time.Now()
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	w, end, err := newWorld(*before, *keep)
	if end != nil {
		defer func() { err = errors.Join(err, end()) }()
		go func() {
			fmt.Fprintln(os.Stderr, "same:", <-stopped)
			stopping.Store(true)
			for _, pid := range descendants(os.Getpid()) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			_ = end()
			os.Exit(1)
		}()
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s and the working tree are built, and models for them are made, in %s\n", *before, minutes(begin))
	failed := 0
	for _, part := range parts {
		if !slices.Contains(wanted, part.name) {
			continue
		}
		begin := time.Now()
		cases, err := part.cases(w)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		cases = slices.DeleteFunc(cases, func(c work) bool { return !chosen.MatchString(c.name) })
		differ, purposeful := compareAll(w, part.name, cases, *jobs, expected)
		fmt.Printf("%s: %d cases, %d equal, %d changed on purpose, %d differ, %s\n",
			part.name, len(cases), len(cases)-differ-purposeful, purposeful, differ, minutes(begin))
		failed += differ
	}
	if *only == "" {
		for _, e := range expected {
			if part, _, _ := strings.Cut(e.name, "/"); !e.met && slices.Contains(wanted, part) {
				fmt.Printf("expected.txt: nothing differs by the line of %s\n", e.name)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d cases differ", failed)
	}
	return nil
}

func minutes(since time.Time) string {
	return fmt.Sprintf("%.1f min", time.Since(since).Minutes())
}

// compareAll does the cases, some at a time, and tells those that differ, in the order of the table.
func compareAll(w *world, part string, cases []work, jobs int, expected []*expectation) (differ, purposeful int) {
	type outcome struct {
		found []difference
		err   error
	}
	outcomes := make([]chan outcome, len(cases))
	for i := range outcomes {
		outcomes[i] = make(chan outcome, 1)
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range jobs {
		workers.Go(func() {
			for i := range next {
				found, err := cases[i].do(w)
				outcomes[i] <- outcome{found, err}
			}
		})
	}
	go func() {
		defer close(next)
		for i := range cases {
			next <- i
		}
	}()
	for i, c := range cases {
		name := part + "/" + c.name
		o := <-outcomes[i]
		if stopping.Load() {
			select {}
		}
		if o.err != nil {
			differ++
			fmt.Printf("FAIL %s: %v\n", name, o.err)
			continue
		}
		if len(o.found) == 0 {
			continue
		}
		if reasons, all := onPurpose(expected, name, o.found); all {
			purposeful++
			fmt.Printf("changed on purpose: %s: %s\n", name, strings.Join(reasons, "; "))
			continue
		}
		differ++
		fmt.Printf("DIFFERS %s\n", name)
		for _, d := range o.found {
			fmt.Print(d)
		}
	}
	workers.Wait()
	return differ, purposeful
}

// world is where cases are done: two sides with the same inputs.
type world struct {
	tree, before string // the working tree, and that of the commit before
	dir          string
	old, new     *side
	shared       bool // whether there are inputs beside the tree, in ../shared

	mu    sync.Mutex
	count int
}

// side is a program with its folder.
type side struct {
	program, root string
	texts         string // folder of the texts of shaders
}

// newWorld builds both programs and lets the old one make the inputs on both sides.
func newWorld(before string, keep bool) (_ *world, end func() error, err error) {
	tree, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, nil, err
	}
	commit, err := output("git", "rev-parse", "--verify", before+"^{commit}")
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "same-")
	if err != nil {
		return nil, nil, err
	}
	w := &world{tree: tree, before: filepath.Join(dir, "before"), dir: dir}
	end = func() error {
		_, err := output("git", "-C", tree, "worktree", "remove", "--force", w.before)
		if keep {
			fmt.Println("both programs are in", dir)
			return err
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if _, err := output("git", "-C", tree, "worktree", "add", "--detach", w.before, commit); err != nil {
		return nil, func() error { return os.RemoveAll(dir) }, err
	}
	// Names of one length, so that nothing is wrapped otherwise.
	for _, s := range []struct {
		name, tree string
		side       **side
	}{{"old", w.before, &w.old}, {"new", tree, &w.new}} {
		*s.side = &side{program: filepath.Join(dir, s.name+".bin", "gputrain"), root: filepath.Join(dir, s.name), texts: filepath.Join(dir, s.name+".bin")}
		if err := build(s.tree, (*s.side).program); err != nil {
			return nil, end, err
		}
		if err := os.MkdirAll(filepath.Join((*s.side).texts, "texts"), 0o777); err != nil {
			return nil, end, err
		}
	}
	return w, end, w.seed()
}

// build builds a tree's program with a line more, which keeps the texts of shaders: every kernel passes that place,
// compiled or only planned.
func build(tree, program string) error {
	files, err := filepath.Glob(filepath.Join(tree, "gpu", "*.go"))
	if err != nil {
		return err
	}
	overlay := ""
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if place := slotFunction.FindSubmatchIndex(text); place != nil {
			text = slices.Concat(text[:place[1]], []byte("\tsameKeep("), text[place[2]:place[3]], []byte(")\n"), text[place[1]:])
			at := filepath.Dir(program)
			changed, added := filepath.Join(at, "slot.go"), filepath.Join(at, "keep.go")
			if err := errors.Join(os.MkdirAll(at, 0o777), os.WriteFile(changed, text, 0o666), os.WriteFile(added, []byte(keepSource), 0o666)); err != nil {
				return err
			}
			overlay = filepath.Join(at, "overlay.json")
			json := fmt.Sprintf("{\"Replace\": {%q: %q, %q: %q}}\n", path, changed, filepath.Join(tree, "gpu", "same_keep.go"), added)
			if err := os.WriteFile(overlay, []byte(json), 0o666); err != nil {
				return err
			}
		}
	}
	if overlay == "" {
		return fmt.Errorf("%s: no function in gpu/*.go matches %s, by which texts of shaders are kept", tree, slotFunction)
	}
	_, err = output("go", "build", "-C", tree, "-buildvcs=false", "-trimpath", "-overlay", overlay, "-o", program, "./cmd/gputrain")
	return err
}

var slotFunction = regexp.MustCompile(`(?m)^func \(\w+ \*pipelineCache\) slot\((\w+) \*Kernel\).*\{\n`)

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// number is another for each call.
func (w *world) number() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	return w.count
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
