package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gputrain/run/setup"
	"gputrain/text/tokenizer"
)

// textCase is a text and what the reference library makes of it. What a file leaves out is not compared.
type textCase struct {
	Text           string   `json:"text"`
	IDs            []int32  `json:"ids"`
	WithSpecial    []int32  `json:"with_special"`
	Offsets        []int    `json:"offsets"` // start, end of each token in characters
	Decoded        *string  `json:"decoded"` // nil: the text itself
	WithoutSpecial *string  `json:"decoded_skipping_special"`
	Pieces         []string `json:"pieces"`
}

// tokenizerCases encodes texts, and decodes what comes of them.
func tokenizerCases(f *textFile) (string, error) {
	t, cases, err := openCases(f)
	if err != nil {
		return "", err
	}
	return each(cases, func(where string, c textCase) (string, error) {
		ids, err := t.Encode(c.Text, tokenizer.Options{})
		if err != nil {
			return "", fmt.Errorf("%s: %w", where, err)
		}
		if worst := differ(where+" ids", ids, c.IDs); worst != "" {
			return worst, nil
		}
		if c.Decoded == nil {
			c.Decoded = &c.Text
		}
		for _, check := range []func(*tokenizer.Tokenizer, string, textCase) (string, error){special, offsets, decoded} {
			if worst, err := check(t, where, c); worst != "" || err != nil {
				return worst, err
			}
		}
		return "", nil
	})
}

func openCases(f *textFile) (*tokenizer.Tokenizer, []textCase, error) {
	var file struct {
		Cases []textCase `json:"cases"`
	}
	if err := f.decode(&file, func() int { return len(file.Cases) }); err != nil {
		return nil, nil, err
	}
	t, err := setup.OpenTokenizer(f.dir)
	return t, file.Cases, err
}

func special(t *tokenizer.Tokenizer, where string, c textCase) (string, error) {
	if c.WithSpecial == nil {
		return "", nil
	}
	ids, err := t.Encode(c.Text, tokenizer.Options{Special: true})
	return differ(where+" with_special", ids, c.WithSpecial), err
}

func offsets(t *tokenizer.Tokenizer, where string, c textCase) (string, error) {
	if c.Offsets == nil {
		return "", nil
	}
	_, spans, err := t.EncodeSpans(c.Text, tokenizer.Options{})
	flat := []int{}
	for _, s := range spans {
		flat = append(flat, s.Start, s.End)
	}
	return differ(where+" offsets", flat, c.Offsets), err
}

// decoded compares decoded texts, of all ids and without special ones.
func decoded(t *tokenizer.Tokenizer, where string, c textCase) (string, error) {
	for i, want := range []*string{c.Decoded, c.WithoutSpecial} {
		if want == nil {
			continue
		}
		text, err := t.Decode(c.IDs, i == 1)
		if err != nil {
			return "", fmt.Errorf("%s: %w", where, err)
		}
		if worst := differ(where+[]string{" decoded", " decoded_skipping_special"}[i], text, *want); worst != "" {
			return worst, nil
		}
	}
	return "", nil
}

// decodeCases decodes ids.
func decodeCases(f *textFile) (string, error) {
	t, cases, err := openCases(f)
	if err != nil {
		return "", err
	}
	return each(cases, func(where string, c textCase) (string, error) { return decoded(t, where, c) })
}

// splitCases cuts texts with a pattern.
func splitCases(f *textFile) (string, error) {
	var file struct {
		Pattern string     `json:"pattern"`
		Cases   []textCase `json:"cases"`
	}
	if err := f.decode(&file, func() int { return len(file.Cases) }); err != nil {
		return "", err
	}
	return each(file.Cases, func(where string, c textCase) (string, error) {
		pieces, err := tokenizer.Split(file.Pattern, c.Text)
		return differ(where+" pieces", append([]string{}, pieces...), c.Pieces), err
	})
}

// trainCase makes a vocabulary.
func trainCase(f *textFile) (string, error) {
	var c struct {
		Pattern      string   `json:"pattern"`
		Corpus       string   `json:"corpus"`
		VocabSize    int      `json:"vocab_size"`
		MinFrequency int64    `json:"min_frequency"`
		Special      []string `json:"special_tokens"`
		Vocab        []string `json:"vocab"`
		Merges       []string `json:"merges"`
	}
	if err := f.decode(&c, func() int { return len(c.Vocab) }); err != nil {
		return "", err
	}
	corpus, err := os.Open(filepath.Join(f.dir, filepath.Base(c.Corpus)))
	if err != nil {
		return "", err
	}
	defer corpus.Close()
	got, err := tokenizer.Train(context.Background(), []io.Reader{corpus}, tokenizer.TrainConfig{
		VocabSize: c.VocabSize, Pattern: c.Pattern, Special: c.Special, MinFrequency: c.MinFrequency,
	})
	if err != nil {
		return "", err
	}
	merges := []string{}
	for _, pair := range got.Merges {
		merges = append(merges, got.Tokens[pair[0]]+" "+got.Tokens[pair[1]])
	}
	for i := range min(len(merges), len(c.Merges)) {
		if worst := differ(fmt.Sprintf("merge %d", i), merges[i], c.Merges[i]); worst != "" {
			return worst, nil
		}
	}
	if worst := differ("merges", len(merges), len(c.Merges)); worst != "" {
		return worst, nil
	}
	return differ("vocab", got.Tokens, c.Vocab), nil
}
