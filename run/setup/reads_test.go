package setup

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/run/data/texts"
	"gputrain/run/runfile"
	"gputrain/run/train"
)

// A run file, and what it names, is told with the key that names it; the toolchain's source is named by none.
func TestReadsOfARunFile(t *testing.T) {
	text := &texts.Corpus{Paths: []string{"a", "b"}}
	for key, set := range map[string]func(*runfile.Config){
		"data.text":  func(c *runfile.Config) { c.Data.Text = []string{"?"} },
		"data.jsonl": func(c *runfile.Config) { c.Data.JSONL = []string{"?"} },
		"data.mixture": func(c *runfile.Config) {
			c.Data.Mixture = []runfile.Source{{Text: []string{"a"}}, {JSONL: []string{"b"}}}
		},
	} {
		cfg := runfile.New()
		cfg.Data.Tokenizer = "ours"
		cfg.Read = []runfile.Text{{Path: "run.yaml"}}
		set(cfg)
		assert.Equal(t, []train.Read{{Key: "run file", Path: "run.yaml"}, {Key: "data.tokenizer", Path: "ours"}, {Key: key, Path: "a"}, {Key: key, Path: "b"}}, reads(cfg, text))
	}
	assert.Empty(t, reads(runfile.New(), text))
}
