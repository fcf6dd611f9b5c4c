package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/tuning"
	"gputrain/internal/gputest"
	"gputrain/internal/system"
	"gputrain/model"
	"gputrain/run/data/texts"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

// speaker is a directory with a small model, a tokenizer of letters and a template.
func speaker(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "speaker")
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 2, Width: 8, Vocab: 64, Context: 64, RopeTheta: 1e4, TieHead: true})
	require.NoError(t, err)
	values := map[string][]float32{}
	for _, h := range model.Init(def, 3) {
		values[h.Path] = h.Data
	}
	require.NoError(t, model.Export(dir, def, func(path string) ([]float32, error) { return values[path], nil }, model.ExportOptions{DType: "BF16"}))
	vocab := map[string]int{"<end>": 0}
	for i, letter := range strings.Split("abcdefghijklmnopqrstuvwxyz.?:Ġ", "") {
		vocab[letter] = i + 1
	}
	raw, err := json.Marshal(map[string]any{
		"added_tokens":  []any{map[string]any{"id": 0, "content": "<end>", "special": true}, map[string]any{"id": 31, "content": "<pad>", "special": true}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"decoder":       map[string]any{"type": "ByteLevel"},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), raw, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"),
		[]byte("{% for m in messages %}{{ m.role[0] + ':' + m.content + '<end>' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}"), 0o666))
	return dir
}

// chatsFile has so many conversations.
func chatsFile(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"messages": [{"role": "user", "content": "what is %c?"}, {"role": "assistant", "content": "it is %c."}]}`+"\n", 'a'+i%26, 'b'+i%25)
	}
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o666))
	return path
}

// What is wrong with inputs is said before training starts, and leaves no run behind.
func TestTuneRefuses(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	gputest.Device(t)
	without := func(name string) string {
		dir := speaker(t)
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		return dir
	}
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
		return path
	}
	sound, chats := speaker(t), chatsFile(t, 30)
	adapters := filepath.Dir(file(model.AdapterConfigFile, "{}"))
	for _, c := range []struct {
		model, data string
		set         []string
		want        string
		code        int
	}{
		{without("tokenizer.json"), chats, nil, "found no tokenizer, wanted tokenizer.json or tokenizer.model", 2},
		{without("chat_template.jinja"), chats, nil, "no chat template", 2},
		{without("config.json"), chats, nil, "found neither config.json nor checkpoints", 2},
		{adapters, chats, nil, "found adapters, wanted a whole model: gputrain tune --from " + adapters + " DATA goes on with them", 2},
		{sound, t.TempDir(), nil, "found no files of rows, wanted .parquet, .jsonl or .json", 2},
		{without("model.safetensors"), chats, nil, "found no weights, wanted model.safetensors", 6},
		{sound, file("a.txt", "it is a.\n"), nil, "found text, wanted rows (.jsonl", 2},
		{sound, filepath.Join(t.TempDir(), "none.jsonl"), nil, "none.jsonl", 2},
		{sound, file("a.jsonl", `{"question": "a", "reply": "b"}`+"\n"), nil, "found", 2},
		{sound, file("a.jsonl", strings.Repeat(`{"messages": [{"role": "user", "content": "a"}]}`+"\n", 9)), nil, "a.jsonl", 2},
		{sound, file("p.jsonl", `{"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]}`+"\n"), nil, "found 1, wanted 2 or more", 2},
		{sound, chatsFile(t, 1), nil, "found 1, wanted 2 or more", 2},
		{sound, chats, []string{"lora.target=q_prj"}, `"q_prj" matches no matrix of a linear layer`, 2},
		{sound, chats, []string{"lora.rank=0"}, "tune: lora.rank (--set): found 0, wanted 1 or more", 2},
		{sound, chats, []string{"model.from=" + adapters}, "tune: model.from (--set): found " + adapters + ", wanted nothing: the model is the first argument", 2},
		{sound, chats, []string{"data.jsonl=" + chats}, "tune: data.jsonl (--set): found " + chats + ", wanted nothing", 2},
		{sound, chats, []string{"lora.rank=9"}, "rank", 2},
		{sound, chats, []string{"lora.rang=4"}, `did you mean "lora.rank"`, 2},
		{sound, chats, []string{"train.memory_limit=10KiB"}, "found no way that fits, down to model.base ", 5},
		{sound, chats, []string{"model.context=65"}, "model.context (--set): found 65, wanted at most 64, the context of " + sound, 2},
		{sound, chats, []string{"lora.rank=0"}, "gputrain train --set model.from=" + sound + " trains all of a model", 2},
		{sound, chats, []string{"preference.loss=orpo"}, `found fields ["messages"], wanted ["prompt" "chosen" "rejected"]`, 2},
		{sound, chats, []string{"pipeline.stages=2"}, "pipeline.stages: found more than 1", 2},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		err := (&tuneCmd{Model: c.model, Data: []string{c.data}, Set: c.set, RunDir: dir, Progress: "none"}).Run(context.Background())
		require.ErrorContains(t, err, c.want, "%v", c)
		assert.Equal(t, c.code, exitCode(err), "%v: %v", c, err)
		assert.NoDirExists(t, dir)
		assert.NotContains(t, err.Error(), "\n")
		assert.NotContains(t, err.Error(), tuneFile, "there is none yet")
	}
}

// Rows of a form of their own are learned by the method for it, with what is chosen for it.
func TestTuneChoosesTheMethod(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	base := speaker(t)
	require.NoError(t, os.WriteFile(filepath.Join(base, "tokenizer_config.json"), []byte(`{"pad_token": "<pad>"}`), 0o666)) // no row ends with it
	rows := func(row func(i int) string) string {
		var text strings.Builder
		for i := range 40 {
			text.WriteString(row(i) + "\n")
		}
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o666))
		return path
	}
	pairs := rows(func(i int) string {
		return fmt.Sprintf(`{"prompt": [{"role": "user", "content": "what is %c?"}], "chosen": [{"role": "assistant", "content": "it is b."}], "rejected": [{"role": "assistant", "content": "it is c."}]}`, 'a'+i%26)
	})
	labels := rows(func(i int) string {
		return fmt.Sprintf(`{"prompt": [{"role": "user", "content": "what is %c?"}], "completion": [{"role": "assistant", "content": "it is b."}], "label": %v}`, 'a'+i%26, i%4 == 0)
	})
	asked := rows(func(i int) string {
		return fmt.Sprintf(`{"prompt": [{"role": "user", "content": "what is %c?"}], "answer": "it is b."}`, 'a'+i%26)
	})
	classes := rows(func(i int) string { return fmt.Sprintf(`{"text": "it is %c", "label": %d}`, 'a'+i%3, i%3) })
	queries := rows(func(i int) string {
		return fmt.Sprintf(`{"query": "%c", "positive": "b", "negatives": ["c"]}`, 'a'+i%26)
	})
	for _, c := range []struct {
		file, method string
		set          []string
		rewards      []string
		want         string
		wanted       map[string]string
	}{
		{chatsFile(t, 40), "", nil, nil, "sft", map[string]string{"preference.loss": "none"}},
		{pairs, "", nil, nil, "dpo", map[string]string{"preference.loss": "sigmoid", "preference.beta": "0.1", "train.batch": "8"}},
		{pairs, "dpo", []string{"preference.loss=simpo", "preference.beta=2"}, nil, "dpo", map[string]string{"preference.loss": "simpo", "preference.beta": "2"}},
		{labels, "", nil, nil, "kto", map[string]string{"preference.loss": "kto", "train.batch": "8"}},
		{asked, "", nil, []string{"equal:answer", "length"}, "grpo", map[string]string{
			"rollout.loss": "dapo", "rollout.tokens": "49", "rollout.rows": "64", "train.batch": "64", "train.accumulate": "1", "train.sample_tokens": "0",
		}},
		{asked, "", []string{"rollout.loss=dr_grpo", "rollout.samples=6", "rewards=[{kind: equal, column: answer}]"}, nil, "grpo", map[string]string{"rollout.loss": "dr_grpo", "rollout.samples": "6", "train.batch": "48"}},
		{pairs, "reward", nil, nil, "reward", map[string]string{"head.objective": "reward", "preference.loss": "none"}},
		{pairs, "", []string{"head.objective=reward"}, nil, "reward", map[string]string{"head.objective": "reward"}},
		{classes, "", nil, nil, "classes", map[string]string{"head.objective": "classes"}},
		{queries, "", nil, nil, "embed", map[string]string{"head.objective": "embed", "head.negatives": "1", "train.batch": "48", "train.accumulate": "1"}},
	} {
		h := &choosing{card: "8GiB", method: c.method, set: c.set, given: tuning.Given{Model: base, Rows: []string{c.file}}}
		for _, text := range c.rewards {
			s, err := tuning.Reward(text)
			require.NoError(t, err)
			h.given.Rewards = append(h.given.Rewards, s)
		}
		r, cfg, err := h.chosen(t.Context(), "")
		require.NoError(t, err, c)
		assert.Equal(t, c.want, h.given.Method.Name)
		found := map[string]string{}
		for key, value := range cfg.Values() {
			if _, asked := c.wanted[key]; asked {
				found[key] = fmt.Sprint(value)
			}
		}
		assert.Equal(t, c.wanted, found)
		choices := r.Choices(cfg)
		told := fmt.Sprint(choices)
		switch c.want {
		case "kto":
			assert.InDelta(t, 1.15*3, *cfg.Preference.Desirable, 0.5)
			assert.Contains(t, told, "kto on rows: preference.loss kto, beta 0.1; ")
		case "dpo":
			assert.Contains(t, told, "dpo on pairs: preference.loss ")
		case "grpo":
			assert.Contains(t, told, " completions a prompt, of at most 49 tokens, at temperature 1, ")
			assert.Contains(t, told, "rewards    equal answer")
		}
		var file strings.Builder
		require.NoError(t, tuning.Write(&file, choices))
		read := runfile.New()
		require.NoError(t, read.Parse(tuneFile, []byte(file.String())), file.String())
		assert.Equal(t, fmt.Sprint(cfg.Rewards), fmt.Sprint(read.Rewards), file.String())
		h.device.Release()
	}
	for _, c := range []struct{ file, method, set, want string }{
		{asked, "", "train.steps=2", "rewards: found none, wanted some, which say what is good (docs/rewards.md): --reward equal:answer or --set"},
		{asked, "kto", "train.steps=2", "found rows with answer, prompt, wanted rows with prompt, completion and label"},
		{chatsFile(t, 9), "", "rewards=[{kind: equal, column: answer}]", "tune: --reward: "},
		{pairs, "dpo", "head.objective=reward", "found dpo, which is not what --set names: a loss of reward"},
		{asked, "", "rewards=[{kind: equal, column: anwser}]", `found no column "anwser", wanted one of ["answer" "prompt"], did you mean "answer"`},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		err := (&tuneCmd{Model: base, Data: []string{c.file}, Method: c.method, Set: []string{c.set}, RunDir: dir, Progress: "none"}).Run(t.Context())
		require.ErrorContains(t, err, c.want)
		assert.Equal(t, 2, exitCode(err), err)
		assert.NoDirExists(t, dir)
	}
	gputest.Device(t)
	for method, file := range map[string]string{"dpo": pairs, "kto": labels, "grpo": asked, "reward": pairs, "classes": classes, "embed": queries} {
		if testing.Short() && method != "kto" && method != "grpo" && method != "reward" {
			continue
		}
		dir := filepath.Join(t.TempDir(), "run")
		c := &tuneCmd{Model: base, Data: []string{file}, Method: method, Set: []string{"train.steps=2", "train.eval_every=1", "train.save_every=1"}, RunDir: dir, Progress: "none"}
		if method == "grpo" {
			c.Reward = []string{"equal:answer", "length"}
			c.Set = append(c.Set, "rollout.tokens=4", "rollout.samples=2")
		}
		require.NoError(t, c.Run(t.Context()), method)
		again := &tuneCmd{Model: base, Data: []string{file}, Reward: c.Reward, RunDir: dir, Progress: "none"}
		require.NoError(t, again.Run(t.Context()), "the same again goes on")
		again.Method = "sft"
		require.ErrorContains(t, again.Run(t.Context()), "found a run of --method "+method+", wanted sft")
		steps, evals, err := train.ReadMetrics(dir)
		require.NoError(t, err)
		weights := filepath.Join(dir, "checkpoints", "step-00000002", model.AdapterWeightsFile)
		assert.FileExists(t, weights)
		var farewell strings.Builder
		require.NoError(t, c.farewell(&farewell, filepath.Join(dir, tuneFile), train.Result{Step: 2}))
		switch method {
		case "dpo", "kto":
			assert.Contains(t, steps[1].Figures, "logps_chosen", method)
			assert.Contains(t, farewell.String(), "  gputrain chat "+dir)
		case "grpo":
			assert.Contains(t, evals[0].Rollout, "rewards/equal/mean")
			assert.Contains(t, farewell.String(), "  gputrain chat "+dir)
		default:
			assert.Contains(t, evals[0].Figures, "accuracy", method)
			assert.Regexp(t, `, right about [0-9.]+ % of what is held out\n  gputrain score `+dir+" FILE", farewell.String())
		}
	}
}

// What is chosen for a card that is not here needs neither it nor the weights, and nothing is written.
func TestTuneForMemoryThatIsNotHere(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	t.Setenv("GPUTRAIN_ADAPTER", "none of these")
	base, dir := speaker(t), filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Remove(filepath.Join(base, "model.safetensors")))
	for memory, want := range map[string]string{"8GiB": "", "rtx 4060": "", "10KiB": "smaller model: the smallest cards of the list of --memory that hold it have 8.00 GiB: ", "rtx 4061": "did you mean"} {
		err := (&tuneCmd{Model: base, Data: []string{chatsFile(t, 30)}, Memory: memory, RunDir: dir}).Run(t.Context())
		if want == "" {
			require.NoError(t, err, memory)
		} else {
			require.ErrorContains(t, err, want)
		}
		assert.NoDirExists(t, dir)
	}
}

// Where nothing fits, the error says what does: without samples there are no keys and values of them.
func TestTuneAdvises(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	h := &choosing{card: "1GiB", given: tuning.Given{Model: speaker(t), Rows: []string{chatsFile(t, 30)}}}
	r, _, err := h.chosen(t.Context(), "")
	require.NoError(t, err)
	with := h.takes.Bytes()
	h.set = []string{noSamples}
	fits, err := h.fits(t.Context(), r)
	require.NoError(t, err)
	assert.True(t, fits)
	assert.Less(t, h.takes.Bytes(), with)
	h.device.AssumeMemory(h.takes.Bytes())
	h.set = nil
	large := &tuning.TooLargeError{Least: r}
	require.NoError(t, h.advise(t.Context(), large))
	assert.Regexp(t, "^it fits with --set train.sample_tokens=0; the smallest cards", large.Advice)
	h.device.AssumeMemory(h.takes.Bytes() / 2)
	require.NoError(t, h.advise(t.Context(), large))
	assert.Regexp(t, "^the smallest cards", large.Advice)
}

// Of a template that drops the thoughts of earlier answers the last answers learn alone, unless the user says otherwise.
func TestTuneByTheLastAnswers(t *testing.T) {
	base := speaker(t)
	require.NoError(t, os.WriteFile(filepath.Join(base, "chat_template.jinja"), []byte("{% for m in messages %}{{ m.role[0] + ':' + ('hm' if loop.last and m.role == 'assistant' else '') + m.content + '<end>' }}"+
		"{% endfor %}{% if add_generation_prompt %}a:{% endif %}"), 0o666))
	rows := filepath.Join(t.TempDir(), "turns.jsonl")
	turn := `{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "c"}`
	require.NoError(t, os.WriteFile(rows, []byte(strings.Repeat(`{"messages": [`+turn+", "+turn+"]}\n", 20)), 0o666))
	for _, set := range [][]string{nil, {"data.learn_last=false"}} {
		h := &choosing{set: set, given: tuning.Given{Model: base, Rows: []string{rows}}}
		text, cfg, err := h.read(t.Context())
		if set != nil {
			require.ErrorIs(t, err, chat.ErrRewritten)
			require.ErrorContains(t, err, "turns.jsonl")
			continue
		}
		require.NoError(t, err)
		_, err = h.measure(text, cfg)
		require.NoError(t, err)
		text.Close()
		assert.True(t, h.given.LastOnly)
		assert.Contains(t, h.description, "of the tokens learned: the last answers, not read: messages.reasoning_content")
	}
}

// Steps that the user sets take the place of epochs, and an optimizer that of AdamW, with its rate.
func TestTuneForSteps(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	gputest.Device(t)
	dir, other := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "other.jinja")
	require.NoError(t, os.WriteFile(other, []byte("{% for m in messages %}{{ m.content + '<end>' }}{% endfor %}"), 0o666))
	require.NoError(t, (&tuneCmd{Model: speaker(t), Data: []string{chatsFile(t, 30)}, Set: []string{"train.steps=2", "data.template=" + other, "optimizer.name=lion"}, RunDir: dir, Progress: "none"}).Run(t.Context()))
	cfg := runfile.New()
	require.NoError(t, cfg.File(filepath.Join(dir, tuneFile)))
	assert.Equal(t, []any{int64(2), 0, int64(1)}, []any{cfg.Train.Steps, cfg.Data.Epochs, cfg.Train.EvalEvery})
	assert.DirExists(t, filepath.Join(dir, "checkpoints", "step-00000002"))
	require.NoError(t, (&evalCmd{modelFlags: modelFlags{Model: dir}, Batch: 8}).Run(t.Context()), "by the template that the run names, which its checkpoints have under another name")
	assert.Equal(t, "lion", cfg.Optimizer.Name)
	assert.InDelta(t, 9e-4, cfg.Optimizer.LearningRate, 1e-12, "a fifth of 2e-4 sqrt(4096/8), as 0.0003 is of 0.0015")
}

// A run that was tuned goes on with what was chosen, and not with another model or other conversations.
func TestTuneAsChosenBefore(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	gputest.Device(t)
	base, chats := speaker(t), chatsFile(t, 30)
	dir := filepath.Join(t.TempDir(), "run")
	tune := func(model, data string, set ...string) error {
		return (&tuneCmd{Model: model, Data: []string{data}, Set: append([]string{"data.epochs=1", "lora.rank=3"}, set...), RunDir: dir, Progress: "none"}).Run(context.Background())
	}
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(&train.SignalError{Signal: os.Interrupt})
	c := &tuneCmd{Model: base, Data: []string{chats}, RunDir: dir, Progress: "none"}
	err := train.Stopping(stopped, c.tune(stopped, time.Now(), &trainCmd{}))
	require.EqualError(t, err, "train: stopped: signal interrupt; no step has been made, so there was nothing to save")
	assert.Equal(t, 3, exitCode(err))
	require.NoDirExists(t, dir, "it is made by the run")
	require.NoError(t, tune(base, chats))
	path := filepath.Join(dir, tuneFile)
	chosen, err := os.ReadFile(path)
	require.NoError(t, err)
	cfg := runfile.New()
	require.NoError(t, cfg.File(path))
	assert.Equal(t, []any{3, 64, 1}, []any{cfg.LoRA.Rank, cfg.Model.Context, cfg.Data.Epochs}, "the choices of --set are recorded with those that follow them")

	require.NoError(t, tune(base, chats), "there is nothing left to do")
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, chosen, again)
	require.ErrorContains(t, tune(base, chats, "lora.rank=4"), "lora.rank")
	err = tune(base, chats, "optimizer.learning_rate=0.5")
	require.ErrorContains(t, err, "optimizer.learning_rate: found ")
	assert.NotContains(t, err.Error(), "--reschedule", "tune has no such flag")
	err = tune(speaker(t), chats)
	require.ErrorContains(t, err, "found a run of the model "+base)
	assert.NotContains(t, err.Error(), "remove")
	assert.Equal(t, 2, exitCode(err))
	other := chatsFile(t, 30)
	require.ErrorContains(t, tune(base, other), "found a run on "+chats)
	require.ErrorContains(t, tune(base, other), fmt.Sprintf("to go on with these from what the run has learned: gputrain tune --from %s %s --set data.epochs=1 --run-dir %s-2", dir, other, dir))
	err = (&tuneCmd{Model: dir, Data: []string{chats}, RunDir: dir + "-more", Progress: "none"}).Run(t.Context())
	require.ErrorContains(t, err, fmt.Sprintf("found adapters, wanted a whole model: gputrain tune --from %s DATA goes on with them", dir))

	moved := base + "-moved"
	require.NoError(t, os.Rename(base, moved))
	require.NoError(t, tune(moved, chats))
	require.ErrorContains(t, tune(base, chats), base+", which is not there, wanted "+moved)
	merge := func() error {
		return (&mergeCmd{Model: dir, writeFlags: writeFlags{To: filepath.Join(t.TempDir(), "merged"), DType: "auto", ShardSize: "5GB"}}).Run(context.Background())
	}
	require.NoError(t, merge(), "the run has found where the base is now")
	swapped := &mergeCmd{Model: dir, Adapter: []string{moved}, writeFlags: writeFlags{To: filepath.Join(t.TempDir(), "merged"), DType: "auto", ShardSize: "5GB"}}
	require.ErrorContains(t, swapped.Run(t.Context()), "--adapter: "+moved+": found a whole model, wanted adapters")
	require.NoError(t, os.Rename(moved, base))
	require.ErrorContains(t, merge(), moved)
	raw, err := os.ReadFile(filepath.Join(base, "model.safetensors"))
	require.NoError(t, err)
	raw[len(raw)-1] ^= 0x10
	require.NoError(t, os.WriteFile(filepath.Join(base, "model.safetensors"), raw, 0o666))
	err = tune(base, chats)
	require.ErrorContains(t, err, "has parameters of fingerprint sha256:")
	again, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, chosen, again, "whatever was refused")
}

// A file that has more rows by now is not the run's, and the error says with which command tuning goes on from its adapters.
func TestTuneGoesOnWithMoreRows(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	gputest.Device(t)
	base, chats, dir := speaker(t), chatsFile(t, 30), filepath.Join(t.TempDir(), "run")
	tune := func(dir string, set ...string) error {
		return (&tuneCmd{Model: base, Data: []string{chats}, Set: append([]string{"data.epochs=1"}, set...), RunDir: dir, Progress: "none"}).Run(t.Context())
	}
	require.NoError(t, tune(dir, "lora.rank=2"))
	require.NotContains(t, fmt.Sprint(tune(dir, "lora.rank=3")), "learned other texts", "of the same rows")
	more, err := os.ReadFile(chatsFile(t, 80))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(chats, more, 0o666))
	err = tune(dir, "lora.rank=2")
	assert.Equal(t, 2, exitCode(err))
	require.ErrorContains(t, err, fmt.Sprintf("gputrain tune --from %s %s --set data.epochs=1 --run-dir %s-2", dir, chats, dir))
	next := nextDir(dir)
	onward := tuneCmd{From: dir, Model: chats, Set: []string{"data.epochs=1"}, RunDir: next, Progress: "none"}
	again := func(c tuneCmd) error { return c.Run(t.Context()) }
	require.NoError(t, again(onward))
	assert.Equal(t, dir+"-3", nextDir(dir))
	cfg := runfile.New()
	require.NoError(t, cfg.File(filepath.Join(next, tuneFile)))
	assert.Equal(t, []any{base, []string{chats}, 0}, []any{cfg.Model.From, cfg.Data.JSONL, cfg.LoRA.Rank})
	begun, err := bestOf(dir)
	require.NoError(t, err)
	assert.Equal(t, begun, cfg.LoRA.From, "the best checkpoint")
	require.NoError(t, again(onward), "there is nothing left to do")
	require.NoError(t, tune(next), "by the model, too")
	for want, c := range map[string]tuneCmd{
		"began with adapters of its own, wanted those of " + next:           {From: next, Model: chats, RunDir: dir},
		fmt.Sprintf("began with those of %s, wanted those of", begun):       {From: next, Model: chats, RunDir: next},
		"found a model, " + base + ", too, wanted DATA alone":               {From: dir, Model: base, Data: []string{chats}},
		"found a whole model, wanted adapters, or a run with some":          {From: base, Model: chats},
		"found --set lora.from=x, too, wanted one of them":                  {From: dir, Model: chats, Set: []string{"lora.from=x"}},
		"found neither config.json nor checkpoints, wanted a run directory": {From: t.TempDir(), Model: chats},
		"tune: DATA: found nothing, wanted files of rows behind the model":  {Model: base},
	} {
		c.Progress = "none"
		err := again(c)
		require.ErrorContains(t, err, want)
		assert.Equal(t, 2, exitCode(err), err)
	}
}

// Of a run's checkpoints the best is gone on from, if it is there, and rows are learned as before where they may mean several things.
func TestTuneGoesOnFromTheBest(t *testing.T) {
	gputest.Long(t, "TestTuneGoesOnWithMoreRows")
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	gputest.Device(t)
	pairs := filepath.Join(t.TempDir(), "pairs.jsonl")
	row := `{"prompt": [{"role": "user", "content": "what is a?"}], "chosen": [{"role": "assistant", "content": "it is b."}], "rejected": [{"role": "assistant", "content": "it is c."}]}` + "\n"
	require.NoError(t, os.WriteFile(pairs, []byte(strings.Repeat(row, 30)), 0o666))
	base, dir := speaker(t), filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.WriteFile(filepath.Join(base, "tokenizer_config.json"), []byte(`{"pad_token": "<pad>"}`), 0o666))
	set := []string{"train.steps=4", "train.eval_every=1", "train.save_every=1", "optimizer.schedule.warmup_steps=0"}
	c := &tuneCmd{Model: base, Data: []string{pairs}, Method: "reward", RunDir: dir, Progress: "none", Set: append(set, "optimizer.learning_rate=1000")}
	require.NoError(t, c.Run(t.Context()))
	s, err := train.ReadSummary(dir)
	require.NoError(t, err)
	require.Less(t, s.Best.Step, s.Step, "of %v", s.Evaluations)
	next := &tuneCmd{From: dir, Model: pairs, RunDir: dir + "-2", Progress: "none", Set: set}
	require.NoError(t, next.Run(t.Context()))
	cfg := runfile.New()
	require.NoError(t, cfg.File(filepath.Join(dir+"-2", tuneFile)))
	assert.Equal(t, filepath.Join(dir, "checkpoints", fmt.Sprintf("step-%08d", s.Best.Step)), cfg.LoRA.From)
	assert.Equal(t, "reward", tuning.MethodOf(cfg.Objective().Row().Form).Name)
}

// Choosing anew replaces what tune has written, not a file of others, and not below a run that goes on.
func TestTuneFreshRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, tuneFile)
	c := &tuneCmd{Model: dir, Data: []string{"chats.jsonl"}, RunDir: dir, Fresh: true, Progress: "none"}
	require.NoError(t, c.replaceable(path), "nothing is there")
	require.NoError(t, os.WriteFile(path, []byte("train: {steps: 7}\n"), 0o666))
	err := c.Run(context.Background())
	require.ErrorContains(t, err, path+": found a file of others, wanted one that tune has written")
	assert.Equal(t, 2, exitCode(err))
	var text strings.Builder
	require.NoError(t, tuning.Write(&text, nil))
	written := text.String()
	require.NoError(t, os.WriteFile(path, []byte(written), 0o666))
	require.NoError(t, c.replaceable(path))

	lock, err := os.Create(filepath.Join(dir, ".lock"))
	require.NoError(t, err)
	require.NoError(t, c.replaceable(path), "nobody holds it")
	require.NoError(t, system.Lock(lock, true))
	err = c.Run(context.Background())
	require.ErrorContains(t, err, "another process is training in it")
	require.NoError(t, lock.Close())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, written, string(raw))
}

// After the run its best checkpoint answers, also if that is not the last.
func TestBestCheckpointAnswers(t *testing.T) {
	gputest.Device(t)
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	base, dir := speaker(t), filepath.Join(t.TempDir(), "run")
	c := &tuneCmd{Model: base, Data: []string{chatsFile(t, 30)}, RunDir: dir, Progress: "none", Set: []string{"data.epochs=1", "train.keep=9"}}
	require.NoError(t, c.Run(t.Context()))
	found, err := setup.Checkpoints(dir).Newest()
	require.NoError(t, err)
	for _, row := range []struct {
		best, step int64
		later      bool
	}{{2, 3, true}, {3, 3, false}, {0, 3, false}} {
		var out strings.Builder
		a := &asker{out: &out}
		run := train.Config{Tokenizer: train.Bytes, Validation: &texts.Documents{}}
		run.Sample.Tokens = 3
		require.NoError(t, a.ask(&run))
		none, err := train.NewProgress("none", io.Discard, 0)
		require.NoError(t, err)
		e := train.Event{Kind: train.Ended, Step: row.step, BestStep: row.best, State: struct{ train.State }{}, Progress: none}
		require.NoError(t, run.Hooks[0].Event(t.Context(), e))
		assert.Equal(t, row.later, a.best, row)
		a.questions = []texts.Question{{Prompt: []int32{1, 2}, Answer: []int32{3, 0}}}
		require.NoError(t, c.askBest(t.Context(), a, base, train.Result{BestStep: found.Step}))
		assert.Contains(t, out.String(), "after tuning\n  question  ")
		require.NoError(t, c.askBest(t.Context(), a, base, train.Result{BestStep: found.Step + 1, Checkpoint: found.Path}), "none was saved, so the newest answers")
	}
}

// Questions of the user are put before, at evaluations and after: each answer is that of the checkpoint of its step, to the question as a chat has it.
func TestAsked(t *testing.T) {
	gputest.Device(t)
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	base, dir := speaker(t), filepath.Join(t.TempDir(), "run")
	c := &tuneCmd{
		Model: base, Data: []string{chatsFile(t, 30)}, RunDir: dir, Progress: "none", Ask: []string{"what is it?", "who?"}, System: "be kind",
		Set: []string{"train.steps=4", "train.eval_every=2", "train.save_every=2", "train.keep=9"},
	}
	require.NoError(t, c.Run(t.Context()))
	samples, err := os.ReadFile(filepath.Join(dir, "samples.jsonl"))
	require.NoError(t, err)
	var found []train.Sample
	for text := range strings.Lines(string(samples)) {
		var s train.Sample
		require.NoError(t, json.Unmarshal([]byte(text), &s))
		if s.Asked {
			found = append(found, s)
		}
	}
	require.Len(t, found, 6)
	report, err := os.ReadFile(filepath.Join(dir, "report.md"))
	require.NoError(t, err)
	tok, err := setup.OpenTokenizer(base)
	require.NoError(t, err)
	for i, s := range found {
		assert.Equal(t, []any{int64(i / 2 * 2), c.Ask[i%2] + "\n", "be kind"}, []any{s.Step, s.Prompt, s.System})
		assert.Contains(t, string(report), strings.TrimSuffix(s.Prompt, "\n"))
		prompt, err := tok.Encode("s:be kind<end>u:"+c.Ask[i%2]+"<end>a:", tokenizer.Options{})
		require.NoError(t, err)
		of := modelFlags{Model: base}
		if s.Step > 0 {
			of = modelFlags{Model: filepath.Join(dir, "checkpoints", checkpoint.DirName(s.Step)), baseFlag: baseFlag{Base: base}}
		}
		m, release, err := of.open(t.Context())
		require.NoError(t, err)
		var answer strings.Builder
		how := train.SampleConfig{Begin: prompt, Tokens: 64 - len(prompt), Stop: []int32{0}}
		require.NoError(t, train.Continue(t.Context(), how, setup.NewTokenizer(tok), m, func(text string) bool { answer.WriteString(text); return true }))
		assert.True(t, strings.HasPrefix(answer.String(), s.Text) && s.Text != "", "step %d: %q, wanted %q", s.Step, s.Text, answer.String())
		release()
	}
	var out strings.Builder
	a := &asker{out: &out}
	run := train.Config{Tokenizer: setup.NewTokenizer(tok), Options: train.Options{Ask: c.Ask, Sample: train.SampleConfig{Tokens: 3}}}
	run.Asked = []train.Question{{Prompt: []int32{1, 2}, Stop: []int32{0}}, {Prompt: []int32{3}, Stop: []int32{0}}}
	require.NoError(t, a.ask(&run))
	require.NoError(t, c.askBest(t.Context(), a, base, train.Result{BestStep: 2}))
	assert.Regexp(t, `^after tuning\n  question  what is it\?\n  answer    .*\nafter tuning\n  question  who\?\n  answer    .*\n$`, out.String())

	for says, wrong := range map[string]tuneCmd{
		"tune: --system: found": {System: "x"},
		"tune: --ask: found":    {Ask: []string{" "}},
		"one of fewer than":     {Ask: []string{strings.Repeat("who ", 90)}},
		"none where answers":    {Ask: []string{"who?"}, Set: []string{noSamples}},
	} {
		wrong.Model, wrong.Data, wrong.RunDir, wrong.Progress = base, c.Data, filepath.Join(t.TempDir(), "run"), "none"
		err := wrong.Run(t.Context())
		assert.ErrorContains(t, err, says)
		assert.Equal(t, 2, exitCode(err), "%v", err)
	}
}

// A best step of which no checkpoint was saved is told, and the newest is the result.
func TestBestWithoutCheckpoint(t *testing.T) {
	gputest.Long(t, "TestBestCheckpointAnswers")
	gputest.Device(t)
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dir := filepath.Join(t.TempDir(), "run")
	c := &tuneCmd{Model: speaker(t), Data: []string{chatsFile(t, 30)}, RunDir: dir, Progress: "none", Set: []string{
		"train.steps=8", "train.eval_every=1", "train.save_every=0", "optimizer.learning_rate=100", "optimizer.schedule.warmup_steps=0", "train.patience=0",
	}}
	said, err := printed(t, func() error { return c.Run(t.Context()) })
	require.NoError(t, err)
	assert.Regexp(t, `the adapters are in `+dir+` \(step \d had the lowest loss on what is held out, [0-9.]+, and no checkpoint of it was saved: train.save_every\)\n  gputrain chat `+dir+`\n`, said)
	assert.Contains(t, said, "after tuning\n")
}

func TestShellWord(t *testing.T) {
	for path, want := range map[string]string{"runs/a-b": "runs/a-b", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'", "a\x1b[31m\u202e'\n\\": `$'a\x1b[31m\u202e\'\n\\'`} {
		assert.Equal(t, want, shellWord(path))
	}
}

// printed is what a function writes to standard output and standard error.
func printed(t *testing.T, do func() error) (out string, err error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	os.Stdout, os.Stderr = file, file
	err = do()
	text, unread := os.ReadFile(file.Name())
	require.NoError(t, unread)
	return string(text), err
}

// A dry run tells all choices, what they take and how long, and leaves everything as it is; a page is shown of a run alone.
func TestTuneDryRun(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	gputest.Device(t)
	base, chats, dir := speaker(t), chatsFile(t, 30), filepath.Join(t.TempDir(), "run")
	c := tuneCmd{Model: base, Data: []string{chats}, Set: []string{"data.epochs=1", "lora.rank=3"}, RunDir: dir, Progress: "none", DryRun: true}
	tune := func(c tuneCmd) (string, error) { return printed(t, func() error { return c.Run(t.Context()) }) }
	said, err := tune(c)
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^adapters   rank 3, (.*\n)+takes      .*\ntime       at least .* for all, at half of the adapter's peak; .*\n`+
		`of which   7 steps of .*, 7 evaluations of .*, 5 samples of .*, 7 checkpoints of .*\ndry run    nothing was written; the same command without --dry-run trains\n$`, said)
	assert.NoDirExists(t, dir)
	c.serveFlags.Serve = ":0"
	_, err = tune(c)
	require.ErrorContains(t, err, "tune: --serve :0: found --dry-run or --memory, too")
	assert.Equal(t, 2, exitCode(err))

	c.DryRun = false
	said, err = tune(c)
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^live page at http://127\.0\.0\.1:\d+/$`, said)
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	c.DryRun, c.serveFlags.Serve, c.Set[1] = true, "", "lora.rank=4"
	said, err = tune(c)
	require.NoError(t, err)
	assert.Contains(t, said, "adapters   rank 4")
	assert.Contains(t, said, "without --dry-run trains with what was chosen before, "+filepath.Join(dir, tuneFile)+"; with --fresh by this\n")
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(before), fmt.Sprint(after))
	c.DryRun, c.Memory, c.serveFlags.Serve = false, "8GiB", ":0"
	_, err = tune(c)
	require.ErrorContains(t, err, "tune: --serve :0: found --dry-run or --memory, too")
}

// A data set's directory says what is held out, or --held does, and a run is held to that.
func TestTuneHoldsOut(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	gputest.Device(t)
	base, set, apart := speaker(t), filepath.Join(t.TempDir(), "chat-set"), chatsFile(t, 55)
	require.NoError(t, os.MkdirAll(filepath.Join(set, "data"), 0o777))
	rows, err := os.ReadFile(apart)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(rows), "\n") // the first 40 differ
	file := func(path, rows string) string {
		require.NoError(t, os.WriteFile(path, []byte(rows), 0o666))
		return path
	}
	file(filepath.Join(set, "data", "train-0.jsonl"), strings.Join(lines[:10], ""))
	file(filepath.Join(set, "data", "train-1.jsonl"), strings.Join(lines[10:24], ""))
	validation := file(filepath.Join(set, "data", "validation-0.jsonl"), strings.Join(lines[24:30], ""))
	file(filepath.Join(set, "data", "test-0.jsonl"), lines[30])
	held := file(filepath.Join(t.TempDir(), "held.jsonl"), strings.Join(lines[30:33], ""))
	dir := filepath.Join(t.TempDir(), "run")
	tune := func(c tuneCmd) (string, error) {
		if c.Model == "" {
			c.Model = base
		}
		if c.Data == nil {
			c.Data = []string{set}
		}
		c.Progress, c.Set = "none", append([]string{"data.epochs=1"}, c.Set...)
		return printed(t, func() error { return c.Run(t.Context()) })
	}
	said, err := tune(tuneCmd{RunDir: dir})
	require.NoError(t, err)
	assert.Contains(t, said, "\ndata set   2 files of chat-set to train on, its split validation held out (1 files); not read: test\n")
	assert.Contains(t, said, "\nheld out   6 conversations of validation-0.jsonl, evaluated every ")
	assert.Contains(t, said, "for 24 conversations to learn")
	cfg := runfile.New()
	require.NoError(t, cfg.File(filepath.Join(dir, tuneFile)))
	assert.Equal(t, []string{validation}, cfg.Data.Held)
	assert.Len(t, cfg.Data.JSONL, 2)
	_, err = tune(tuneCmd{RunDir: dir})
	require.NoError(t, err, "there is nothing left to do")
	_, err = printed(t, func() error { return (&evalCmd{modelFlags: modelFlags{Model: dir}, Batch: 8}).Run(t.Context()) })
	require.NoError(t, err)

	said, err = tune(tuneCmd{DryRun: true, Held: []string{held}, RunDir: dir + "-2"})
	require.NoError(t, err)
	assert.Contains(t, said, "\ndata set   2 files of chat-set to train on; not read: test, validation\n")
	assert.Contains(t, said, "\nheld out   3 conversations of held.jsonl, evaluated every ")
	for want, c := range map[string]tuneCmd{
		"found a run that holds out " + validation + ", wanted " + held:                {Held: []string{held}, RunDir: dir},
		"found 3 of its 3 rows among those to train on, too, wanted none":              {Held: []string{held}, Data: []string{apart}},
		"found it among the files to train on, too":                                    {Held: []string{held}, Data: []string{apart, held}},
		"data.held (--held) and data.validation (--set): found both, wanted one":       {Held: []string{held}, Set: []string{"data.validation=0.2"}},
		"tune: data.held (--set): found " + held + ", wanted nothing: --held names":    {Set: []string{"data.held=" + held}},
		"found config.json, as models and runs have, wanted the directory of a data":   {Data: []string{base}},
		"found no files of rows, wanted .parquet, .jsonl or .json, also .gz, in it or": {Data: []string{t.TempDir()}},
		`absent.jsonl": file does not exist`:                                           {Held: []string{filepath.Join(set, "absent.jsonl")}},
		"found a directory, wanted files":                                              {Held: []string{set}},
	} {
		if c.RunDir == "" {
			c.RunDir = dir + "-none"
		}
		_, err := tune(c)
		require.ErrorContains(t, err, want)
		assert.Equal(t, 2, exitCode(err), err)
		assert.NoDirExists(t, dir+"-none")
	}
}
