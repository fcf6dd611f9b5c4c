package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
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
	return "The file has a line for each row: of each token that is learned, the likeliest tokens by MODEL with their log-probabilities. Until it is whole it lies beside it (.part): the same command goes on where it was stopped."
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
	of, err := c.of(m, head, window, text.Fingerprint)
	if err != nil {
		return err
	}
	return c.write(ctx, setup.Teaching{Head: head, Window: window, Logits: m.EachLogits}, rows, of)
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

// of names what the lists are of: a teacher's weights, rows, how they are read, and what is written of them.
func (c *distilCmd) of(m *openedModel, head setup.ListsHead, window int, fingerprint string) (string, error) {
	weights, err := m.fingerprint()
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal([]any{weights, head, window, fingerprint, c.Set})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:6]), err
}

// write writes the lists, and tells how far it is each few seconds.
func (c *distilCmd) write(ctx context.Context, t setup.Teaching, rows *texts.Documents, of string) error {
	var done, tokens int64
	begun, told := time.Now(), time.Now()
	t.Tell = func(r, n int64) {
		if done, tokens = r, n; time.Since(told) > 10*time.Second {
			told = time.Now()
			say("gputrain: distil: %d rows, %d tokens, %.0f a second\n", done, tokens, float64(tokens)/time.Since(begun).Seconds())
		}
	}
	part, err := atomicfile.OpenPart(c.To, of)
	if err != nil {
		return fmt.Errorf("distil: --to: %w", err)
	}
	entries, _ := os.ReadDir(filepath.Dir(c.To)) // what is wrong with it, the part says
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, filepath.Base(c.To)+".") && strings.HasSuffix(name, ".part") && name != filepath.Base(part.Name()) {
			say("gputrain: distil: %s is of another teacher, other rows or other flags: it stays there\n", name)
		}
	}
	if err := t.Write(ctx, part, rows); err != nil {
		err = errors.Join(fmt.Errorf("distil: %s: %w", c.File, err), part.Close())
		if done == 0 {
			return errors.Join(err, os.Remove(part.Name()))
		}
		return fmt.Errorf("%w; %d rows are in %s: the same command goes on behind them", err, done, part.Name())
	}
	bytes, err := part.Seek(0, io.SeekCurrent)
	if err == nil {
		err = part.Finish()
	}
	if err != nil {
		return fmt.Errorf("distil: %w", err)
	}
	fmt.Printf("%s: %d rows, the likeliest %d of %d tokens, %d bytes\n", c.To, done, t.Head.TopK, tokens, bytes)
	return nil
}
