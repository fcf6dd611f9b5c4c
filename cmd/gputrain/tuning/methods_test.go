package tuning

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/reward"
	"gputrain/run/runfile"
)

// TestWeights has good rows weigh as much as bad ones, or up to a third more.
func TestWeights(t *testing.T) {
	for _, n := range [][2]int{{1, 1}, {4, 3}, {100, 75}, {3, 4}, {10, 9}, {1, 40}, {1000, 7}, {12345, 23456}, {7, 10}, {999, 1}} {
		good, bad := Weights(n[0], n[1])
		assert.Equal(t, 1.0, min(max(good, 1), max(bad, 1)))
		of := good * float64(n[0]) / (bad * float64(n[1]))
		assert.True(t, of >= 1 && of <= 4./3+1e-9, "%v: %v, %v: %v", n, good, bad, of)
	}
	good, bad := Weights(0, 5)
	assert.Equal(t, [2]float64{1, 1}, [2]float64{good, bad})
}

// TestMethods: an update has whole pairs or groups, no row is cut, and the rate is what is published for adapters.
func TestMethods(t *testing.T) {
	f := Facts{
		Model: Model{Parameters: 1e9, Width: 1024, Side: 256, Context: 2048, Stored: "f32"}, Machine: Machine{Memory: 1 << 40, Bases: []string{"f32"}},
		Good: 30, Bad: 90, Negatives: 1,
	}
	for i := range 400 {
		f.Lengths = append(f.Lengths, 20+i%50)
	}
	f.Lengths[7] = 700
	rates := map[string]float64{"sft": 4e-4, "dpo": 4e-5, "kto": 4e-5, "grpo": 1e-4, "reward": 2e-4, "classes": 2e-4, "embed": 2e-4}
	for _, m := range Methods {
		of, given := f, Given{Model: "m", Rows: []string{"d"}, Method: m, Negatives: 1}
		if of.Least = 900; m.Form == "" {
			of.Least = 0
		}
		if m.Draws {
			given.Rewards = []reward.Spec{{Kind: "number", Column: "answer"}, {Kind: "length"}}
		}
		begun, err := Config(given, nil, nil, nil)
		require.NoError(t, err, m.Name)
		of.Method = m.In(begun)
		var tried []Recipe
		_, err = Choose(of, func(r Recipe) (bool, error) {
			tried = append(tried, r)
			return false, nil
		})
		var large *TooLargeError
		require.ErrorAs(t, err, &large)
		assert.InDelta(t, rates[m.Name], tried[0].Rate, 1e-9, m.Name)
		for _, r := range tried {
			run, err := Config(given, &r, nil, nil)
			require.NoError(t, err, "%s: %+v", m.Name, r)
			assert.Equal(t, m.Form, run.Objective().Row().Form)
			for _, c := range r.Choices(run) {
				assert.LessOrEqual(t, len(c.Text), 120, c.Text)
			}
		}
		assert.Equal(t, m.Name, MethodOf(m.Form).Name)
		if r := tried[0]; m.Form != "" {
			assert.GreaterOrEqual(t, r.Batch*r.Accumulate, of.Method.Each*m.Least, m.Name)
			assert.Equal(t, map[bool]int{true: 1216, false: 960}[m.Draws], r.Context, m.Name)
		}
	}
}

// TestDrawn: completions have room behind the longest prompt, all that is under way at once shrinks with memory, and groups stay whole.
func TestDrawn(t *testing.T) {
	f := Facts{Model: models["SmolLM2-135M"], Method: MethodOf("prompts"), Machine: Machine{Memory: 1 << 40, Bases: []string{"f32", "bf16"}}, Lengths: chats(1000, 10, 90)}
	var rows []int
	_, err := Choose(f, func(r Recipe) (bool, error) {
		assert.Zero(t, r.Batch*r.Accumulate%8, "%+v", r)
		assert.Equal(t, []int{640, 512}, []int{r.Context, r.Tokens})
		rows = append(rows, r.Rows)
		return false, nil
	})
	require.Error(t, err)
	assert.Equal(t, []int{40, 8}, []int{rows[0], rows[len(rows)-1]}, "10 of 200 completions at once, 1 at last")
	f.Machine.Software = true
	r, err := Choose(f, func(Recipe) (bool, error) { return true, nil })
	require.NoError(t, err)
	assert.Equal(t, []int{256, 128}, []int{r.Context, r.Tokens})
	assert.InDelta(t, 2e-4, r.Rate, 1e-9, "2.5e-5 x 4096 / 576")
	for width, rate := range map[int]float64{64: 2e-3, 1024: 1e-4, 4096: 3e-5} {
		f.Model.Width = width
		assert.InDelta(t, rate, f.rate(), 1e-9)
	}
	f.Model.Context = 64
	_, err = Choose(f, func(Recipe) (bool, error) { return true, nil })
	require.EqualError(t, err, "tune: prompts: found one of 90 tokens, wanted less than the window of 64: completions stand behind")
}

// A row tells its method, or which there are.
func TestRowsTellTheMethod(t *testing.T) {
	of := func(text string) (r Row) {
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		return r
	}
	for text, want := range map[string]string{
		`{"messages": []}`:                                                  "sft",
		`{"prompt": "a", "completion": ""}`:                                 "sft",
		`{"instruction": "a", "output": ""}`:                                "sft",
		`{"text": "a", "label": null}`:                                      "sft",
		`{"what": "a"}`:                                                     "sft",
		`{"prompt": "a", "chosen": "b", "rejected": "c"}`:                   "dpo",
		`{"messages": [], "chosen": "b", "rejected": "c"}`:                  "dpo",
		`{"prompt": "a", "completion": "b", "label": true}`:                 "kto",
		`{"prompt": "a", "completion": "b", "kto_tag": false}`:              "kto",
		`{"prompt": "a", "completion": "b", "label": 1}`:                    "found rows with completion, label, prompt, which several methods take, wanted one of them: --method kto or classes",
		`{"prompt": "a", "completion": "b", "label": 2}`:                    "classes",
		`{"text": "a", "label": 0}`:                                         "classes",
		`{"messages": [], "label": "good"}`:                                 "classes",
		`{"prompt": "a", "answer": 4}`:                                      "grpo",
		`{"query": "a", "positive": "b"}`:                                   "embed",
		`{"query": "a", "positive": "b", "chosen": "c", "rejected": "d"}`:   "found rows with chosen, positive, query, rejected, which several methods take, wanted one of them: --method dpo or embed",
		`{"prompt": "a", "completion": "b", "label": "x", "query": null}`:   "classes",
		`{"prompt": "a", "answer": 4, "chosen": null, "completion": null}`:  "grpo",
		`{"prompt": "a", "completion": "b", "label": "x", "kto_tag": true}`: "kto",
	} {
		m, err := of(text).Method()
		if err != nil {
			assert.EqualError(t, err, want, text)
			continue
		}
		assert.Equal(t, want, m.Name, text)
	}
	for method, text := range map[string]string{
		"reward": `{"chosen": "b", "rejected": "c"}`, "grpo": `{"prompt": "a", "completion": "b"}`, "sft": `{"text": "a", "label": 0}`,
		"kto": `{"prompt": "a", "completion": "b", "label": 1}`, "classes": `{"prompt": "a", "completion": "b", "label": 1}`,
	} {
		m, err := of(text).Named(method)
		require.NoError(t, err)
		assert.Equal(t, method, m.Name)
	}
	for method, want := range map[string]string{
		"sft": "found rows with other, wanted rows with conversations (messages", "dpo": "wanted rows with prompt, chosen and rejected", "kto": "prompt, completion and label (true: good, or false)",
		"grpo": "wanted rows with prompt, and columns for rewards", "reward": "prompt, chosen and rejected", "classes": "wanted rows with text", "embed": "query, positive and perhaps negatives",
		"ppo": `found "ppo", wanted sft, dpo, kto, grpo, reward, classes or embed, did you mean "dpo"?`,
	} {
		_, err := of(`{"other": 1}`).Named(method)
		assert.ErrorContains(t, err, want, method)
	}
}

// Rewards are named by kind and value, and rows tell which there may be.
func TestRewards(t *testing.T) {
	for text, want := range map[string]string{
		"number:answer": `[{"kind":"number","column":"answer"}]`, "equal:a b": `[{"kind":"equal","column":"a b"}]`, "length": `[{"kind":"length","buffer":102}]`,
		"length:64": `[{"kind":"length","buffer":64}]`, "repetition": `[{"kind":"repetition"}]`, "repetition:4": `[{"kind":"repetition","ngram":4}]`,
		"tags:<a>,</a>": `[{"kind":"tags","tags":["<a>","</a>"]}]`, "regex:a:b": `[{"kind":"regex","pattern":"a:b"}]`, "model:judge": `[{"kind":"model","model":"judge"}]`,
		"command:python3 judge.py": `[{"kind":"command","command":["python3","judge.py"]}]`,
	} {
		s, err := Reward(text)
		require.NoError(t, err, text)
		run := runfile.New()
		require.NoError(t, LayRewards(run, []reward.Spec{s}))
		back, err := json.Marshal(run.Rewards)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(back), text)
		assert.True(t, run.CommandsTyped(), "as if it stood behind --set")
	}
	for text, want := range map[string]string{
		"numbre:answer": `did you mean "number"`, "number": `found "number", wanted number:COLUMN`, "length:x": `found "x", wanted a number of tokens`, "equal:": "wanted equal:COLUMN", "command:": "wanted command:PROGRAM ARGUMENTS",
	} {
		_, err := Reward(text)
		require.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{
		`{"prompt": "a", "answer": "so 4", "level": 3}`:   "--reward number:answer or --set 'rewards=[...]'",
		`{"prompt": "a", "target": "yes", "solution": 4}`: "--reward equal:target, --reward number:solution or --set 'rewards=[...]'",
		`{"prompt": "a", "capital": "Rome", "list": [1]}`: ": --reward equal:capital or --set 'rewards=[...]'",
		`{"prompt": "a"}`: ": --set 'rewards=[...]'",
	} {
		var r Row
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		require.ErrorContains(t, r.Unrewarded(), want)
	}
}
