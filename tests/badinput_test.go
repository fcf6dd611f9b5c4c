package tests

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
)

// refused runs a command that cannot be meant and asserts its exit code and what it says. It never says it with a stack, and never writes
// to standard output.
func refused(t *testing.T, c command, code int, says ...string) ended {
	t.Helper()
	r := c.run(t)
	assert.Equal(t, code, r.code, r.err)
	assert.Empty(t, r.out)
	said := strings.Split(strings.TrimSpace(r.err), "\n")
	assert.Regexp(t, `(?m)^gputrain: `, r.err)
	for _, s := range says {
		assert.Contains(t, r.err, s)
	}
	for _, line := range said {
		assert.NotRegexp(t, `^(goroutine |panic:|thread '|fatal )`, line)
	}
	return r
}

// hubName is how a model is had whose name on the hub was given.
const hubName = "hf download Qwen/Qwen3-0.6B --local-dir models/Qwen3-0.6B"

// What cannot be meant ends a command with code 2 and the place, whichever package refuses it, before anything is begun. Messages are held by the tests of those
// packages.
func TestBadRunFilesAndFlags(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(t, "misspelt.yaml", "train:\n  steps: 3\n  sav_every: 3\n")
	p.write(t, "optimizer.yaml", "optimizer:\n  name: adamw\n  b3: 0.9\n")
	p.write(t, "short.txt", "too short for a window")
	p.write(t, "events/events.out.tfevents.1", "")
	set := func(values ...string) []string {
		args := []string{"train", "run.yaml", "--run-dir", "run"}
		for _, v := range values {
			args = append(args, "--set", v)
		}
		return args
	}
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"misspelt key":      {[]string{"train", "misspelt.yaml"}, []string{`misspelt.yaml:3: unknown key "train.sav_every", did you mean "train.save_every"?`}},
		"no run file":       {[]string{"train", "absent.yaml"}, []string{"absent.yaml", "no such file"}},
		"explain too":       {[]string{"config", "explain", "misspelt.yaml"}, []string{"misspelt.yaml:3:"}},
		"unknown parameter": {[]string{"train", "run.yaml", "optimizer.yaml"}, []string{`optimizer.yaml:3: unknown key "optimizer.b3" of adamw`, `did you mean "b1"?`}},
		"unknown command":   {[]string{"trian"}, []string{`did you mean "train"?`}},
		"unknown flag":      {[]string{"train", "--run-dri", "x"}, []string{"--run-dri", `did you mean "--run-dir"?`}},
		"progress":          {[]string{"train", "run.yaml", "--progress", "loud"}, []string{"auto", "bar", "plain", "json", "none"}},
		"set misspelt":      {set("train.stpes=3"), []string{`did you mean "train.steps"?`}},
		"batch 0":           {set("train.batch=0"), []string{"train.batch (--set): found 0, wanted 1 or more"}},
		"rate 1e30":         {set("optimizer.learning_rate=1e30"), []string{"optimizer.learning_rate", "1e+30", "wanted 0 to 1e+06"}},
		"optimizer":         {set("optimizer.name=adamx"), []string{`did you mean "adamw"?`}},
		"decay of nothing":  {set("optimizer.decay_mask=[^nope]"), []string{`pattern "^nope": matches none of the`}},
		"odd heads":         {set("model.heads=3"), []string{"width: 32, want a multiple of heads 3"}},
		"no text":           {set("data.text=absent.txt"), []string{`"absent.txt"`, "does not exist"}},
		"short text":        {set("data.text=short.txt", "data.validation=0"), []string{"short.txt: 22 bytes found, want at least 33"}},
		"no model":          {set("model.from=absent"), []string{"absent", "config.json"}},
		"eval of nothing":   {[]string{"eval", "."}, []string{"found neither config.json nor checkpoints"}},
		"no directory":      {[]string{"train", "run.yaml", "--run-dir", ""}, []string{"--run-dir: found nothing, wanted a path"}},
		"no list":           {[]string{"eval", ".", "--text", ""}, []string{"--text: found nothing, wanted GLOB"}},
		"no text in bytes":  {[]string{"train", "run.yaml", "--run-dir", "caf\xe9"}, []string{`argument "caf\xe9": found bytes that are not UTF-8`}},
		"chat with a name":  {[]string{"chat", "Qwen/Qwen3-0.6B"}, []string{hubName}},
		"tune a name":       {[]string{"tune", "https://huggingface.co/Qwen/Qwen3-0.6B", "chats.jsonl"}, []string{hubName}},
		"tune on a name":    {[]string{"tune", ".", "HuggingFaceH4/no_robots"}, []string{"hf download HuggingFaceH4/no_robots --repo-type dataset --local-dir data/no_robots, and name data/no_robots"}},
		"show a name":       {[]string{"show", "Qwen/Qwen3-0.6B"}, []string{hubName}},
		"train from a name": {set("model.from=Qwen/Qwen3-0.6B"), []string{hubName}},
		"tokens by a name":  {[]string{"tokenize", "show", "Qwen/Qwen3-0.6B"}, []string{hubName}},
		"events":            {[]string{"inspect", "events"}, []string{"events: found event files of TensorBoard", "look at them with tensorboard --logdir " + p.path("events")}},
		"a file of events":  {[]string{"inspect", "events/events.out.tfevents.1"}, []string{"look at them with tensorboard --logdir " + p.path("events")}},
		"inspect nothing":   {[]string{"inspect", "absent"}, []string{"absent", "no such file"}},
		"no case":           {[]string{"doctor", "--cases", "."}, []string{"found no case.json"}},
		"optimizers":        {[]string{"optimizers", "adamx"}, []string{`did you mean "adamw"?`}},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, p.command(c.args...).withoutAdapter(), 2, c.says...)
		})
	}
	assert.NoDirExists(t, p.path("run"), "nothing is begun")
	assert.NoDirExists(t, p.path("runs"))
}

func TestBadAdapters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	adapters := gputest.Adapters(t)
	for _, c := range [][]string{{"train", "run.yaml", "--run-dir", "run"}, {"doctor"}, {"bench"}} {
		r := refused(t, p.command(append(c, "--adapter", "no such card")...), 2, `"no such card": matches none of:`)
		for _, a := range adapters {
			assert.Contains(t, r.err, a.String(), "they are listed")
		}
	}
	refused(t, p.train("run", "--adapter", "99"), 2, `"99": no such index`)
	refused(t, p.train("run").with(func(c *command) { c.env = []string{"GPUTRAIN_ADAPTER=no such card"} }), 2, "matches none of")
	assert.NoDirExists(t, p.path("run"))
	if len(adapters) > 1 && adapters[0].Name == adapters[1].Name {
		refused(t, p.train("run", "--adapter", adapters[0].Name), 2, "matches ", "say which by index or backend:part", adapters[1].String())
	}
}

// Without any driver the program says what to install.
func TestNoAdapter(t *testing.T) {
	p := newPlace(t)
	for name, env := range map[string][]string{
		"Mesa without drivers":    {"LIBGL_DRIVERS_PATH=/nonexistent"},
		"no OpenGL driver at all": {"__EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			hidden := p.command("devices").withoutAdapter().with(func(c *command) {
				c.env = append(env, "VK_ICD_FILENAMES=/nonexistent", "VK_DRIVER_FILES=/nonexistent", "EGL_LOG_LEVEL=fatal")
			})
			if r := hidden.run(t); r.code == 0 {
				t.Skipf("skipped, the adapters of this machine cannot be hidden:\n%s", r.out)
			}
			for _, args := range [][]string{{"devices"}, {"devices", "--json"}, {"train", "run.yaml"}, {"doctor"}, {"bench"}} {
				refused(t, hidden.with(func(c *command) { c.args = args }), 7, "no usable adapter", "install a Vulkan driver, or ")
			}
		})
	}
	assert.NoDirExists(t, p.path("runs"))
}

// A model that does not fit is refused before the first step, with the figures and what to lower.
func TestModelsThatDoNotFit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, c := range map[string]struct {
		set  []string
		says []string
	}{
		"limit, smaller batch": {[]string{"train.memory_limit=2MiB", "train.batch=32"}, []string{
			"MiB wanted, the memory limit is 2.0 MiB; params ", "activations and workspace", "lower batch from 32 to ", "raise accumulate from 2 to ", "instead of ",
		}},
		"limit, no batch helps": {[]string{"train.memory_limit=100KiB"}, []string{"the memory limit is 100.0 KiB", "params, gradients and optimizer alone take", "choose a smaller model"}},
		"more than any machine": {[]string{"model.layers=24", "model.width=16384", "model.heads=128"}, []string{
			"TiB|GiB wanted", "the machine's available memory|the adapter", "params, gradients and optimizer alone take", "choose a smaller model",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"train", "run.yaml", "--run-dir", "run", "--progress", "plain"}
			for _, s := range c.set {
				args = append(args, "--set", s)
			}
			r := refused(t, p.command(args...), 5)
			for _, s := range c.says {
				assert.Regexp(t, strings.ReplaceAll(strings.ReplaceAll(s, "(", `\(`), ".", `\.`), r.err)
			}
			assert.NotContains(t, r.err, "compile kernels", "before any work")
			assert.Empty(t, metricsOf(t, p.path("run")))
		})
	}
	if testing.Short() {
		return
	}
	// What it says to lower does fit.
	r := p.train("run", "--set", "train.memory_limit=2MiB", "--set", "train.batch=32").run(t)
	lower := regexp.MustCompile(`lower batch from 32 to (\d+) \(and raise accumulate from 2 to (\d+).* and set train.accumulation to (sequence): `).FindStringSubmatch(r.err)
	require.NotNil(t, lower, r.err)
	ok(t, p.train("run", "--set", "train.memory_limit=2MiB", "--set", "train.batch="+lower[1], "--set", "train.accumulate="+lower[2], "--set", "train.accumulation="+lower[3],
		"--set", "train.steps=6", "--set", "train.sample_tokens=0"))
}

// A model whose weights are not finite is not trained, and nothing that is made of it looks sound.
func TestWeightsThatAreNotFinite(t *testing.T) {
	gputest.Long(t, "TestHostileModels")
	from, _ := undisturbedRun(t)
	p := newPlace(t)
	for _, name := range []string{"config.json", "model.safetensors"} {
		p.write(t, "model/"+name, read(t, from.path("whole", "checkpoints", checkpoint.DirName(steps), name)))
	}
	p.write(t, "text.txt", lines(300))
	p.change(t, "model/model.safetensors", "wpe.weight", 3, float32(math.NaN()))
	named := `tensor "wpe.weight": found 1 of `
	refused(t, p.train("run", "--set", "model.from=model"), 6, named, "numbers NaN or infinite, wanted none (model)")
	refused(t, p.command("eval", "model", "--text", "text.txt"), 6, named, "eval: found a loss of NaN, wanted a finite one")
	assert.Contains(t, ok(t, p.command("export", "model", "--to", "out").withoutAdapter()).err, named)
}

func TestRunDirectoryOfAnotherRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	short := []string{"--set", "train.steps=6"}
	ok(t, p.train("run", short...))
	before := read(t, p.path("run", "checkpoints", "step-00000006", "model.safetensors")) + read(t, p.path("run", "metrics.jsonl"))

	refused(t, p.train("run", append(short, "--set", "train.batch=1")...), 2, "train.batch: found 2, wanted 1", "--fresh", p.path("run"))
	refused(t, p.train("run", append(short, "--set", "model.width=16")...), 2, "model.width: found 32, wanted 16")
	p.write(t, "text.txt", lines(300))
	refused(t, p.train("run", short...), 2, "fingerprint of the text")
	p.write(t, "text.txt", lines(400))
	assert.Equal(t, before, read(t, p.path("run", "checkpoints", "step-00000006", "model.safetensors"))+read(t, p.path("run", "metrics.jsonl")), "nothing is lost")

	if testing.Short() {
		return
	}
	// What only says how often to save may change.
	r := ok(t, p.train("run", append(short, "--set", "train.save_every=1")...))
	assert.Contains(t, r.err, "all 6 steps are made")

	// A checkpoint of another model among the settings of this one.
	ok(t, p.train("other", append(short, "--set", "model.layers=1")...))
	require.NoError(t, os.RemoveAll(p.path("run", "checkpoints")))
	require.NoError(t, os.Rename(p.path("other", "checkpoints"), p.path("run", "checkpoints")))
	refused(t, p.train("run", short...), 6, "n_layer: found 1, wanted 2", "belongs to another run")
	assert.DirExists(t, p.path("run", "checkpoints", "step-00000006"))

	// A file in its place.
	refused(t, p.train("text.txt"), 2, p.path("text.txt"), "not a directory")
}

// Two processes never train in one directory.
func TestRunDirectoryInUse(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	run := p.train("run").start(t)
	run.says(t, "compile kernels")
	refused(t, p.train("run"), 2, "another process is training in it", p.path("run"))
	require.True(t, run.running())
}

// A damaged checkpoint is passed over, with a warning that names the tensor; a run with damaged ones alone does not begin again behind
// the user's back.
func TestDamagedCheckpoints(t *testing.T) {
	t.Parallel()
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "damaged")
	run := p.train("damaged").start(t)
	require.True(t, run.until(t, "checkpoints", func() bool { return newest(t, runDir) >= 2*saveEvery }))
	require.NoError(t, run.cmd.Process.Kill())
	run.wait(t)
	dirs, err := filepath.Glob(filepath.Join(runDir, "checkpoints", "step-????????"))
	require.NoError(t, err)
	require.Greater(t, len(dirs), 1)
	whole := map[string]string{}
	damage := func(dir string, change func(string) string) {
		file := filepath.Join(dir, "optimizer.safetensors")
		whole[file] = read(t, file)
		require.NoError(t, os.WriteFile(file, []byte(change(whole[file])), 0o666))
	}
	last := dirs[len(dirs)-1]
	damage(last, func(s string) string { return s[:len(s)-1] + string(s[len(s)-1]^1) })
	for _, dir := range dirs[:len(dirs)-1] {
		damage(dir, func(s string) string { return s[:len(s)/2] })
	}
	r := refused(t, p.train("damaged"), 6, "none of ", "checkpoints is whole", `tensor "nu/`)
	assert.NotContains(t, r.err, "compile kernels")
	refused(t, p.command("eval", "damaged").withoutAdapter(), 6, "none of ")
	refused(t, p.command("inspect", "damaged").withoutAdapter(), 6, "none of ")

	older := dirs[len(dirs)-2]
	require.NoError(t, os.WriteFile(filepath.Join(older, "optimizer.safetensors"), []byte(whole[filepath.Join(older, "optimizer.safetensors")]), 0o666))
	r = ok(t, p.train("damaged"))
	assert.Contains(t, r.err, "warning: passed over "+last)
	assert.Contains(t, r.err, "resumed from "+older)
	requireSame(t, want, outcomeOf(t, runDir))
}
