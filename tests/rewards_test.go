package tests

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command of rewards starts where it is typed, and not because a run file, the environment or a run directory names it.
func TestCommandsOfRewardsAreTyped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no sh")
	}
	p := newPlace(t)
	p.write(t, "judge.sh", "echo started >>starts\nwhile IFS= read -r row; do case $row in *'\"answer\":\"4\"'*) echo 1;; *) echo null;; esac; echo judged >&2; done\n")
	p.write(t, "prompts.jsonl", strings.Repeat(`{"prompt": "2 + 2 =", "answer": "4"}`+"\n"+`{"prompt": "3 + 4 =", "answer": "7"}`+"\n", 4))
	const drawn = `
model:   {kind: gpt2, layers: 1, heads: 2, width: 16, context: 32}
data:    {jsonl: prompts.jsonl, validation: 0}
rollout: {loss: dapo, samples: 2, tokens: 4}
train:   {steps: 1, batch: 4, sample_tokens: 0}
`
	const rewards = "[{kind: command, name: judge, command: [sh, judge.sh]}]"
	p.write(t, "without.yaml", drawn)
	p.write(t, "judge.yaml", drawn+"rewards: "+rewards+"\n")
	starts := func() int {
		text, err := os.ReadFile(p.path("starts"))
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		return strings.Count(string(text), "\n")
	}
	train := func(file, dir string, more ...string) command {
		return p.command(append([]string{"train", file, "--run-dir", dir, "--progress", "plain"}, more...)...)
	}
	const untyped = `reward "judge": found the command "sh judge.sh" in a file or in the environment, wanted it typed: --allow-command, or --set with the rewards`
	refused(t, train("judge.yaml", "none"), 2, untyped)
	refused(t, train("without.yaml", "none").with(func(c *command) { c.env = []string{"GPUTRAIN_REWARDS=" + rewards} }), 2, untyped)
	refused(t, train("without.yaml", "none", "--set", strings.Replace("rewards="+rewards, "judge.sh]", "judge.sh], timeout: soon", 1)), 2, "soon")
	assert.Zero(t, starts())

	said := ok(t, train("judge.yaml", p.runDir(t, "allowed"), "--allow-command")).err
	assert.Contains(t, said, `reward "judge": judged`)
	assert.Equal(t, 1, starts(), "once a run")
	ok(t, train("without.yaml", p.runDir(t, "typed"), "--set", "rewards="+rewards))
	assert.Equal(t, 2, starts())

	refused(t, train("typed/run.yaml", "none"), 2, untyped)
	ok(t, p.command("sample", "typed", "--tokens", "2"))
	p.command("eval", "typed").run(t)
	ok(t, p.command("config", "record", "judge.yaml"))
	ok(t, p.command("plan", "judge.yaml"))
	assert.Equal(t, 2, starts())
}

// eval of a run that draws says what its evaluations said, without what commands say, and measures texts as it does of any model.
func TestEvalOfRollouts(t *testing.T) {
	p := newPlace(t)
	p.write(t, "text.txt", strings.Repeat("2 + 2 = 4\n", 20))
	p.write(t, "prompts.jsonl", strings.Repeat(`{"prompt": "2 + 2 =", "answer": "4"}`+"\n"+`{"prompt": "3 + 4 =", "answer": "7"}`+"\n", 4))
	p.write(t, "run.yaml", `
model:   {kind: gpt2, layers: 1, heads: 2, width: 16, context: 32}
data:    {jsonl: prompts.jsonl, validation: 0.5}
rollout: {loss: dapo, samples: 2, tokens: 4}
train:   {steps: 1, storage: bf16, batch: 4, sample_tokens: 0, eval_tokens: 1000}
`)
	const length, command = "{kind: length, buffer: 4, weight: 0.5}", "{kind: each, command: ['true']}"
	ok(t, p.command("train", "run.yaml", "--run-dir", p.runDir(t, "own"), "--set", "rewards=["+length+", {kind: repetition, ngram: 2}]"))
	all := metricsOf(t, p.path("own"))
	said := all[len(all)-1]["eval_rollout"].(map[string]any)
	found := objects(t, ok(t, p.command("eval", "own", "--json")).out)[0]
	assert.EqualValues(t, 4, found["prompts"])
	assert.NotZero(t, said["reward"])
	for name, v := range said {
		assert.Equal(t, v, found[name], name)
	}
	assert.Equal(t, all[len(all)-1]["eval_loss"], found["eval_loss"])
	assert.Contains(t, ok(t, p.command("eval", "own", "--text", "text.txt")).out, "bits a byte")
	assert.Contains(t, ok(t, p.command("eval", "own", "--jsonl", "prompts.jsonl")).out, "8 completions of 8 prompts")

	if runtime.GOOS == "windows" {
		return
	}
	ok(t, p.command("train", "run.yaml", "--run-dir", p.runDir(t, "mixed"), "--set", "rewards=["+length+", "+command+"]"))
	assert.Contains(t, ok(t, p.command("eval", "mixed")).err, `the reward is without "each": eval starts no command`)
	ok(t, p.command("train", "run.yaml", "--run-dir", p.runDir(t, "alone"), "--set", "rewards=["+command+"]"))
	refused(t, p.command("eval", "alone"), 2, `found the rewards "each" alone, wanted one that is no command`)
}
