package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
)

// rowsOfHeads writes rows from which each head learns what it is: which word is good, which of two is better, which letter belongs to which.
func rowsOfHeads(t *testing.T, p *place) {
	t.Helper()
	var classes, pairs, queries strings.Builder
	good, bad := []string{"good", "fine", "great"}, []string{"bad", "poor", "awful"}
	for i := range 60 {
		a, b, letter := good[i%3], bad[i/3%3], string(rune('a'+i%7))
		fmt.Fprintf(&classes, "{\"text\": \"it was %s\", \"label\": \"up\"}\n{\"text\": \"it was %s\", \"label\": \"down\"}\n", a, b)
		fmt.Fprintf(&pairs, "{\"prompt\": \"say \", \"chosen\": %q, \"rejected\": %q, \"margin\": %d}\n", a, b, i%2)
		fmt.Fprintf(&queries, "{\"id\": %d, \"query\": \"find %s\", \"positive\": \"%s here\", \"negatives\": [\"%d there\"]}\n", i, letter, letter+letter, i%10)
	}
	p.write(t, "classes.jsonl", classes.String())
	p.write(t, "pairs.jsonl", pairs.String())
	p.write(t, "queries.jsonl", queries.String())
}

// TestHeadsFromRowsToScores trains each head for some steps from a language model, with adapters and without, and compares what the run, its export and, of
// adapters, the merged model say of rows.
func TestHeadsFromRowsToScores(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	rowsOfHeads(t, p)
	ok(t, p.train("first", "--set", "train.steps=1", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.sample_tokens=0", "--set", "train.eval_every=0", "--set", "model.kind=llama", "--set", "model.dropout=0"))
	ok(t, p.command("export", "first", "--to", "origin"))
	for _, c := range []struct {
		name, rows  string
		sets        []string
		class, card string
	}{
		{"classes", "classes", []string{"head.objective=classes"}, "LlamaForSequenceClassification", "AutoModelForSequenceClassification"},
		{"rewards", "pairs", []string{"head.objective=reward", "lora.rank=4", "head.center_rewards_coefficient=0.01"}, "", "AutoPeftModelForSequenceClassification"},
		{"vectors", "queries", []string{"head.objective=embed", "head.pooling=mean", "head.negatives=1", "train.batch=6", "train.accumulate=2"}, "LlamaModel", "AutoModel\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sets := slices.Concat([]string{
				"model.from=origin", "data.text=[]", "data.jsonl=" + c.rows + ".jsonl", "train.steps=60", "train.accumulate=1", "train.batch=8", "train.eval_every=60",
				"train.eval_tokens=0", "train.save_every=30", "model.dropout=0",
			}, c.sets)
			var args []string
			for _, s := range sets {
				args = append(args, "--set", s)
			}
			said := ok(t, p.train(c.name, args...))
			assert.NotContains(t, said.err, "text only")
			all := metricsOf(t, p.path(c.name))
			last := all[len(all)-1]
			assert.EqualValues(t, 1, last["eval_figures"].(map[string]any)["accuracy"], "learned")
			found := objects(t, ok(t, p.command("eval", c.name, "--json")).out)[0]
			assert.InEpsilon(t, last["eval_loss"], found["eval_loss"], 0.02, "but for the rows that a batch has")
			assert.EqualValues(t, 1, found["accuracy"])

			p.write(t, c.name+".few", lines3(t, p, c.rows))
			few := c.name + ".few"
			score := func(from string) string { return ok(t, p.command("score", from, few, "--batch", "4")).out }
			own := score(c.name)
			rows := objects(t, own)
			require.Len(t, rows, 3)
			assert.EqualValues(t, 1, rows[0]["row"])
			switch c.name {
			case "classes":
				assert.Equal(t, "up", rows[0]["label"])
				assert.Equal(t, "down", rows[1]["label"])
				shares := rows[0]["probabilities"].(map[string]any)
				assert.InDelta(t, 1, shares["up"].(float64)+shares["down"].(float64), 1e-9)
			case "rewards":
				of := func(key string) float64 { return rows[0][key].(map[string]any)["score"].(float64) }
				assert.Greater(t, of("chosen"), of("rejected"))
			case "vectors":
				assert.EqualValues(t, 0, rows[0]["id"])
				of := func(key string) float64 { return rows[0][key].(map[string]any)["similarity"].(float64) }
				assert.Greater(t, of("positive"), of("negatives[0]"))
			}
			exported := c.name + "-exported"
			ok(t, p.command("export", c.name, "--to", exported))
			assert.Equal(t, own, score(exported), "a reload says the same")
			assert.Contains(t, read(t, p.path(exported, "README.md")), c.card)
			found = objects(t, ok(t, p.command("eval", exported, "--json", "--jsonl", c.rows+".jsonl")).out)[0]
			assert.EqualValues(t, 1, found["accuracy"])
			if c.class != "" {
				assert.Contains(t, read(t, p.path(exported, "config.json")), `"`+c.class+`"`)
			} else {
				assert.Contains(t, read(t, p.path(exported, model.AdapterConfigFile)), `"SEQ_CLS"`)
				ok(t, p.command("merge", c.name, "--to", "merged"))
				assert.Contains(t, read(t, p.path("merged", "config.json")), `"pad_token_id": 255`)
				near(t, rows, objects(t, score("merged")))
			}
			if testing.Short() && c.name != "rewards" { // what follows is of any head
				return
			}
			refused(t, p.command("sample", c.name), 2, "in place of logits, wanted one that writes text: gputrain score ")
			refused(t, p.command("export", c.name, "--to", c.name+".gguf"), 2, "GGUF files are written of language models alone")
			refused(t, p.command("eval", c.name, "--text", "text.txt"), 2, "found --text, wanted --jsonl")

			// The same command goes on, to the same bits.
			require.NoError(t, os.RemoveAll(p.path(c.name, "checkpoints", "step-00000060")))
			ok(t, p.train(c.name, args...))
			assert.Equal(t, own, score(c.name), "resumed")
			if !testing.Short() {
				ok(t, p.train(c.name+"-staged", append(args, "--set", "pipeline.stages=2")...))
				assert.Equal(t, own, score(c.name+"-staged"))
			}
		})
	}
}

// lines3 are the first rows of a file.
func lines3(t *testing.T, p *place, name string) string {
	return strings.Join(strings.SplitAfterN(read(t, p.path(name+".jsonl")), "\n", 4)[:3], "")
}

// near compares scores of pairs.
func near(t *testing.T, want, found []map[string]any) {
	for i := range want {
		for _, key := range []string{"chosen", "rejected"} {
			assert.InDelta(t, want[i][key].(map[string]any)["score"], found[i][key].(map[string]any)["score"], 1e-4)
		}
	}
}

// The commands of docs/heads.md print what it shows.
func TestHeadsPage(t *testing.T) {
	gputest.Long(t, "TestHeadsFromRowsToScores")
	runPage(t, "../docs/heads.md", 8, func(dir string) {
		require.NoError(t, os.CopyFS(filepath.Join(dir, "docs", "tuning"), os.DirFS("../docs/tuning")))
		_, yaml, _ := strings.Cut(read(t, "../docs/heads.md"), "$ cat judge.yaml\n")
		yaml, _, _ = strings.Cut(yaml, "$")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "judge.yaml"), []byte(yaml), 0o666))
	}, "GPUTRAIN_ADAPTER="+adapter(t), "GPUTRAIN_CACHE="+workshop)
}

// TestHeadsRefused has one line for each mistake, that names the row or the key and what helps.
func TestHeadsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	rowsOfHeads(t, p)
	p.write(t, "numbers.jsonl", `{"text": "a", "label": 0}`+"\n"+`{"text": "b", "label": 5}`+"\n")
	p.write(t, "one.jsonl", `{"text": "a", "label": "x"}`+"\n"+`{"text": "b", "label": "x"}`+"\n")
	p.write(t, "mixed.jsonl", `{"text": "a", "label": "x"}`+"\n"+`{"text": "b", "label": 1}`+"\n")
	p.write(t, "bad.jsonl", "\n"+`{"label": "x"}`+"\n")
	p.write(t, "far.jsonl", fmt.Sprintf("{\"text\": %q}\n", strings.Repeat("far ", 20)))
	small := []string{"data.text=[]", "data.validation=0", "train.steps=1", "train.eval_every=0", "train.accumulate=1", "train.batch=4", "optimizer.schedule.warmup_steps=0"}
	for want, sets := range map[string][]string{
		"head.objective (--set): found classes, wanted none without data.jsonl":            {"head.objective=classes"},
		"head.temperature (--set): found 0.02, wanted nothing with head.objective classes": {"head.objective=classes", "data.jsonl=classes.jsonl", "head.temperature=0.02"},
		`head.labels (--set): found ["a"], wanted nothing with head.objective none`:        {"head.labels=[a]"},
		`head.labels (--set): found ["a", "a"], wanted different names`:                    {"head.objective=classes", "data.jsonl=classes.jsonl", "head.labels=[a, a]"},
		"found 3, wanted the number of names in head.labels":                               {"head.objective=classes", "data.jsonl=classes.jsonl", "head.labels=[a, b]", "head.num_labels=3"},
		`line 1: label: found "up", wanted a or b`:                                         {"head.objective=classes", "data.jsonl=classes.jsonl", "head.labels=[a, b]"},
		"line 2: label: found 5, wanted 0 to 2":                                            {"head.objective=classes", "data.jsonl=numbers.jsonl", "head.labels=[a, b, c]"},
		"head.num_labels (--set): found 3, wanted 6 or more":                               {"head.objective=classes", "data.jsonl=numbers.jsonl", "head.num_labels=3"},
		"wanted two labels or more in data.jsonl, found 1":                                 {"head.objective=classes", "data.jsonl=one.jsonl"},
		"line 2: label: found 1, and names and numbers in other rows":                      {"head.objective=classes", "data.jsonl=mixed.jsonl"},
		`line 1: found fields ["label" "text"], wanted ["prompt" "chosen" "rejected"]`:     {"head.objective=reward", "data.jsonl=one.jsonl"},
		"train.batch (--set): found 4, wanted a multiple of 3":                             {"head.objective=embed", "head.negatives=1", "data.jsonl=queries.jsonl"},
		"negatives: found 1, wanted at most 0, as head.negatives says":                     {"head.objective=embed", "data.jsonl=queries.jsonl"},
		`head.objective (--set): found "reward", wanted none with preference.loss simpo`:   {"head.objective=reward", "data.jsonl=pairs.jsonl", "preference.loss=simpo"},
		"train.z_loss (--set): found 0.1, wanted nothing with head.objective reward":       {"head.objective=reward", "data.jsonl=pairs.jsonl", "train.z_loss=0.1"},
		`data.packing (--set): found "stream", wanted nothing with head.objective classes`: {"head.objective=classes", "data.jsonl=classes.jsonl", "data.packing=stream"},
		"text: found 81 tokens, wanted at most 32, a window: model.context":                {"head.objective=classes", "data.jsonl=long.jsonl"},
		`run file: head.objective (--set): found "score", wanted one of none, `:            {"head.objective=score"},
	} {
		p.write(t, "long.jsonl", fmt.Sprintf("{\"text\": %q, \"label\": 0}\n{\"text\": \"b\", \"label\": 1}\n", strings.Repeat("far ", 20)))
		args := []string{}
		for _, s := range slices.Concat(small, sets) {
			args = append(args, "--set", s)
		}
		refused(t, p.train("refused", args...), 2, want)
	}
	ok(t, p.train("plain", "--set", "train.steps=1", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.sample_tokens=0", "--set", "train.eval_every=0"))
	refused(t, p.command("score", "plain", "classes.jsonl"), 2, "found a language model, wanted one with scores or vectors of rows")
	args := []string{}
	for _, s := range append(small, "data.jsonl=classes.jsonl", "head.objective=classes") {
		args = append(args, "--set", s)
	}
	ok(t, p.train("sorts", args...))
	refused(t, p.train("again", "--set", "model.from=sorts", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.steps=1"), 2, "found 2 scores a row in sorts in place of logits, wanted head.objective reward, classes or embed")
	refused(t, p.train("again", "--set", "model.from=sorts", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.steps=1", "--set", "data.text=[]", "--set", "data.jsonl=pairs.jsonl", "--set", "head.objective=reward"), 2,
		"wanted 2 labels, as model.from has")
	p.write(t, "empty.jsonl", "\n")
	refused(t, p.command("score", "sorts", "empty.jsonl"), 2, "found no rows, wanted one or more")
	refused(t, p.command("score", "sorts", "none.jsonl"), 2, "no such file")
	refused(t, p.command("score", "sorts", "bad.jsonl"), 2, "line 2: found fields [], wanted")
	refused(t, p.command("score", "sorts", "far.jsonl"), 2, "line 1: found 81 tokens, wanted at most 32, the window")
	refused(t, p.command("score", "sorts", "classes.jsonl", "--batch", "0"), 2, "--batch 0")
}
