package texts

import (
	"fmt"
	"math"

	"gputrain/run/data"
)

// split parts all tokens into training and validation.
//
// By file: every k-th file, k = round(1/share), with the phase whose tokens come
// closest to the share; so validation is drawn evenly from the whole path order. Where
// that misses the share by more than a factor of two (few files, or one that
// dwarfs the others), the tail of the text in path order is taken instead.
func (c *Corpus) split(config Config, all *data.Tokens, files []data.Stretch) (train, validation *data.Tokens, err error) {
	window := int64(config.Context) + 1
	if all.Len() < window {
		return nil, nil, fmt.Errorf("data: text %s: %d %s found, want at least %d (a context of %d and one more)", c.Name, all.Len(), c.unit(), window, config.Context)
	}
	if config.Validation == 0 {
		c.Split = "none"
		return all, nil, nil
	}
	want := config.Validation * float64(all.Len())
	k := max(1, int(math.Round(1/config.Validation)))
	phase, found := bestPhase(files, k, want)
	if k > 1 && len(files) > 1 && float64(found) >= want/2 && float64(found) <= want*2 {
		var kept, apart []data.Stretch
		for i, s := range files {
			if i%k == phase {
				apart = append(apart, s)
			} else {
				kept = append(kept, s)
			}
		}
		train, validation, c.Split = data.NewTokens(all.Vocab(), kept), data.NewTokens(all.Vocab(), apart), "by file"
	} else {
		cut := all.Len() - int64(math.Round(want))
		train, validation, c.Split = all.Slice(0, cut), all.Slice(cut, all.Len()), "tail"
	}
	for _, part := range []struct {
		name   string
		tokens *data.Tokens
	}{{"training", train}, {"validation", validation}} {
		if part.tokens.Len() < window {
			return nil, nil, fmt.Errorf("data: validation %v of %d %s: leaves %d for %s, want at least %d (a context of %d and one more): more text, a shorter context or another share",
				config.Validation, all.Len(), c.unit(), part.tokens.Len(), part.name, window, config.Context)
		}
	}
	return train, validation, nil
}

// bestPhase returns the phase r in [0, k) whose files r, r+k, r+2k, ... hold the
// number of tokens closest to want, and that number; the first on ties.
func bestPhase(files []data.Stretch, k int, want float64) (phase int, tokens int64) {
	sums := make([]int64, min(k, len(files)))
	for i, s := range files {
		sums[i%k] += s.Count
	}
	for r, sum := range sums {
		if math.Abs(float64(sum)-want) < math.Abs(float64(sums[phase])-want) {
			phase = r
		}
	}
	return phase, sums[phase]
}

func (c *Corpus) unit() string {
	if c.Tokens == "bytes" {
		return "bytes"
	}
	return "tokens"
}
