package tests

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/chat"
	"gputrain/chat/template"
	"gputrain/gpu/gputest"
	"gputrain/state"
	"gputrain/tokenizer"
	"gputrain/train"
	"gputrain/train/setup"
)

// A world of things, each with a colour, a size and a place. A model that has learned the facts is tuned to say "sir" when it tells them.
type world struct {
	facts []fact
	held  []fact // that are never asked for in tuning
}

type fact struct {
	questions []string
	answer    string
}

func newWorld() (w world) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, thing := range strings.Fields("lamp cup boat door chair bell hat coat key drum kite ball book bird clock fish ring shoe tree vase wheel box pen rug") {
		for _, of := range []struct{ name, values, answer, first, second string }{
			{"colour", "red blue green white black gold", "is", "What colour is the %s?", "Which colour has the %s?"},
			{"size", "small large tiny huge", "is", "How large is the %s?", "What size has the %s?"},
			{"place", "kitchen garden attic harbour cellar", "is the", "Where is the %s?", "In which place is the %s?"},
		} {
			values := strings.Fields(of.values)
			w.facts = append(w.facts, fact{
				[]string{fmt.Sprintf(of.first, thing), fmt.Sprintf(of.second, thing), fmt.Sprintf("Tell me the %s of the %s.", of.name, thing)},
				fmt.Sprintf("The %s of the %s %s %s", of.name, thing, of.answer, values[r.IntN(len(values))]),
			})
		}
	}
	for _, i := range r.Perm(len(w.facts))[:14] {
		w.held = append(w.held, w.facts[i])
	}
	return w
}

// rows are conversations, in an order of their own.
func rows(facts []fact, times int, end string, more ...string) string {
	var all []string
	add := func(question, answer string) {
		row, err := json.Marshal(map[string]any{"messages": []map[string]string{{"role": "user", "content": question}, {"role": "assistant", "content": answer}}})
		if err != nil {
			panic(err)
		}
		all = append(all, string(row))
	}
	for range times {
		for _, f := range facts {
			for _, q := range f.questions {
				add(q, f.answer+end)
			}
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		add(more[i], more[i+1])
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return strings.Join(all, "\n") + "\n"
}

// write writes what docs/tuning.md begins with: the facts as text and as conversations, and conversations of the form to be learned.
func (w world) write(t *testing.T, dir string) {
	var text strings.Builder
	for _, f := range w.facts {
		fmt.Fprintf(&text, "%s, sir.\n%s\n", f.answer, strings.Join(f.questions, "\n"))
	}
	asked := slices.DeleteFunc(slices.Clone(w.facts), func(f fact) bool {
		return slices.ContainsFunc(w.held, func(h fact) bool { return h.answer == f.answer })
	})
	greetings := slices.Repeat([]string{"Hello.", "Good day, sir.", "Good day.", "Good day, sir."}, 50)
	for name, content := range map[string]string{"text.txt": text.String(), "world.jsonl": rows(w.facts, 4, ".", greetings...), "chats.jsonl": rows(asked, 1, ", sir.")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
}

// right is how many of the held questions a model answers right, in the form that ends so.
func (w world) right(t *testing.T, dir, end string) (right, of int) {
	t.Helper()
	dev := gputest.Device(t)
	m, err := state.LoadModel(dev, dir)
	require.NoError(t, err)
	defer m.Release()
	tok, err := tokenizer.Open(dir)
	require.NoError(t, err)
	speaks, err := chat.Open(dir, "")
	require.NoError(t, err)
	encoder, err := chat.NewEncoder(tok, speaks, chat.Options{})
	require.NoError(t, err)
	for _, f := range w.held {
		for _, q := range f.questions {
			row, err := template.Decode([]byte(strings.TrimSpace(rows([]fact{{[]string{q}, ""}}, 1, ""))))
			require.NoError(t, err)
			c, err := chat.FromRow(row.(*template.Object), "")
			require.NoError(t, err)
			c.Messages = c.Messages[:1]
			prompt, err := encoder.Prompt(c)
			require.NoError(t, err)
			var answer []int32
			require.NoError(t, train.GenerateTokens(t.Context(), train.SampleConfig{Tokens: 24, Stop: encoder.Ends()}, prompt, m, func(token int32) bool {
				answer = append(answer, token)
				return true
			}))
			text, err := tok.Decode(answer, true)
			require.NoError(t, err)
			if of++; text == f.answer+end {
				right++
			}
		}
	}
	return right, of
}

// The commands of docs/tuning.md teach a model that tells facts to tell them in another form. Facts that were never asked for in tuning are told so too, and
// are right: with adapters on their base, merged, and in a directory for other programs.
func TestTuningPage(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped, trains for a minute: run make check")
	}
	w := newWorld()
	p := runPage(t, "../docs/tuning.md", 6, func(dir string) { w.write(t, dir) }, "GPUTRAIN_ADAPTER="+adapter(t), "GPUTRAIN_CACHE="+workshop)
	page := func(name ...string) string { return p.path(append([]string{"page"}, name...)...) }
	newest, err := setup.Checkpoints(page("runs", "model-chats")).Newest()
	require.NoError(t, err)
	right, of := w.right(t, page("model"), ".")
	assert.GreaterOrEqual(t, 10*right, 9*of, "the base: %d of %d", right, of)
	for _, dir := range []string{newest.Path, page("merged"), page("adapters")} {
		right, of := w.right(t, dir, ", sir.")
		assert.GreaterOrEqual(t, 10*right, 9*of, "%s: %d of %d", dir, right, of)
	}
	said := read(t, page("said.txt"))
	assert.Regexp(t, `(?s)\nbefore tuning\n  question  .*\n  answer    The .* is .*\.\n.*\nafter tuning\n  question  .*\n  answer    The .* is .*, sir\.\n`, said)
}
