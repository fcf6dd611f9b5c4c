package setup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/data/texts"
	"gputrain/run/reward"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state"
	"gputrain/text/chat"
)

// ReadsAs says how files are read for the model in dir, by a run file, in windows of so many tokens. began is the directory in which the run of the model was
// started; "": it is no run's.
func ReadsAs(cfg *runfile.Config, dir string, tokens Tokens, def model.Definition, window int) (config texts.Config, began string, err error) {
	var marker train.Marker
	if hub.Has(dir, runfile.RecordFile) {
		if marker, err = train.ReadMarker(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return config, "", err
		}
	}
	how, err := tokens.As(cfg, marker.From)
	if err != nil {
		return config, "", err
	}
	return Data(cfg, how, def, window), marker.From, nil
}

// A scorer is a reward model on a device: a reward.Function for one goroutine.
type scorer struct {
	model  *state.Model
	files  *hub.Bundle
	device *gpu.Device // its own; nil: another's
	from   texts.Config
	tokens Tokens
	policy string // fingerprint of the tokenizer whose tokens samples have; "": not known
	window int    // of the model that draws samples

	end  int32   // the token that ends an answer, where a template writes one
	tail []int32 // what the template writes behind it, which rows of messages have and completions do not
}

// scoredAtOnce is how many rows a scorer computes at once, of as many tokens as the window in which they are drawn; of longer ones fewer.
const scoredAtOnce = 16

// storedReward opens the files of the reward model in dir, whose head gives one score a row.
func storedReward(dir string, out io.Writer) (*StoredModel, error) {
	files, err := Open(dir, out)
	if err != nil {
		return nil, err
	}
	s, err := Stored(files)
	if err != nil {
		return nil, err
	}
	if h := model.HeadOf(s.Def); h.Kind != model.HeadScores || h.Labels != 1 {
		err := &UsageError{fmt.Errorf("%s: found a model without one score a row, wanted a reward model: gputrain train with head.objective reward makes one (docs/heads.md)", dir)}
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// scorersOf are the reward models of a run file beside a model that draws in a window, for the plan of its memory.
func scorersOf(cfg *runfile.Config, window int) (all []state.Scorer, err error) {
	for i, r := range cfg.Rewards {
		if r.Model == "" {
			continue
		}
		s, err := storedReward(r.Model, io.Discard)
		if err != nil {
			return nil, fmt.Errorf("rewards[%d]: %w", i, err)
		}
		one, err := state.NewScorer(s.Def, s.Weights, scoredAtOnce, window)
		if err = errors.Join(err, s.Close()); err != nil {
			return nil, fmt.Errorf("rewards[%d]: %w", i, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// openScorer opens the reward model in dir for rows that are drawn in a window. policy is the fingerprint of the tokenizer of samples: a model with the same
// tokenizer reads their tokens, any other their texts. Notes are written to out.
func openScorer(dev *gpu.Device, dir, policy string, window int, out io.Writer) (_ *scorer, err error) {
	stored, err := storedReward(dir, out)
	if err != nil {
		return nil, err
	}
	s, def := &scorer{policy: policy, window: window, files: stored.Bundle}, stored.Def
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.model, err = state.LoadStored(dev, stored.Path("."), def, stored.Weights); err != nil {
		return nil, err
	}
	if s.tokens, err = ModelTokens(s.files, def); err != nil {
		return nil, err
	}
	cfg, err := OfRun(dir)
	if err != nil {
		return nil, &UsageError{err}
	}
	if s.from, _, err = ReadsAs(cmp.Or(cfg, runfile.New()), dir, s.tokens, def, def.Context()); err != nil {
		return nil, err
	}
	s.from.Format, s.from.Group = "", 0
	return s, s.findTail()
}

// findTail asks the template how an answer ends. One that does not take it writes nothing that is known.
func (s *scorer) findTail() error {
	if s.from.Chats.Template == nil || s.tokens.Tokenizer == nil {
		return nil
	}
	encoder, err := chat.NewEncoder(s.tokens.Tokenizer, s.from.Chats.Template, s.from.Chats.Options)
	if err != nil {
		return &ModelError{err}
	}
	const row = `{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "a"}]}`
	var tokens []int32
	from := s.from
	from.Context = math.MaxInt32
	_ = texts.Inputs(context.Background(), from, "template", strings.NewReader(row), int64(len(row)), func(_ int, _ json.RawMessage, in []texts.Input) error {
		tokens = in[0].Tokens
		return nil
	})
	for i, id := range slices.Backward(tokens) {
		if slices.Contains(encoder.Ends(), id) {
			s.end, s.tail = id, tokens[i+1:]
			break
		}
	}
	return nil
}

// whole is a completion behind its prompt, with all that ends an answer: the reward model takes its score at the last token that rows have.
func (s *scorer) whole(one reward.Sample) []int32 {
	row := slices.Concat(one.PromptTokens, one.Tokens)
	if n := len(one.Tokens); n > 0 && one.Tokens[n-1] == s.end && slices.Contains(one.PromptTokens, s.end) { // a template wrote it
		row = append(row, s.tail...)
	}
	return row
}

// scores scores rows of tokens.
func (s *scorer) scores(ctx context.Context, rows [][]int32) ([]float64, error) {
	longest, atOnce := 0, scoredAtOnce
	for _, row := range rows {
		longest = max(longest, len(row))
	}
	for n := state.ScoredTokens(s.window); n < longest && atOnce > 1; n *= 2 { // these take no more memory than was planned
		atOnce /= 2
	}
	found, err := s.model.Scores(ctx, rows, atOnce)
	scores := make([]float64, len(found))
	for i, values := range found {
		scores[i] = float64(values[0])
	}
	return scores, err
}

// Rewards scores prompts with their completions.
func (s *scorer) Rewards(ctx context.Context, samples []reward.Sample) ([]float64, error) {
	rows, err := s.rows(ctx, samples)
	if err != nil {
		return nil, err
	}
	return s.scores(ctx, rows)
}

func (s *scorer) rows(ctx context.Context, samples []reward.Sample) (rows [][]int32, err error) {
	if s.tokens.fingerprint() == s.policy && !slices.ContainsFunc(samples, func(one reward.Sample) bool { return one.PromptTokens == nil }) {
		for _, one := range samples {
			rows = append(rows, s.whole(one))
		}
		return rows, nil
	}
	var text bytes.Buffer
	for _, one := range samples {
		if err := json.NewEncoder(&text).Encode(map[string]string{"prompt": one.Prompt, "completion": one.Completion}); err != nil {
			return nil, err
		}
	}
	err = texts.Inputs(ctx, s.from, "samples", bytes.NewReader(text.Bytes()), int64(text.Len()), func(_ int, _ json.RawMessage, in []texts.Input) error {
		rows = append(rows, in[0].Tokens)
		return nil
	})
	return rows, err
}

// Close releases the model.
func (s *scorer) Close() error {
	s.model.Release()
	if s.device != nil {
		s.device.Release()
	}
	return s.files.Close()
}

// opener opens reward models on a device; nil: each on a new one of the run file's first adapter.
func (w rewards) opener(cfg *runfile.Config, on *gpu.Device, out io.Writer) func(dir string) (reward.Function, error) {
	return func(dir string) (reward.Function, error) {
		if on != nil {
			return openScorer(on, dir, w.fingerprint(), w.window, out)
		}
		adapters, err := Adapters(cfg, "")
		if err != nil {
			return nil, err
		}
		options, err := DeviceOptions(cfg, adapters[0])
		if err != nil {
			return nil, err
		}
		dev, err := gpu.Open(context.Background(), adapters[0], options)
		if err != nil {
			return nil, err
		}
		s, err := openScorer(dev, dir, w.fingerprint(), w.window, out)
		if err != nil {
			dev.Release()
			return nil, err
		}
		s.device = dev
		return s, nil
	}
}
