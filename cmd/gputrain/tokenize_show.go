package main

import (
	"fmt"
	"io"
	"os"

	"gputrain/run/setup"
	"gputrain/text/tokenizer"
)

type showCmd struct {
	Tokenizer string `arg:"" help:"A directory with tokenizer.json or tokenizer.model, one of these files, or a GGUF file." type:"path" placeholder:"TOKENIZER"`
	Text      string `help:"File with a text to cut, or - for standard input; without it, an example sentence." placeholder:"FILE"`
	JSON      bool   `help:"One JSON object on standard output."`
}

// shownText is cut where no text is given.
const shownText = "Hello, world! It's 2024 \u2013 na\u00efve caf\u00e9s \U0001F600\n"

// tokenizerView is what show tells.
type tokenizerView struct {
	Kind        string      `json:"kind"`
	VocabSize   int         `json:"vocab_size"`
	Unused      int         `json:"unused_ids"`
	Merges      int         `json:"merges"`
	Special     []tokenView `json:"special"`
	EndTokens   []int32     `json:"end_tokens"`
	Fingerprint string      `json:"fingerprint"`
	Files       []string    `json:"files"`
	Tokens      []tokenView `json:"tokens"` // of the text, with the special tokens around it
}

type tokenView struct {
	ID    int32  `json:"id"`
	Token string `json:"token"`
	Text  string `json:"text,omitempty"` // the part of the text that it stands for
}

func (c *showCmd) Run() error {
	t, err := setup.OpenTokenizer(c.Tokenizer)
	if err != nil {
		return usageError{err}
	}
	text, err := c.text()
	if err != nil {
		return usageError{err}
	}
	v, err := viewOf(t, text)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(os.Stdout, v)
	}
	return v.print(os.Stdout, text)
}

func (c *showCmd) text() (string, error) {
	in := os.Stdin
	switch c.Text {
	case "":
		return shownText, nil
	case "-":
	default:
		file, err := openText(c.Text)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, longestLine+1))
	if len(raw) > longestLine {
		err = fmt.Errorf("tokenize: show: found a text of more than %d bytes, wanted less: tokenize encode reads any", longestLine)
	}
	return string(raw), err
}

func viewOf(t *tokenizer.Tokenizer, text string) (*tokenizerView, error) {
	v := &tokenizerView{
		Kind: t.Kind(), VocabSize: t.VocabSize(), Unused: t.Unused(), Merges: t.Merges(), EndTokens: append([]int32{}, t.EndTokens()...),
		Fingerprint: t.Fingerprint(), Files: t.Files(), Special: []tokenView{}, Tokens: []tokenView{},
	}
	for _, id := range t.Special() {
		token, err := t.Token(id)
		if err != nil {
			return nil, err
		}
		v.Special = append(v.Special, tokenView{ID: id, Token: token})
	}
	ids, spans, err := t.EncodeSpans(text, tokenizer.Options{Special: true})
	if err != nil {
		return nil, err
	}
	chars := []rune(text)
	for i, id := range ids {
		token, err := t.Token(id)
		if err != nil {
			return nil, err
		}
		v.Tokens = append(v.Tokens, tokenView{id, token, string(chars[spans[i].Start:spans[i].End])})
	}
	return v, nil
}

func (v *tokenizerView) print(out io.Writer, text string) error {
	fmt.Fprintf(out, "%s, %d tokens, %d merges", v.Kind, v.VocabSize-v.Unused, v.Merges)
	if v.Unused > 0 {
		fmt.Fprintf(out, ", %d ids below %d unused", v.Unused, v.VocabSize)
	}
	fmt.Fprintf(out, "\nfiles: %s\nfingerprint: %s\nend tokens: %v\nspecial tokens:\n", v.Files, v.Fingerprint, v.EndTokens)
	for _, s := range v.Special {
		fmt.Fprintf(out, "%8d  %q\n", s.ID, s.Token)
	}
	_, err := fmt.Fprintf(out, "%q is %d tokens:\n", text, len(v.Tokens))
	for _, s := range v.Tokens {
		_, err = fmt.Fprintf(out, "%8d  %-20q %q\n", s.ID, s.Token, s.Text)
	}
	return err
}
