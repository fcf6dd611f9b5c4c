package tests

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/state/checkpoint"
)

// Model files that are truncated, corrupted or made to do harm are refused with the file's name and what is wrong, by every command that reads
// them, and before a device is opened. The same file untouched is taken. What else is refused of a file safetensors.TestHostile has.
func TestHostileModels(t *testing.T) {
	t.Parallel()
	p, _ := undisturbedRun(t)
	checkpoint := p.path("whole", "checkpoints", checkpoint.DirName(steps))
	good := read(t, filepath.Join(checkpoint, "model.safetensors"))
	nested := strings.Repeat(`{"wte.weight":`, 100_000)
	for name, c := range map[string]struct{ content, says string }{
		"empty":          {"", "0 bytes"},
		"truncated data": {good[:len(good)-100], "bytes"},
		"huge header":    {"\xff\xff\xff\xff\xff\xff\xff\x7f" + good[8:], "header"},
		"nested deeply":  {string(binary.LittleEndian.AppendUint64(nil, uint64(len(nested)))) + nested, "wte.weight"},
		"other shape":    {strings.Replace(good, `"shape":[256,32]`, `"shape":[32,256]`, 1), "wte.weight"},
		"one missing":    {strings.Replace(good, `"wte.weight"`, `"wtf.weight"`, 1), "wte.weight"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, good, c.content)
			m := newPlace(t)
			m.write(t, "model/config.json", read(t, filepath.Join(checkpoint, "config.json")))
			m.write(t, "model/model.safetensors", c.content)
			reads := [][]string{{"train", "run.yaml", "--set", "model.from=model"}, {"eval", "model", "--text", "text.txt"}}
			if name != "other shape" && name != "one missing" { // whole in themselves, but not this model's
				reads = append(reads, []string{"inspect", "--json", "model"})
			}
			if testing.Short() { // one of the commands, each of which meets a third of the files
				reads = reads[len(name)%len(reads):][:1]
			}
			for _, args := range reads {
				r := refused(t, m.command(args...), 6, "model", c.says)
				assert.NotContains(t, r.err, "compile kernels")
			}
			assert.NoDirExists(t, m.path("runs"))
		})
	}
	m := newPlace(t)
	m.write(t, "model/config.json", read(t, filepath.Join(checkpoint, "config.json")))
	m.write(t, "model/model.safetensors", good)
	ok(t, m.train("run", "--set", "model.from=model", "--set", "train.steps=6", "--set", "train.sample_tokens=0"))
	assert.Less(t, metricsOf(t, m.path("run"))[0]["loss"], 3.0, "it begins where the other has ended")
	// Once it has a checkpoint it needs nothing of the other.
	require.NoError(t, os.RemoveAll(m.path("model")))
	r := ok(t, m.train("run", "--set", "model.from=model", "--set", "train.steps=6", "--set", "train.sample_tokens=0"))
	assert.Contains(t, r.err, "model is not there any more; the run goes on without it")
	assert.Contains(t, r.err, "all 6 steps are made")
}
