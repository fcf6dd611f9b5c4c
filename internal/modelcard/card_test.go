package modelcard

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCard(t *testing.T) {
	c := Card{
		Title: "small", About: "Adapters for Org/Base.", Base: "Org/Base", Relation: Adapter, License: License{Names: []string{"mit"}},
		Library: "peft", Task: "text-generation", Tags: []string{"gputrain", "lora"},
		Settings: []Row{{"train.seed", "7"}}, Use: []Use{{"sh", "sh", "use DIR"}},
	}
	c.Add("data", "my_chats.jsonl; _all_ *.txt")
	c.Add("nothing", "")
	assert.Equal(t, `---
base_model: Org/Base
base_model_relation: adapter
license: mit
library_name: peft
pipeline_tag: text-generation
tags:
- gputrain
- lora
---

# small

Adapters for Org/Base.

| | |
|---|---|
| data | my_chats.jsonl; \_all\_ \*.txt |

## Settings

Those that were chosen, and the usual ones.

`+"```yaml\ntrain.seed: 7\n```"+`

## Use

`+"`DIR` is this directory.\n\nWith sh:\n\n```sh\nuse DIR\n```\n", string(c.Text()))
	assert.Equal(t, "---\n---\n\n# x\n\ny\n", string(Card{Title: "x", About: "y"}.Text()))
}

// A name of somebody else is the same text for who reads the YAML, and nothing else for who reads the page.
func TestCardOfStrangeNames(t *testing.T) {
	for _, name := range []string{"no", "null", "1.5", "-", "a: b", "a #b", `"x"`, `\`, "é ✓", "[x](y)", "<b>&amp;", "- a", "---", "%x", "@x", "true", "models/"} {
		c := Card{Title: name, About: name, Base: name, License: License{Names: []string{name, "mit"}, Name: name}, Tags: []string{name}, Settings: []Row{{name, `"x"`}}}
		c.Add(name, name)
		front, page, ok := strings.Cut(strings.TrimPrefix(string(c.Text()), "---\n"), "\n---\n")
		require.True(t, ok, name)
		var got map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(front), &got), name)
		assert.Equal(t, map[string]any{"base_model": name, "license": []any{name, "mit"}, "license_name": name, "tags": []any{name}}, got)
		page, settings, _ := strings.Cut(page, "```yaml\n")
		for _, markup := range []string{"[x]", "<b>", " &amp", "\n#x"} {
			assert.NotContains(t, page, markup)
		}
		settings, _, _ = strings.Cut(settings, "```\n")
		require.NoError(t, yaml.Unmarshal([]byte(settings), &got), settings)
		assert.Equal(t, "x", got[name], settings)
	}
	hostile := Card{Title: "a\n---\n\x1b[31m", Base: "x\ny\u202e", Settings: []Row{{"a\n```", "1"}}}
	hostile.Add("a|b", "c\r\n| d |")
	text := string(hostile.Text())
	assert.Contains(t, text, "---\nbase_model: \"x\\ny\\\\u202e\"\n---\n")
	assert.Contains(t, text, "\n# a --- \\\\x1b\\[31m\n")
	assert.Contains(t, text, "\n| a\\|b | c\\\\r \\| d \\| |\n")
	assert.Contains(t, text, "\n\"a\\n```\": 1\n```\n")
}
