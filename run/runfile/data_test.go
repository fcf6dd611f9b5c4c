package runfile

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSourcesOfAMixture(t *testing.T) {
	c := New()
	require.NoError(t, c.Parse("run.yaml", []byte(`
data:
  mixture:
    - {text: ["books/*.txt", more.txt], weight: 3}
    - {jsonl: chats.jsonl.gz, weight: 0.5, prompt_field: question, field: answer}
  mixture_end: all_exhausted
  eos: 7
`)))
	require.NoError(t, c.Validate())
	want := []Source{
		{Text: []string{"books/*.txt", "more.txt"}, Weight: 3},
		{JSONL: []string{"chats.jsonl.gz"}, Weight: 0.5, PromptField: "question", Field: "answer"},
	}
	assert.Equal(t, want, c.Data.Mixture)
	assert.Equal(t, 7, *c.Data.Layout.End)
	// What is printed is read again as the same.
	var text bytes.Buffer
	require.NoError(t, c.Explain(&text))
	printed := `[{"text":["books/*.txt","more.txt"],"weight":3},{"jsonl":["chats.jsonl.gz"],"weight":0.5,"field":"answer","prompt_field":"question"}]`
	assert.Contains(t, text.String(), printed)
	again := New()
	require.NoError(t, again.Set("data.mixture="+printed))
	assert.Equal(t, want, again.Data.Mixture)
}

func TestDataThatCannotBeMeant(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{"data.text=a", "data.jsonl=b"}, "data.text (--set) and data.jsonl (--set): found both"},
		{[]string{"data.jsonl=a", "data.mixture=[{text: a, weight: 1}]"}, "data.jsonl (--set) and data.mixture (--set): found both"},
		{[]string{"data.packing=greedy"}, "data.packing (--set): found \"greedy\", wanted first_fit without documents"},
		{[]string{"data.text=a", "data.long=keep_end"}, "data.long (--set): found \"keep_end\", wanted split without documents"},
		{[]string{"data.text=a", "data.eos=3"}, "data.eos (--set): found 3, wanted null without documents"},
		{[]string{"data.jsonl=a", "data.eos=-2"}, "data.eos (--set): found -2, wanted -1 or more, or null"},
		{[]string{"data.jsonl=a", "data.field=x", "data.format=messages"}, "data.format (--set): found messages, wanted auto or fields with data.field"},
		{[]string{"data.format=messages"}, `data.format (--set): found "messages", wanted auto without documents`},
		{[]string{"data.roles=[user]"}, "data.roles (--set): found [\"user\"], wanted none without documents"},
		{[]string{"data.jsonl=a", "data.date=2024-02-30"}, "data.date (--set): found \"2024-02-30\", wanted a date such as"},
		{[]string{"data.prompt_field=question"}, `data.prompt_field (--set): found "question", wanted nothing without data.jsonl`},
		{[]string{"data.mixture=[{jsonl: a, weight: 1}]", "data.field=answer"}, "data.field (--set): found \"answer\", wanted nothing without data.jsonl; the sources of a mixture have"},
		{[]string{"data.jsonl=a", "data.packing=stream", "data.long=keep_end"}, "data.long (--set): found keep_end, wanted split with data.packing stream"},
		{[]string{"data.mixture_end=all_exhausted"}, "data.mixture_end (--set): found \"all_exhausted\", wanted restart without data.mixture"},
		{[]string{"data.mixture=[{text: a, weight: 1}]", "data.epochs=2"}, "data.epochs (--set): found 2, wanted 0 with data.mixture_end restart"},
		{[]string{"data.mixture=[{weight: 1}]"}, "data.mixture[0] (--set): found text [] and jsonl [], wanted files in one of them"},
		{[]string{"data.mixture=[{text: a, weight: 1}, {text: b, jsonl: c, weight: 1}]"}, "data.mixture[1] (--set): found text"},
		{[]string{"data.mixture=[{text: a, weight: 0}]"}, "data.mixture[0].weight (--set): found 0, wanted more than 0"},
		{[]string{"data.mixture=[{text: a, weight: .inf}]"}, "data.mixture[0].weight (--set): found +Inf, wanted more than 0"},
		{[]string{"data.mixture=[{text: a, weight: 1, mask_field: m}]"}, "wanted none of them for text"},
		{[]string{"data.mixture=[{text: a}]"}, "data.mixture[0]: found {text: a}, wanted weight too"},
		{[]string{"data.mixture={text: a}"}, "data.mixture: found {text: a}, wanted weight too"},
		{[]string{"data.mixture=[{text: a, weight: 1}, b]"}, "data.mixture[1]: found b, wanted {[text: a list, each text], [jsonl: a list, each text], weight: a number"},
		{[]string{"data.mixture=[{text: a, weight: one}]"}, "data.mixture[0].weight: found one, wanted a number"},
		{[]string{"data.mixture=[{text: [a, [b]], weight: 1}]"}, "data.mixture[0].text[1]: found [b], wanted text"},
		{[]string{"data.mixture=[{text: a, weight: 1, share: 2}]"}, `data.mixture[0]: unknown key "share", wanted text, jsonl, weight, field, prompt_field, mask_field`},
		{[]string{"data.mixture=[{txt: a, weight: 1}]"}, `data.mixture[0]: unknown key "txt", wanted text, jsonl, weight, field, prompt_field, mask_field, did you mean "text"?`},
		{[]string{"data.tokens=u16"}, "data.tokens (--set): found \"u16\", wanted bytes, or files in data.text"},
	} {
		refused(t, c.want, c.sets...)
	}
}
