package tests

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// sums is JSONL text: questions that are not to be predicted, and answers.
func sums(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"q\": \"%d+%d=\", \"a\": \"%d\", \"number\": %d}\n", i%7, i%11, i%7+i%11, i)
	}
	return b.String()
}

// A mixture of text and compressed documents trains for its epochs, goes on from its run directory, and is evaluated like the run did.
func TestTrainOnAMixture(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "train.TestResumeAtEveryStep")
	p := newPlace(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(sums(120)))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	p.write(t, "sums.jsonl.gz", packed.String())
	p.write(t, "mixture.yaml", `
model: {layers: 1, heads: 2, width: 16, context: 32}
data:
  mixture: [{text: text.txt, weight: 1}, {jsonl: sums.jsonl.gz, prompt_field: q, field: a, weight: 2}]
  mixture_end: first_exhausted
  validation: 0.2
  epochs: 1
train: {batch: 4, eval_tokens: 0, sample_tokens: 4}
`)
	dir := p.runDir(t, "mixed")
	train := p.command("train", "mixture.yaml", "--run-dir", dir, "--progress", "plain")
	r := ok(t, train)
	// 96 documents are for training, in an epoch that ends with their windows: packed 3 to 5 into each, they are two of three.
	assert.Regexp(t, `data: sums.jsonl.gz: 120 documents \(text\) of \d+ tokens in (2\d|3\d|4\d) windows of 32`, r.err)
	assert.Regexp(t, `done at step (7|8|9|1\d)\b`, r.err)
	assert.Contains(t, ok(t, train).err, "steps are made")
	refused(t, train.with(func(c *command) { c.args = append(c.args, "--set", "train.steps=3") }), 2, "train.steps (--set): found 3, wanted nothing beside data.epochs (mixture.yaml:7): 1 epochs are")
	refused(t, train.with(func(c *command) { c.args = append(c.args, "--set", "data.mixture_end=all_exhausted") }), 2, "data.mixture_end")

	all := metricsOf(t, dir)
	last := all[len(all)-1]
	own := objects(t, ok(t, p.command("eval", "mixed", "--json", "--batch", "4")).out)[0]
	assert.Equal(t, last["eval_loss"], own["eval_loss"])
	assert.Equal(t, last["eval_tokens"], own["tokens"])
	// 120 answers of one or two digits, each with its end.
	answers := 0
	for i := range 120 {
		answers += len(fmt.Sprint(i%7+i%11)) + 1
	}
	given := objects(t, ok(t, p.command("eval", "mixed", "--json", "--jsonl", "sums.jsonl.gz", "--field", "a", "--prompt-field", "q")).out)[120]
	assert.EqualValues(t, 120, given["answers"])
	assert.EqualValues(t, answers, given["tokens"])
	refused(t, p.command("eval", "mixed", "--jsonl", "sums.jsonl.gz"), 2, `line 1: found fields ["a" "number" "q"], wanted ["text" "input_ids"]`)
}
