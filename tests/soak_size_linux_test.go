package tests

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// realSize is the config.json of SmolLM2-135M.
const realSize = `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "num_hidden_layers": 30, "hidden_size": 576,
"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 8192,
"tie_word_embeddings": true, "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "attention_bias": false, "torch_dtype": "bfloat16"}`

const (
	realSteps      = 4
	realParameters = 134_515_008
	realCopy       = 12 * realParameters // of a checkpoint: parameters and two moments
	realReserve    = 512 << 20           // that a run leaves to others, of memory below 10 GiB
)

// A model of real size is trained in the memory that was planned for it, within a tenth, saves included. In a memory group that has that and no room for a
// copy of a checkpoint, training waits for its saves; killed inside of one it is resumed, to the bits of a run that was left alone.
func TestSoakRealSize(t *testing.T) {
	if dir := os.Getenv("GPUTRAIN_TEST_SIZE"); dir != "" {
		trainRealSize(t, dir)
		return
	}
	if !soak() {
		t.Skip("skipped, needs GPUTRAIN_SOAK=1 and some minutes")
	}
	p := newPlace(t)
	writeRealSize(t, p.path("model"))

	ended := ok(t, ofRealSize(t, p.path("alone"), ""))
	planned := requirePlanned(t, p.path("alone"))
	assert.NotContains(t, ended.err, "training waits")
	want := weightsOf(t, p.path("alone"))

	group := memoryGroup(t, planned-realCopy+realReserve+8<<20)
	killed := ofRealSize(t, p.path("killed"), group).start(t)
	require.True(t, killed.until(t, "a third checkpoint being written", func() bool {
		all := unfinished(t, p.path("killed"))
		return len(all) > 0 && strings.Contains(all[0], checkpoint.DirName(3))
	}), killed.err)
	most := residentMost(t, killed.cmd.Process.Pid)
	t.Logf("killed at %s at most, planned %s", gpu.SizeText(most), gpu.SizeText(planned-realCopy))
	assert.InEpsilon(t, planned-realCopy, most, 0.1)
	require.NoError(t, killed.cmd.Process.Kill())
	killed.wait(t)
	require.EqualValues(t, 2, newest(t, p.path("killed")))
	ended = ok(t, ofRealSize(t, p.path("killed"), group))
	requireResumed(t, ended.err, 2)
	if group != "" {
		assert.Contains(t, ended.err, "training waits")
		assert.InDelta(t, planned-realCopy, requirePlanned(t, p.path("killed")), 16<<20)
	}
	assert.Equal(t, want, weightsOf(t, p.path("killed")))
}

// writeRealSize writes a model of real size with weights that are drawn.
func writeRealSize(t *testing.T, dir string) {
	t.Helper()
	from := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "config.json"), []byte(realSize), 0o666))
	def, err := hub.ReadConfig(from)
	require.NoError(t, err)
	require.EqualValues(t, realParameters, model.Parameters(def))
	sizes := map[string]int{}
	for _, s := range model.Specs(def) {
		sizes[s.Path] = 1
		for _, n := range s.Shape {
			sizes[s.Path] *= n
		}
	}
	chance := rand.New(rand.NewPCG(135, 2))
	draw := func(path string) ([]float32, error) {
		out := make([]float32, sizes[path])
		for i := range out {
			if strings.Contains(path, "norm") {
				out[i] = 1
			} else {
				out[i] = 0.02 * float32(chance.NormFloat64())
			}
		}
		return out, nil
	}
	require.NoError(t, model.Export(dir, def, draw, model.ExportOptions{DType: "BF16"}))
}

// ofRealSize is a process of its own that trains in a run directory, beside which the model is, in a memory group if there is one.
func ofRealSize(t *testing.T, dir, group string) command {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	into := os.DevNull
	if group != "" {
		into = filepath.Join(group, "cgroup.procs")
	}
	args := []string{"-c", `echo $$ >"$1" && shift && exec "$@" >&2`, "sh", into, program, "-test.run=^TestSoakRealSize$", "-test.timeout=1h"}
	return command{program: "/bin/sh", dir: filepath.Dir(dir), args: args, env: []string{"GPUTRAIN_TEST_SIZE=" + dir}}
}

// trainRealSize trains on a device of small limits: no buffer and no binding of it has the embedding whole.
func trainRealSize(t *testing.T, dir string) {
	sets := []string{
		"model.from=model", "model.context=128", "data.text=text.txt", "data.tokens=bytes", "data.cache=cache", "train.batch=1", fmt.Sprint("train.steps=", realSteps),
		"train.save_every=1", "train.keep=1", "train.eval_every=0", "train.sample_every=0",
	}
	cfg, err := runfile.ReadAll(nil, nil, sets)
	require.NoError(t, err)
	begun, err := setup.Earlier(dir, false)
	require.NoError(t, err)
	run, release, err := setup.Resume(t.Context(), cfg, setup.Resumed{Earlier: begun}, os.Stderr)
	require.NoError(t, err)
	defer release()
	run.Dir, run.Progress = dir, "plain"
	adapters, err := setup.Adapters(cfg, os.Getenv("GPUTRAIN_ADAPTER"))
	require.NoError(t, err)
	options, err := setup.DeviceOptions(cfg, adapters...)
	require.NoError(t, err)
	options.Limits = &gpu.Limits{BufferBytes: 64 << 20, BindingBytes: 32 << 20}
	dev, err := gpu.Open(t.Context(), adapters[0], options)
	require.NoError(t, err)
	defer dev.Release()
	_, err = train.Run(t.Context(), dev, run)
	require.NoError(t, err)
}

var memoryRow = regexp.MustCompile(`(?m)^\| process, in the machine's memory \| ([0-9.]+) ([MG])iB \| [^|]* \| ([0-9.]+) ([MG])iB \|$`)

// requirePlanned holds what a run's process took to what was planned for it, which it returns.
func requirePlanned(t *testing.T, dir string) uint64 {
	t.Helper()
	found := memoryRow.FindStringSubmatch(read(t, filepath.Join(dir, "report.md")))
	require.NotNil(t, found)
	bytes := func(amount, unit string) uint64 {
		return uint64(number(t, amount) * map[string]float64{"M": 1 << 20, "G": 1 << 30}[unit])
	}
	planned, most := bytes(found[1], found[2]), bytes(found[3], found[4])
	t.Logf("%s: planned %s, taken %s at most", filepath.Base(dir), gpu.SizeText(planned), gpu.SizeText(most))
	assert.InEpsilon(t, planned, most, 0.1)
	return planned
}

// residentMost is the most that a process has had in memory.
func residentMost(t *testing.T, pid int) uint64 {
	t.Helper()
	_, text, found := strings.Cut(read(t, fmt.Sprintf("/proc/%d/status", pid)), "VmHWM:")
	require.True(t, found)
	kib, err := strconv.ParseUint(strings.Fields(text)[0], 10, 64)
	require.NoError(t, err)
	return kib << 10
}

// weightsOf are the sums of what a run's last checkpoint has of parameters and moments.
func weightsOf(t *testing.T, dir string) (sums []string) {
	t.Helper()
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		f, err := os.Open(filepath.Join(dir, "checkpoints", checkpoint.DirName(realSteps), name))
		require.NoError(t, err)
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		sums = append(sums, fmt.Sprintf("%s %x", name, sum.Sum(nil)))
	}
	return sums
}

// memoryGroup is a control group of so many bytes below the test's own, of version 1 or 2; "" where the machine gives none.
func memoryGroup(t *testing.T, bytes uint64) string {
	t.Helper()
	for line := range strings.Lines(read(t, "/proc/self/cgroup")) { // "4:memory:/a/b", or "0::/a/b" of version 2
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, limit := "/sys/fs/cgroup", "memory.max"
		switch {
		case parts[1] == "memory":
			root, limit = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case parts[0] != "0":
			continue
		}
		dir := filepath.Join(root, parts[2], fmt.Sprint("gputrain-test-", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Logf("no memory group: %v", err)
			continue
		}
		t.Cleanup(func() { assert.NoError(t, os.Remove(dir)) })
		if err := writeExisting(filepath.Join(dir, limit), strconv.FormatUint(bytes, 10)); err != nil {
			t.Logf("no memory group: %v", err)
			continue
		}
		t.Logf("memory group %s of %s", dir, gpu.SizeText(bytes))
		return dir
	}
	return ""
}

// writeExisting writes to a file that is there, as those of control groups are.
func writeExisting(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
