package train

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/model"
	"gputrain/run/record"
	"gputrain/state"
)

// base writes what says that a directory has its parameters from another one.
func base(t *testing.T, dir, directory string) {
	t.Helper()
	text, err := model.Base{Directory: directory, Fingerprint: "sha256:0"}.Text()
	require.NoError(t, err)
	put(t, "", map[string]string{filepath.Join(dir, model.BaseFile): string(text)})
}

// A fresh start removes nothing that the run reads, however that is come to; what lies beside it in the run directory is not in its way.
func TestFreshStartKeepsWhatIsRead(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	at := func(path string) string { return filepath.Join(root, path) }
	step := "run/checkpoints/step-00000006"
	put(t, "", map[string]string{
		step + "/config.json": "{}", step + "/model.safetensors": "x", "run/metrics.jsonl": `{"step":1,"loss":1,"grad_norm":1}` + "\n", "run/notes.txt": "mine",
		"run/config.json": "{}", "text.txt": "text",
	})
	require.NoError(t, os.Symlink("run", "link"))
	require.NoError(t, os.Mkdir("far", 0o777))
	require.NoError(t, os.Symlink("../run/metrics.jsonl", "far/text.txt"))
	require.NoError(t, os.Symlink("far/text.txt", "twice.txt"))
	require.NoError(t, os.Symlink("run/checkpoints/step-00000006", "deep"))
	base(t, "part", at("middle"))
	base(t, "middle", at(step))
	d := &runDir{path: "run"}
	for _, c := range []Config{
		{From: step},
		{From: at(step)},
		{From: "link/checkpoints/step-00000006"},
		{From: "part"},
		{LoRA: Adapters{From: "./link/../run/checkpoints/step-00000006"}},
		{LoRA: Adapters{From: "deep"}},
		{Reads: []Read{{"run file", "deep/../../metrics.jsonl"}}}, // the link first, then ..
		{Reads: []Read{{"data.tokenizer", step + "/tokenizer.json"}}},
		{Reads: []Read{{"data.text", "text.txt"}, {"data.text", "run/metrics.jsonl"}}},
		{Reads: []Read{{"data.jsonl", "far/text.txt"}}},
		{Reads: []Read{{"data.mixture", "twice.txt"}}},
	} {
		err := d.checkFresh(c)
		var refused *DirError
		require.ErrorAs(t, err, &refused, "%v", c)
		key := c.reads()[0].Key
		assert.ErrorContains(t, err, key+": found ")
		assert.ErrorContains(t, err, "which would be removed; choose another run directory")
		changed := &ChangedError{NotFresh: false}
		require.ErrorIs(t, d.advised(c, changed), changed)
		assert.NotContains(t, changed.Error(), "--fresh")
	}
	for _, c := range []Config{{}, {From: "run"}, {From: "far/none"}, {LoRA: Adapters{From: "far/../run"}}, {Reads: []Read{{"data.text", "run/notes.txt"}, {"data.text", "text.txt"}}}} {
		require.NoError(t, d.checkFresh(c), "%v", c)
		changed := &ChangedError{}
		require.ErrorIs(t, d.advised(c, changed), changed)
		assert.Contains(t, changed.Error(), "or start over with --fresh")
	}
}

// What checkpoints leave out lies outside of the directory in which they come and go.
func TestBaseOutsideOfTheRun(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	put(t, "", map[string]string{"run/checkpoints/step-00000006/config.json": "{}", "origin/config.json": "{}", "runs/config.json": "{}"})
	require.NoError(t, os.Symlink("run", "link"))
	base(t, "part", filepath.Join(root, "link/checkpoints/step-00000006"))
	for dir, fine := range map[string]bool{"": true, "origin": true, "runs": true, "run/checkpoints/step-00000006": false, "link": false, "run": false, "part": false} {
		err := Config{Dir: "run", State: state.Config{Base: dir}}.checkBase()
		if fine {
			require.NoError(t, err, dir)
		} else {
			require.ErrorContains(t, err, "wanted them outside of the run's own directory", dir)
		}
	}
}

// Another directory is the one that a run began with if it has the same parameters; those that were drawn are in none.
func TestDirectoryThatHasMoved(t *testing.T) {
	c := Config{
		Dir: t.TempDir(), From: t.TempDir(), Drawn: []string{"b"},
		Params: []buffers.Host{{Path: "a", Shape: []int{2}, Data: []float32{1, 2}}, {Path: "b", Shape: []int{1}, Data: []float32{3}}},
	}
	origin, err := model.Fingerprint(c.Params[:1])
	require.NoError(t, err)
	noted, err := record.Read(append([]byte("# else\n"), record.Record{Origin: origin}.Head()...))
	require.NoError(t, err)
	assert.Equal(t, origin, noted.Origin)
	is, err := json.Marshal(c.From)
	require.NoError(t, err)
	moved := record.Change{Key: "model.from", Was: `"/was"`, Is: string(is)}
	said, err := c.follow(moved, origin)
	require.NoError(t, err)
	assert.Equal(t, "model.from: "+c.From+" has what /was had, "+origin[:19]+": the run goes on with it there", said)

	var changed *ChangedError
	_, err = c.follow(moved, "")
	require.ErrorAs(t, err, &changed)
	assert.ErrorContains(t, err, "run.yaml does not say what it had")
	c.Params[0].Data = []float32{1, 3}
	_, err = c.follow(moved, origin)
	require.ErrorAs(t, err, &changed)
	found, failed := model.Fingerprint(c.Params[:1])
	require.NoError(t, failed)
	assert.ErrorContains(t, err, "fingerprint "+found+", wanted "+origin)
	c.From = filepath.Join(c.Dir, checkpointsDir)
	_, err = c.follow(moved, origin)
	require.ErrorAs(t, err, &changed)
	assert.Empty(t, changed.Why, "a run's own checkpoint says nothing of another directory")
}

// A process whose folder is gone takes a run directory all the same.
func TestTakeDirFromAFolderThatIsGone(t *testing.T) {
	dir, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	if os.Remove(here) != nil {
		t.Skip("a folder in which a process stands cannot be removed here")
	}
	d, err := takeDir(dir)
	require.NoError(t, err)
	d.release()
	m, err := ReadMarker(dir)
	require.NoError(t, err)
	assert.Empty(t, m.From)
}
