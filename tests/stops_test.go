//go:build unix

package tests

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// stopped is a command that writes into the folder out of its place, where the cache and temporary files are too. It is stopped at any moment.
type stopped struct {
	name string
	args []string
	// leaves are the names that it may leave wherever it is stopped, and killed those that it may leave only if nobody asks it to end: by these
	// its next start knows what to remove. Paths are those below out.
	leaves, killed string
	// again are names that only a run that was stopped has.
	again string
	same  string // files that have the same bytes however often it was stopped
	once  string // what is there once the command has done its work, after which it refuses to do it again
	// adapter says that it takes one, and resumes: asked to end it saves, and ends with code 3.
	adapter, resumes bool
}

// kept is what commands keep in the cache: measurements of an adapter, tokens, and hashes of texts.
const kept = `cache(/tokens)?|cache/(texels|power)-[0-9a-f]+\.json|cache/tokens/[0-9a-f]{32}\.(tokens|sums)|tmp|`

// Names of a run directory, and of what is not finished.
const (
	torn      = `\.gputrain-[0-9a-f]{8}-\d+\.tmp`
	runNames  = `(/(checkpoints(/step-\d{8}(/[a-z_.]+)?)?|tensorboard(/events[^/]*)?|[a-z]+\.(svg|md|jsonl)|run\.yaml|run\.given-[0-9a-f]{8}\.yaml|\.gputrain|\.lock))?`
	runAgain  = `/((metrics|samples)\.jsonl\.cut|[a-z]+\.svg)`
	runTorn   = `/(` + torn + `|checkpoints/step-\d{8}\.(tmp|replaced)(/[a-z_.]+)?)`
	runSame   = `/checkpoints/step-\d{8}/(model|optimizer)\.safetensors|/samples\.jsonl`
	tokenized = `cache/tokens/` + torn
)

func stoppedCommands() []stopped {
	compared := `out/compare(/compare\.(json|svg|md)|/(adamw|sgd)-7` + runNames + `)?`
	return []stopped{
		{name: "train", adapter: true, resumes: true, args: []string{"train", "small.yaml", "--run-dir", "out/run"}, leaves: `out/run` + runNames, killed: `out/run` + runTorn + `|out/` + tokenized, again: `out/run` + runAgain, same: `out/run` + runSame},
		{name: "train on tokenized text", adapter: true, resumes: true, args: []string{"train", "words.yaml", "--run-dir", "out/run"}, leaves: `out/run` + runNames, killed: `out/run` + runTorn + `|out/` + tokenized, again: `out/run` + runAgain, same: `out/run` + runSame},
		{
			name: "compare", adapter: true, resumes: true, args: []string{"compare", "small.yaml", "--optimizers", "adamw,sgd", "--seeds", "1", "--out", "out/compare", "--progress", "none"}, leaves: compared,
			killed: `out/compare/(adamw|sgd)-7` + runTorn + `|out/compare/` + torn + `|out/` + tokenized, again: `out/compare/(adamw|sgd)-7` + runAgain, same: `out/compare/(adamw|sgd)-7` + runSame,
		},
		{name: "eval", adapter: true, args: []string{"eval", "run", "--text", "words.txt", "--limit", "256"}, killed: `out/` + tokenized, same: `out/cache/tokens/.*`},
		{name: "export", args: []string{"export", "run", "--to", "out/model", "--shard-size", "20KB"}, leaves: `out/model(/[A-Za-z0-9._-]+)?`, killed: `out/` + torn + `(/.+)?`, same: `out/model/.*`, once: "out/model"},
		{name: "tokenize train", args: []string{"tokenize", "train", "out/made", "--text", "words.txt", "--vocab-size", "600"}, leaves: `out/made(/tokenizer\.json)?`, killed: `out/made/` + torn, same: `out/made/tokenizer\.json`, once: "out/made/tokenizer.json"},
		{name: "tokenize encode", args: []string{"tokenize", "encode", "ours", "--text", "words.txt", "--as", "u32"}},
	}
}

// A command that is stopped at any moment, by who asks it to end or by who does not, leaves nothing that has not a name of its own, and the
// same command then does what it would have done, with nothing left over.
func TestStoppedAtRandomMomentsKill(t *testing.T) {
	gputest.Long(t, "TestSignalsStopAndSave stops a run, TestKilledAtRandomMoments kills one")
	const seed = 20261123
	p := newPlace(t)
	p.write(t, "small.yaml", "model: {layers: 1, heads: 2, width: 16, context: 16}\ndata: {text: text.txt, validation: 0.1}\n"+
		"optimizer: {name: adamw, learning_rate: 1e-2}\ntrain: {steps: 40, batch: 2, eval_every: 10, eval_tokens: 160, save_every: 4, sample_every: 20, sample_tokens: 4, seed: 7}\n")
	p.write(t, "words.yaml", strings.Replace(read(t, p.path("small.yaml")), "text: text.txt", "text: words.txt, tokenizer: ours", 1))
	p.write(t, "words.txt", manyWords(60_000))
	ok(t, p.command("tokenize", "train", "ours", "--text", "text.txt", "--vocab-size", "300").withoutAdapter())
	ok(t, p.command("train", "words.yaml", "--run-dir", "run", "--set", "train.steps=4", "--progress", "none"))
	inputs := names(t, p.dir)
	for n, s := range stoppedCommands() {
		t.Run(s.name, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, uint64(len(s.name))))
			t.Logf("seed %d", seed)
			whole, took := p.undisturbedCommand(t, s)
			moments := 6
			switch {
			case soak():
				moments = 50
			case s.adapter: // takes seconds
				moments = 2
			}
			for i := range moments {
				signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}[(n+i)%3]
				after := time.Duration(chance.Int64N(int64(took + took/20)))
				run := p.fresh(t, s).start(t)
				select {
				case <-run.over:
				case <-time.After(after):
				}
				_ = run.cmd.Process.Signal(signal) // it may have ended
				first := run.wait(t)
				what := fmt.Sprintf("stop %d, %v after %v of %v, code %d", i, signal, after.Round(time.Millisecond), took.Round(time.Millisecond), first.code)
				if s.resumes && first.code != -1 { // which it is where the process has ended, or had not yet begun to listen
					assert.Contains(t, []int{0, 3}, first.code, "%s: %s", what, first.err)
				}
				left := names(t, p.dir)
				for _, name := range left {
					if slices.Contains(inputs, name) || name == "out" || matches("out/("+kept+")", name) || matches(s.leaves, name) || matches(s.again, name) {
						continue
					}
					assert.True(t, signal == syscall.SIGKILL && matches(s.killed, name), "%s: left %s\n%s", what, name, first.err)
				}
				t.Logf("%s: %d names, of these torn: %v", what, len(left), slices.DeleteFunc(slices.Clone(left), func(n string) bool { return !matches(s.killed, n) }))
				out := first.out
				if _, err := os.Stat(p.path(s.once)); s.once == "" || err != nil {
					again := p.out(s).run(t)
					require.Zero(t, again.code, "%s: again: %s", what, again.err)
					out = again.out
				}
				now := p.outcome(t, s, out)
				assert.Empty(t, differ(whole, now), what)
			}
		})
	}
}

// manyWords is a text of so many words, of which tokenizing takes its time.
func manyWords(n int) string {
	var b strings.Builder
	chance := rand.New(rand.NewPCG(1, 2))
	for range n {
		fmt.Fprintf(&b, "w%x ", chance.IntN(1<<20))
	}
	return b.String()
}

// fresh is the command in a place in which it has never been run.
func (p *place) fresh(t *testing.T, s stopped) command {
	t.Helper()
	require.NoError(t, os.RemoveAll(p.path("out")))
	require.NoError(t, os.MkdirAll(p.path("out", "tmp"), 0o777))
	require.NoError(t, os.MkdirAll(p.path("out", "cache"), 0o777))
	for _, pattern := range []string{"texels-*.json", "power-*.json"} { // what is known of the adapter is not measured again
		found, err := filepath.Glob(filepath.Join(workshop, pattern))
		require.NoError(t, err)
		for _, path := range found {
			require.NoError(t, os.WriteFile(p.path("out", "cache", filepath.Base(path)), []byte(read(t, path)), 0o666))
		}
	}
	return p.out(s)
}

func (p *place) out(s stopped) command {
	return p.command(s.args...).with(func(c *command) {
		c.env = []string{"GPUTRAIN_CACHE=" + p.path("out", "cache"), "TMPDIR=" + p.path("out", "tmp")}
	})
}

// undisturbedCommand is what the command leaves that nothing has stopped, and how long it takes.
func (p *place) undisturbedCommand(t *testing.T, s stopped) (outcome, time.Duration) {
	t.Helper()
	begin := time.Now()
	r := ok(t, p.fresh(t, s))
	took := time.Since(begin)
	o := p.outcome(t, s, r.out)
	require.NotEmpty(t, o)
	for name := range o {
		require.False(t, matches(s.killed, name), "%s is called as what a killed one leaves", name)
	}
	return o, took
}

// numbered are names with what differs from process to process.
var numbered = regexp.MustCompile(`/events\.[^/]*$`)

// outcome is what is in the folder out: its names, and the content of the files that must be the same.
func (p *place) outcome(t *testing.T, s stopped, out string) outcome {
	t.Helper()
	o := outcome{}
	for _, name := range names(t, p.dir) {
		switch {
		case !strings.HasPrefix(name, "out") || matches(s.again, name) || name == "out/cache/tokens" || strings.HasSuffix(name, ".sums"): // a hash is kept of a text that is old enough
		case matches(s.same, name):
			o[name] = read(t, p.path(name))
		default:
			o[numbered.ReplaceAllString(name, "/events")] = ""
		}
	}
	if s.name == "tokenize encode" {
		o["what it says"] = out
	}
	return o
}

func matches(pattern, name string) bool {
	return pattern != "" && regexp.MustCompile(`^(`+pattern+`)$`).MatchString(name)
}

// names are those of all that is in a folder, as paths below it.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name != "." {
			all = append(all, name)
		}
		return err
	}))
	return all
}
