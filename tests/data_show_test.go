package tests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// data show prints conversations as training reads them, with no weights and no adapter: what is learned is marked, and what became of all is counted.
func TestDataShow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("speaker"), os.DirFS(filepath.Join(tokenizers, "qwen2"))))
	p.write(t, "speaker/chat_template.jinja", chatTemplate)
	p.write(t, "chats.json", "["+chatRow+",\n"+chatRow+"]")
	sets := []string{"data", "show", "--set", "data.jsonl=chats.json", "--set", "data.tokenizer=speaker", "--set", "data.validation=0", "--set", "model.context=64"}
	given := "2024<|im_start|>user:Hi<|im_end|><|im_start|>assistant:"
	more := "<|im_start|>user:And now?<|im_end|><|im_start|>assistant:"

	shown := ok(t, p.command(append(sets, "--documents", "1")...).withoutAdapter())
	assert.Contains(t, shown.out, given+"[[Hello, you<|im_end|>]]"+more+"[[Bye<|im_end|>]]\n")
	assert.Regexp(t, `chats\.json: 2 documents \(messages\) of \d+ tokens in 2 windows of 64, \d+ % full, template of speaker, \d+ % of the tokens learned, longest \d+, 0 cut, not read: text\n$`, shown.out)

	tok := openTokenizer(t, p.path("speaker"))
	count := func(text string) int { return len(tok.ids(text)) }
	all := objects(t, ok(t, p.command(append(sets, "--json", "--set", "data.learn_last=true")...).withoutAdapter()).out)
	require.Len(t, all, 3)
	learned := 0.0
	for _, one := range all[1]["learned"].([]any) {
		learned += one.(float64)
	}
	assert.EqualValues(t, count("Bye<|im_end|>"), learned)
	assert.Equal(t, given+"Hello, you<|im_end|>"+more+"Bye<|im_end|>", all[1]["text"])
	tally := all[2]["tally"].(map[string]any)
	assert.EqualValues(t, 2*count("Bye<|im_end|>"), tally["learned"])
	assert.EqualValues(t, 2*count(given+"Hello, you<|im_end|>"+more+"Bye<|im_end|>"), tally["tokens"])

	refused(t, p.command(append(sets, "--set", "data.template=chatmll")...).withoutAdapter(), 2, `data.template (--set): chat: open "speaker": template: found "chatmll"`)
	refused(t, p.command("data", "show", "--documents=-1").withoutAdapter(), 2, "--documents: found -1, wanted 0 or more")
}
