package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/atomicfile"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/rollout"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state"
)

// taught is a folder with rows, and a teacher that has read them.
type taught struct {
	*testing.T
	dev    *gpu.Device
	folder string
}

func newTaught(t *testing.T) taught {
	s := taught{t, gputest.Device(t), t.TempDir()}
	var rows strings.Builder
	for i := range 24 {
		fmt.Fprintf(&rows, "{\"q\": \"say %d: \", \"text\": \"%s\"}\n", i%3, strings.Repeat(string(rune('a'+i%5)), 3+i%7))
	}
	require.NoError(t, os.WriteFile(s.at("rows.jsonl"), []byte(rows.String()), 0o666))
	require.NoError(t, os.WriteFile(s.at("run.yaml"), []byte(`
model:     {layers: 1, heads: 1, width: 8, context: 24}
data:      {jsonl: [`+s.at("rows.jsonl")+`], prompt_field: q, validation: 0.25}
optimizer: {learning_rate: 0.02}
train:     {steps: 8, sample_tokens: 0, save_every: 4, eval_every: 8, recompute: none}
`), 0o666))
	s.run("teacher", "model.width=12", "train.steps=30", "train.save_every=30", "train.eval_every=0")
	return s
}

func (s taught) at(name string) string { return filepath.Join(s.folder, name) }

// open makes the run of some settings.
func (s taught) open(sets ...string) (*runfile.Config, train.Config, func(), error) {
	cfg, err := runfile.ReadAll([]string{s.at("run.yaml")}, nil, sets)
	require.NoError(s, err)
	run, release, err := Train(s.Context(), cfg, io.Discard)
	return cfg, run, release, err
}

// ran is what a run has come to.
type ran struct {
	checkpoint        string
	first, last, eval struct {
		Loss   float64
		Eval   float64            `json:"eval_loss"`
		Means  map[string]float64 `json:"figures"`
		Evaled map[string]float64 `json:"eval_figures"`
	}
}

// run trains in a directory, or goes on there.
func (s taught) run(dir string, sets ...string) (r ran) {
	s.Helper()
	r.checkpoint = s.train(dir, sets...).Checkpoint
	raw, err := os.ReadFile(filepath.Join(s.at(dir), "metrics.jsonl"))
	require.NoError(s, err)
	for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		to := &r.last
		if strings.Contains(line, "eval_loss") {
			to = &r.eval
		}
		require.NoError(s, json.Unmarshal([]byte(line), to))
		if i == 0 {
			r.first = r.last
		}
	}
	return r
}

func (s taught) train(dir string, sets ...string) train.Result {
	s.Helper()
	cfg, run, release, err := s.open(sets...)
	require.NoError(s, err)
	defer release()
	run.Dir, run.Output = s.at(dir), io.Discard
	if cfg.Pipeline.Stages == 1 {
		r, err := train.Run(s.Context(), s.dev, run)
		require.NoError(s, err)
		return r
	}
	devices := slices.Repeat([]*gpu.Device{s.dev}, cfg.Pipeline.Stages)
	units, err := Units(cfg, run.State)
	require.NoError(s, err)
	cut, _, err := Cut(s.Context(), cfg, run.State, units, devices)
	require.NoError(s, err)
	r, err := train.RunOn(s.Context(), train.Pipelined(devices, Pipeline(cfg, cut)), run)
	require.NoError(s, err)
	return r
}

// saved are the files of a checkpoint that a run's bits follow from.
func (s taught) saved(r ran) []byte {
	var all []byte
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		raw, err := os.ReadFile(filepath.Join(r.checkpoint, name))
		require.NoError(s, err)
		all = append(all, raw...)
	}
	return all
}

// lists writes a file of lists by the teacher.
func (s taught) lists(name string, k int, temperature float64) string {
	cfg, err := runfile.ReadAll([]string{s.at("run.yaml")}, nil, []string{"data.validation=0"})
	require.NoError(s, err)
	b, err := Open(s.at("teacher"), io.Discard)
	require.NoError(s, err)
	defer b.Close()
	m, err := state.LoadModel(s.dev, b.Path("."))
	require.NoError(s, err)
	defer m.Release()
	tokens, err := ModelTokens(b, m.Definition())
	require.NoError(s, err)
	text, err := OpenText(s.Context(), Data(cfg, tokens, m.Definition(), 24), io.Discard)
	require.NoError(s, err)
	defer text.Close()
	part, err := atomicfile.OpenPart(s.at(name), "lists")
	require.NoError(s, err)
	require.NoError(s, Teaching{Head: ListsHead{TopK: k, Temperature: temperature, Vocab: 256}, Window: 24, Logits: m.EachLogits}.Write(s.Context(), part, text.Train.(*texts.Documents)))
	require.NoError(s, part.Finish())
	return s.at(name)
}

// A student comes nearer to its teacher; it has the same bits when it goes on and on stages, and its checkpoints have nothing of the teacher. A file of all of the
// teacher's tokens says what the teacher does, and one of few teaches too.
func TestAStudentLearns(t *testing.T) {
	s := newTaught(t)
	teacher := "distil.teacher=" + s.at("teacher")
	whole := s.run("whole", teacher)
	assert.Less(t, whole.last.Loss, 0.7*whole.first.Loss, "the divergence falls")
	assert.Positive(t, whole.last.Means["nll"])
	assert.Contains(t, whole.eval.Evaled, "perplexity")
	require.NoError(t, os.CopyFS(s.at("again"), os.DirFS(s.at("whole"))))
	require.NoError(t, os.RemoveAll(filepath.Join(s.at("again"), "checkpoints", "step-00000008")))
	assert.True(t, bytes.Equal(s.saved(whole), s.saved(s.run("again", teacher))), "going on changes the bits")
	assert.True(t, bytes.Equal(s.saved(whole), s.saved(s.run("stages", teacher, "pipeline.stages=2"))), "stages change the bits")
	assert.NotContains(t, string(s.saved(whole)), "teacher")
	record, err := os.ReadFile(s.at("whole/run.yaml"))
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^  teacher: ".*/teacher" .*\n  fingerprint: "sha256:[0-9a-f]{64}"`, string(record))

	hot := s.run("hot", teacher, "distil.temperature=2", "distil.beta=0.3")
	all := s.run("all", "distil.teacher="+s.lists("all.jsonl", 256, 2), "distil.beta=0.3")
	assert.InEpsilon(t, hot.first.Loss, all.first.Loss, 1e-4)
	assert.InEpsilon(t, hot.last.Loss, all.last.Loss, 1e-3)
	assert.InEpsilon(t, hot.eval.Eval, all.eval.Eval, 1e-3)
	few := s.lists("few.jsonl", 4, 1)
	for i, sets := range [][]string{{"data.packing=none"}, nil, {"distil.beta=1"}, {"distil.tail=ignore"}} {
		if testing.Short() && i > 0 {
			continue
		}
		r := s.run("few"+strings.Join(sets, ""), append(sets, "distil.teacher="+few)...)
		assert.Less(t, r.last.Loss, r.first.Loss, "%v", sets)
	}
}

// Adapters learn from the base that they stand on, in the type of that: there is nothing to learn yet.
func TestATeacherIsTheBase(t *testing.T) {
	s := newTaught(t)
	for _, base := range []string{"bf16", "f32", "nf4"} {
		if testing.Short() && base != "bf16" {
			continue
		}
		r := s.run(base, "distil.teacher="+s.at("teacher"), "model.from="+s.at("teacher"), "lora.rank=2", "train.steps=1", "model.base="+base)
		assert.InDelta(t, 0, r.last.Loss, 1e-6)
		files, err := os.ReadDir(r.checkpoint)
		require.NoError(t, err)
		assert.True(t, slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == "adapter_model.safetensors" }))
	}
	if testing.Short() {
		return
	}
	assert.Positive(t, s.run("whole nf4", "distil.teacher="+s.at("teacher"), "train.steps=1", "model.base=nf4").last.Loss)
}

// What does not fit is one line that names what is wrong, before anything is trained.
func TestTeachersAreRefused(t *testing.T) {
	s := newTaught(t)
	few := s.lists("few.jsonl", 2, 2)
	raw, err := os.ReadFile(few)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(raw), "\n")
	head, rows := lines[0], lines[1:25]
	edited := func(name string, of ...string) string {
		require.NoError(t, os.WriteFile(s.at(name), []byte(strings.Join(of, "")), 0o666))
		return "distil.teacher=" + s.at(name)
	}
	with := func(row int, edit func(line string) string) []string {
		all := slices.Clone(rows)
		all[row] = edit(all[row])
		return all
	}
	cut := func(line string) string { return strings.Replace(line, "[[", "[", 1) }
	for wanted, sets := range map[string][]string{
		"found lists of 23 rows, wanted 24":                                   {edited("short.jsonl", rows[:23]...)},
		"found lists of 25 rows, wanted 24":                                   {edited("long.jsonl", append(slices.Clone(rows), rows[0])...)},
		"row 3: found lists of":                                               {edited("mixed.jsonl", with(2, func(string) string { return rows[3] })...)},
		"row 5: token 0: found id 256, wanted each once, from 0 to 255":       {edited("id.jsonl", with(4, func(l string) string { return firstID(l, "256") })...)},
		"row 6: token 0: found id -1":                                         {edited("negative.jsonl", with(5, func(l string) string { return firstID(l, "-1") })...)},
		"row 7: ":                                                             {edited("broken.jsonl", with(6, cut)...)},
		"row 8: json: unknown field \"idz\"":                                  {edited("key.jsonl", with(7, func(l string) string { return strings.Replace(l, "ids", "idz", 1) })...)},
		"found no ids, wanted lines such as":                                  {edited("empty.jsonl", "{\"ids\": [], \"logprobs\": []}\n")},
		"line 1: found top_k -1":                                              {edited("head.jsonl", "{\"top_k\": -1}\n")},
		"found a vocabulary of 257 tokens, wanted the student's 256":          {edited("vocab.jsonl", "{\"top_k\": 2, \"vocab\": 257}\n")},
		"found lists of 300 tokens, wanted at most the vocabulary of 256":     {edited("k.jsonl", "{\"top_k\": 300}\n")},
		"distil.temperature (--set): found 1, wanted 2 or null, as":           {edited("warm.jsonl", append([]string{head}, rows...)...), "distil.temperature=1"},
		"wanted sha256:":                                                      {"distil.teacher=" + few, "distil.fingerprint=00"},
		"teacher: found a vocabulary of 256 tokens, wanted the student's 300": {"distil.teacher=" + s.at("teacher"), "model.vocab=300"},
		"found 32, wanted at most 24, the context of the teacher":             {"distil.teacher=" + s.at("teacher"), "model.context=32"},
		"found neither config.json nor checkpoints":                           {"distil.teacher=" + s.folder},
		"none.jsonl\": no such file":                                          {"distil.teacher=" + s.at("none.jsonl")},
	} {
		_, _, _, err := s.open(sets...)
		var usage *UsageError
		if assert.ErrorAs(t, err, &usage, wanted) {
			assert.ErrorContains(t, err, wanted)
			assert.NotContains(t, err.Error(), "\n")
		}
	}
	// What a run has begun with is what it goes on with.
	s.run("begun", "distil.teacher="+few, "train.steps=4")
	_, run, release, err := s.open(edited("few.jsonl", append([]string{head}, with(9, func(l string) string { return strings.Replace(l, "-", "-1", 1) })...)...), "train.steps=8")
	require.NoError(t, err)
	defer release()
	run.Dir, run.Output = s.at("begun"), io.Discard
	_, err = train.Run(t.Context(), s.dev, run)
	assert.ErrorContains(t, err, "distil.fingerprint: found")
}

// firstID is a line with another first id.
func firstID(line, id string) string {
	_, rest, _ := strings.Cut(line, ",")
	return "{\"ids\": [[" + id + "," + rest
}

// The likeliest are the same whichever way they are found, of equals the smaller ids first.
func TestLikeliest(t *testing.T) {
	logits := make([]float32, 100)
	for i := range logits {
		logits[i] = float32((i * 37) % 20)
	}
	all := rollout.Likeliest(logits, 100)
	assert.Equal(t, []int32{7, 27, 47, 67, 87}, all[:5], "19, five times")
	for k := range 26 {
		if k > 0 {
			assert.Equal(t, all[:k], rollout.Likeliest(logits, k))
		}
	}
	assert.InDelta(t, 1.0986122886681098, logSum([]float32{0, 0, 0}, 2), 1e-12)
	assert.InEpsilon(t, 1e30, logSum([]float32{1e30, 0}, 1), 1e-6)
}

// A teacher whose tokens are other texts than the student's is refused, and named.
func TestTokenizersOfTeachers(t *testing.T) {
	const of = "../../text/tokenizer/testdata/"
	own, err := OpenTokenizer(of + "gpt2")
	require.NoError(t, err)
	tokens := Tokens{Tokens: plan.Tokens{Kind: plan.TokenizerTokens, Tokenizer: own, Path: "ours"}}
	assert.NoError(t, sameTokens(hub.Open(of+"gpt2"), tokens, "theirs", io.Discard))
	assert.NoError(t, sameTokens(hub.Open(t.TempDir()), tokens, "theirs", io.Discard))
	assert.NoError(t, sameTokens(hub.Open(of+"llama2"), asBytes, "theirs", io.Discard))
	assert.ErrorContains(t, sameTokens(hub.Open(of+"llama2"), tokens, "theirs", io.Discard), "theirs: found a tokenizer whose token 0 is ")
}

// A piece of a row has its own lists beside it; what they lack is a category, or nothing.
func TestListsAreLaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lists.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"ids": [], "logprobs": []}`+"\n\n"+`{"ids": [[1, 2], [3, 4], [5, 6]], "logprobs": [[-1, -2], [-1.5, -1], [-3, -0.5]]}`), 0o666))
	l, err := openLists(path)
	require.NoError(t, err)
	defer l.Close()
	assert.Equal(t, ListsHead{TopK: 2}, l.Head)
	assert.Equal(t, 2, l.Count())
	for _, bucket := range []bool{true, false} {
		b := data.Batch{Rows: 2, Tokens: make([]int32, 8), Labels: []int32{-100, -100, -100, -100, -100, 7, -100, 8}}
		require.NoError(t, listsOf{lists: l, vocab: 9, bucket: bucket}.lay(&b, texts.Piece{Number: 1, Before: 1, Row: 1, At: 1, Labels: b.Labels[5:]}))
		assert.Equal(t, []float32{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 5, 6}, b.Beside[model.InputTeacherIDs])
		share := math.Exp(-1.5) + math.Exp(-1)
		wanted := []float64{-1.5, -1, math.Log(1 - share)}
		if !bucket {
			wanted = []float64{-1.5 - math.Log(share), -1 - math.Log(share), -1e30}
		}
		assert.InDelta(t, wanted[0], float64(b.Beside["teacher_logps"][10]), 1e-6)
		assert.InDelta(t, wanted[1], float64(b.Beside["teacher_logps"][11]), 1e-6)
		assert.InEpsilon(t, wanted[2], float64(b.Beside["teacher_rest"][5]), 1e-6)
		assert.Error(t, listsOf{lists: l, vocab: 9, bucket: bucket}.lay(&b, texts.Piece{Number: 1, Before: 2, Row: 1, At: 1, Labels: b.Labels[5:]}), "there are three")
	}
}

// Whatever a file of lists has, opening and reading it ends in numbers or in one line.
func FuzzLists(f *testing.F) {
	for _, seed := range []string{
		`{"ids": [[1]], "logprobs": [[-1]]}`, "{\"top_k\": 1}\n{\"ids\": [[1]], \"logprobs\": [[-1]]}\n", `{"ids": [[1, 2], [3]], "logprobs": [[-1], []]}`, `{"top_k": 1e9}`, "", "[]", "\n\n", `{"ids": null}`,
		`{"ids": [[1e9]], "logprobs": [[1e999]]}`, "{\"top_k\": 70000}\n{\"ids\": []}",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(dir, "fuzz.jsonl")
		require.NoError(t, os.WriteFile(path, raw, 0o666))
		l, err := openLists(path)
		if err != nil {
			assert.NotContains(t, err.Error(), "\n")
			return
		}
		defer l.Close()
		if l.Head.TopK > 64 {
			return // a vocabulary bounds it
		}
		for row := range int64(min(l.Count(), 9)) {
			b := data.Batch{Rows: 1, Tokens: make([]int32, 2), Labels: []int32{1, 2}}
			err := listsOf{lists: l, vocab: 16, bucket: row%2 == 0}.lay(&b, texts.Piece{Number: row, Labels: b.Labels})
			for _, values := range b.Beside {
				for _, v := range values {
					assert.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), "%v", err)
				}
			}
		}
	})
}

// TestListsGoOn: lists whose writer was stopped, or killed in the middle of a line, or of which a machine without power has kept zeros, are those of one that
// nothing has disturbed; rows that are there are not asked about again, and those of other settings are other lists.
func TestListsGoOn(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dir := t.TempDir()
	file, place := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "lists.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"text": "one"}`+"\n"+`{"text": "another"}`+"\n"+`{"text": "a third"}`+"\n"+`{"text": "the last"}`+"\n"), 0o666))
	cfg := configOf(t, "data.jsonl="+file, "data.validation=0", "model.layers=1", "model.heads=1", "model.width=8", "model.context=24")
	def, begin, err := Definition(cfg, io.Discard)
	require.NoError(t, err)
	text, err := OpenText(t.Context(), Data(cfg, begin.Tokens, def, 24), io.Discard)
	require.NoError(t, err)
	defer text.Close()
	stopped := errors.New("stopped")
	write := func(path, of string, topK, most int) (asked int, name string, err error) {
		part, err := atomicfile.OpenPart(path, of)
		require.NoError(t, err)
		teaching := Teaching{Head: ListsHead{TopK: topK}, Window: 24, Logits: func(_ context.Context, window []int32, yield func(at int, logits []float32) error) error {
			if asked++; asked > most {
				return stopped
			}
			for at, id := range window {
				logits := make([]float32, 256)
				logits[id], logits[at] = 2, 1
				if err := yield(at, logits); err != nil {
					return err
				}
			}
			return nil
		}}
		teaching.Head.Temperature = 1
		if err = teaching.Write(t.Context(), part, text.Train.(*texts.Documents)); err != nil {
			return asked, part.Name(), errors.Join(err, part.Close())
		}
		return asked, part.Name(), part.Finish()
	}
	undisturbed := filepath.Join(dir, "undisturbed.jsonl")
	_, _, err = write(undisturbed, "a", 3, 10)
	require.NoError(t, err)
	want, err := os.ReadFile(undisturbed)
	require.NoError(t, err)
	assert.Len(t, bytes.Split(bytes.TrimSpace(want), []byte("\n")), 5)

	_, name, err := write(place, "a", 3, 2)
	require.ErrorIs(t, err, stopped)
	require.ErrorContains(t, err, "row 3: ")
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.True(t, bytes.HasPrefix(want, raw))
	require.NoError(t, os.WriteFile(name, append(raw[:len(raw)-5], make([]byte, 9)...), 0o666))
	asked, _, err := write(place, "a", 3, 1)
	require.ErrorIs(t, err, stopped)
	assert.Equal(t, 2, asked, "the second row again")
	asked, other, err := write(place, "b", 2, 0)
	require.ErrorIs(t, err, stopped)
	assert.NotEqual(t, name, other)
	assert.Equal(t, 1, asked)
	held, err := atomicfile.OpenPart(place, "a")
	require.NoError(t, err)
	_, err = atomicfile.OpenPart(place, "a")
	require.ErrorContains(t, err, "another process is writing it")
	require.NoError(t, held.Close())
	assert.NoFileExists(t, place)
	asked, _, err = write(place, "a", 3, 10)
	require.NoError(t, err)
	assert.Equal(t, 2, asked)
	found, err := os.ReadFile(place)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(found))
	assert.NoFileExists(t, name)
	_, err = atomicfile.OpenPart(place, "a")
	require.ErrorIs(t, err, fs.ErrExist)
	assert.NoFileExists(t, name)
}
