package tests

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/state/checkpoint"
)

// withHeader is a safetensors file: the length of the header, the header, the data.
func withHeader(header, data string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data
}

// Model files that are truncated, corrupted or made to do harm are refused with the file's name and what is wrong, by every command that reads
// them, and before a device is opened. The same file untouched is taken.
func TestHostileModels(t *testing.T) {
	t.Parallel()
	p, _ := undisturbedRun(t)
	checkpoint := p.path("whole", "checkpoints", checkpoint.DirName(steps))
	good := read(t, filepath.Join(checkpoint, "model.safetensors"))
	end := 8 + int(binary.LittleEndian.Uint64([]byte(good)))
	header, data := strings.TrimRight(good[8:end], " "), good[end:]
	var tensors map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(header), &tensors))
	// changed is the file with another description of one tensor, the embedding of 256 x 32.
	const victim = "wte.weight"
	require.Contains(t, tensors, victim)
	begin := uint64(tensors[victim]["data_offsets"].([]any)[0].(float64))
	changed := func(key, value string) string {
		var all map[string]map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(header), &all))
		require.Contains(t, all[victim], key)
		all[victim][key] = json.RawMessage(value)
		raw, err := json.Marshal(all)
		require.NoError(t, err)
		return withHeader(string(raw), data)
	}
	offsets := func(from, to uint64) string {
		raw, err := json.Marshal([]uint64{from, to})
		require.NoError(t, err)
		return string(raw)
	}
	for name, c := range map[string]struct{ content, says string }{
		"empty":               {"", "0 bytes"},
		"a few bytes":         {"abc", "3 bytes"},
		"truncated data":      {good[:len(good)-100], "bytes"},
		"truncated header":    {good[:end/2], "header"},
		"huge header":         {"\xff\xff\xff\xff\xff\xff\xff\x7f" + good[8:], "header"},
		"negative header":     {"\xff\xff\xff\xff\xff\xff\xff\xff" + good[8:], "header"},
		"header beyond file":  {string(binary.LittleEndian.AppendUint64(nil, 50<<20)) + good[8:], "header"},
		"no JSON":             {withHeader("[1, 2", data), "header"},
		"a list":              {withHeader("[1, 2]", data), "header"},
		"nested deeply":       {withHeader(strings.Repeat(`{"wte.weight":`, 100_000), data), victim},
		"bytes at the end":    {good + "more", "bytes"},
		"overlap":             {changed("data_offsets", offsets(begin-4, begin-4+256*32*4)), victim},
		"gap":                 {changed("data_offsets", offsets(begin+4, begin+4+256*32*4)), victim},
		"beyond the end":      {changed("data_offsets", offsets(begin, begin+1<<40)), victim},
		"backwards":           {changed("data_offsets", offsets(begin+256*32*4, begin)), victim},
		"negative offset":     {changed("data_offsets", "[-4, 4]"), "data_offsets"},
		"wrong length":        {changed("shape", "[256, 33]"), victim},
		"overflowing shape":   {changed("shape", "[4294967296, 4294967296, 4294967296]"), victim},
		"negative shape":      {changed("shape", "[-256, -32]"), "shape"},
		"fraction of a shape": {changed("shape", "[256.5, 32]"), "shape"},
		"NaN shape":           {strings.Replace(good, `"shape":[256,32]`, `"shape":[NaN,32]`, 1), "header"},
		"null shape":          {changed("shape", "null"), victim},
		"other shape":         {changed("shape", "[32, 256]"), victim},
		"other type":          {changed("dtype", `"Q4"`), victim},
		"twice":               {withHeader(header[:len(header)-1]+`,"wte.weight":`+header[strings.Index(header, `"wte.weight":`)+len(`"wte.weight":`):], data), victim},
		"one missing":         {strings.Replace(good, `"wte.weight"`, `"wtf.weight"`, 1), victim},
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
