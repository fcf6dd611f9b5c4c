package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"time"

	"gputrain/internal/atomicfile"
	"gputrain/model"
	"gputrain/run/data/texts"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
)

type distilCmd struct {
	modelFlags
	File        string   `arg:"" help:"File of rows that the student will learn, as data.jsonl." type:"path"`
	To          string   `help:"File to write, which has to be new: the student's distil.teacher." type:"path" placeholder:"OUT.jsonl" required:""`
	TopK        int      `help:"Tokens that are written of each token that is learned, the likeliest." default:"32"`
	Temperature float64  `help:"What logits are divided by; the student's are divided by the same." default:"1"`
	Window      int      `help:"Tokens that the teacher sees at most, model.context of the student; 0 = its context, but at most 2048." default:"0"`
	Set         []string `help:"How rows are read, as in the student's run file, such as --set data.prompt_field=question." placeholder:"KEY=VALUE" sep:"none"`
}

// Help says what the command does.
func (*distilCmd) Help() string {
	return "The file has a line for each row: of each token that is learned, the likeliest tokens by MODEL with their log-probabilities. It is written whole or not at all."
}

func (c *distilCmd) Run(ctx context.Context) error {
	cfg, err := runfile.ReadAll(nil, nil, append([]string{"data.jsonl=[" + strconv.Quote(c.File) + "]", "data.validation=0"}, c.Set...))
	switch {
	case err != nil:
		return usageError{fmt.Errorf("distil: %w", err)}
	case c.TopK < 1 || !(c.Temperature > 0 && c.Temperature < 1e30) || c.Window < 0:
		return usageError{fmt.Errorf("distil: --top-k %d, --temperature %v, --window %d: wanted 1 token or more, a number above 0, and no window below 0", c.TopK, c.Temperature, c.Window)}
	}
	if _, err := os.Lstat(c.To); !errors.Is(err, fs.ErrNotExist) {
		return usageError{fmt.Errorf("distil: --to: %s: %w", c.To, errors.Join(fs.ErrExist, err))}
	}
	ctx, stop := signal.NotifyContext(ctx, train.StopSignals()...)
	defer stop()
	m, release, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	if c.unspoken != nil {
		return c.unspoken
	}
	text, window, err := c.rows(ctx, cfg, m.Definition())
	if err != nil {
		return err
	}
	defer text.Close()
	rows, ok := text.Train.(*texts.Documents)
	if !ok {
		return usageError{fmt.Errorf("distil: %s: found a text, wanted rows", c.File)}
	}
	if err := m.Narrow(window); err != nil {
		return err
	}
	head := setup.ListsHead{TopK: c.TopK, Temperature: c.Temperature, Vocab: m.Definition().Vocab()}
	if c.TopK > head.Vocab {
		return usageError{fmt.Errorf("distil: --top-k: found %d, wanted at most the vocabulary of %d", c.TopK, head.Vocab)}
	}
	if t := c.tokens.Tokenizer; t != nil {
		head.Tokenizer = t.Fingerprint()
	}
	return c.write(ctx, setup.Teaching{Head: head, Window: window, Logits: m.EachLogits}, rows)
}

// rows opens the rows, and says how many tokens the teacher sees.
func (c *distilCmd) rows(ctx context.Context, cfg *runfile.Config, def model.Definition) (*texts.Corpus, int, error) {
	how, err := c.tokens.As(cfg, "")
	if err != nil {
		return nil, 0, err
	}
	window := cmp.Or(c.Window, seen(nil, def))
	if window > def.Context() {
		return nil, 0, usageError{fmt.Errorf("distil: --window: found %d, wanted at most the context %d", window, def.Context())}
	}
	text, err := setup.OpenText(ctx, setup.Data(cfg, how, def, window), told)
	return text, window, err
}

// write writes the lists, and tells how far it is each few seconds.
func (c *distilCmd) write(ctx context.Context, t setup.Teaching, rows *texts.Documents) error {
	var done, tokens int64
	begun, told := time.Now(), time.Now()
	t.Tell = func(r, n int64) {
		if done, tokens = r, n; time.Since(told) > 10*time.Second {
			told = time.Now()
			say("gputrain: distil: %d rows, %d tokens, %.0f a second\n", done, tokens, float64(tokens)/time.Since(begun).Seconds())
		}
	}
	file := &atomicfile.New{Path: c.To, Write: func(w io.Writer) error { return t.Write(ctx, w, rows) }}
	if err := atomicfile.Make(file); err != nil {
		return fmt.Errorf("distil: %s: %w", c.File, err)
	}
	fmt.Printf("%s: %d rows, the likeliest %d of %d tokens, %d bytes\n", c.To, done, t.Head.TopK, tokens, file.Bytes)
	return nil
}
