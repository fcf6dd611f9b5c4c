package grpo

import (
	"slices"

	"gputrain/model"
	"gputrain/run/data"
)

// Lay lays rows into windows, each behind its prompt, with what the loss reads beside them. Rows that are learned from once have the log-probabilities of the
// sampler, to be compared with.
func Lay(prompts []data.Prompt, rows []Row, window int) data.Batch {
	n := len(rows)
	b := data.Batch{Rows: n, Tokens: make([]int32, n*window), Labels: slices.Repeat([]int32{data.Ignored}, n*window)}
	old := make([]float32, n*window)
	for i, r := range rows {
		prompt := prompts[r.Prompt].Tokens
		all := slices.Concat(prompt, r.Tokens)
		labels := slices.Repeat([]int32{data.Ignored}, len(prompt)-1)
		labels = append(labels, r.Tokens...)
		b.Put(i, 0, all[:len(all)-1], labels)
		before := r.Old
		if before == nil {
			before = r.Sampled
		}
		copy(old[i*window+len(prompt)-1:], before)
		truncated := float32(0)
		if r.Truncated {
			truncated = 1
		}
		b.SetBeside(model.BesideTruncated, i, truncated)
		b.SetBeside(model.InputAdvantages, i, float32(r.Advantage))
	}
	if n > 0 {
		b.Beside[model.InputOld] = old
	}
	return b
}

// TakeOld lays log-probabilities of all labels that Lay makes of the same rows beside these.
func TakeOld(prompts []data.Prompt, rows []Row, window int, logps []float32) {
	for i, r := range rows {
		begin := i*window + len(prompts[r.Prompt].Tokens) - 1
		rows[i].Old = slices.Clone(logps[begin : begin+len(r.Tokens)])
	}
}

// Arrange orders the rows of an update so that as few microbatches of so many rows as possible have any to learn from: those come first in their order, and the
// microbatches without any are spread between the others, which ranks then have equally many of. It tells how many rows those without any have.
func Arrange(rows []Row, each int, learned func(Row) bool) (arranged []Row, idle int) {
	var some, flat []Row
	for _, r := range rows {
		if learned(r) {
			some = append(some, r)
		} else {
			flat = append(flat, r)
		}
	}
	n := len(rows) / each
	busy := (len(some) + each - 1) / each
	fill := busy*each - len(some)
	some, flat = append(some, flat[:fill]...), flat[fill:]
	for i := range n {
		of := &flat
		if (i+1)*busy/n > i*busy/n {
			of = &some
		}
		arranged, *of = append(arranged, (*of)[:each]...), (*of)[each:]
	}
	return arranged, len(rows) - busy*each
}
