package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/state"
	"gputrain/state/checkpoint"
	"gputrain/text/chat"
)

// sayEnds makes checkpoints of a run on conversations say where the model ends its answers, for programs that generate
// text: transformers and vLLM read generation_config.json, and config.json where that is missing. The tokens that end a
// text there stay in the list; eos_token of tokenizer_config.json is the tokenizer's own. Files that say it already
// stay as they are. from is the model that training began with; nil: none.
func (t Tokens) sayEnds(c *state.Config, text *texts.Corpus, from *hub.Bundle) error {
	ends, err := t.answerEnds(text)
	if err != nil || len(ends) == 0 {
		return err
	}
	if learns, err := learns(text.Train, c.Sequence, ends[0]); err != nil || !learns {
		return err
	}
	own, err := endsOf(c.Definition)
	if err != nil {
		return err
	}
	if !slices.Contains(own, ends[0]) {
		if len(own) == 0 {
			own = t.Tokenizer.EndTokens()
		}
		own = with(own, ends[0])
		c.Ends = own
		if c.Companions, err = withDrawn(c.Companions, from); err != nil {
			return err
		}
	}
	c.Companions, err = drawnUntil(c.Companions, own, ends[0], c.Ends != nil)
	return err
}

// answerEnds are the tokens that end the answers of conversations, the template's own first; nil: the text has none that a template wrote.
func (t Tokens) answerEnds(text *texts.Corpus) ([]int32, error) {
	if !slices.ContainsFunc(text.Tallies, func(t texts.Tally) bool { return t.Template != "" }) || t.Tokenizer == nil || t.Chats.Template == nil {
		return nil, nil
	}
	encoder, err := chat.NewEncoder(t.Tokenizer, t.Chats.Template, t.Chats.Options)
	if err != nil {
		return nil, err
	}
	return encoder.Ends(), nil
}

// looked is how many windows tell whether a token is learned.
const looked = 64

// learns tells whether a token is a label in windows of a text, taken evenly.
func learns(train data.Source, context int, token int32) (bool, error) {
	windows, err := data.NewEvaluation(train, context, 1, looked)
	if err != nil {
		return false, err
	}
	for i := range windows.Batches() {
		b, err := windows.Batch(i)
		if err != nil {
			return false, err
		}
		if slices.Contains(b.Labels, token) {
			return true, nil
		}
	}
	return false, nil
}

// endsOf are the tokens that end a text as the config.json of a definition has them.
func endsOf(def model.Definition) (ends stranger.IDs, err error) {
	raw, err := json.Marshal(def.Settings()["eos_token_id"])
	if err == nil {
		err = json.Unmarshal(raw, &ends)
	}
	return ends, err
}

// with is a list that has a token.
func with(ends []int32, token int32) []int32 {
	if slices.Contains(ends, token) {
		return ends
	}
	return append(slices.Clone(ends), token)
}

// withDrawn are companions with the generation_config.json of a model, where there is one and the directory of the tokenizer has none: a file that
// says where answers end would hide it.
func withDrawn(companions []checkpoint.Source, from *hub.Bundle) ([]checkpoint.Source, error) {
	if from == nil || slices.ContainsFunc(companions, func(s checkpoint.Source) bool { return s.Name == checkpoint.GenerationFile }) {
		return companions, nil
	}
	raw, err := from.ReadFile(checkpoint.GenerationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return companions, nil
	}
	return append(slices.Clone(companions), checkpoint.TextFile(checkpoint.GenerationFile, raw)), err
}

// drawnUntil are companions whose generation_config.json has a token among those that end a text. Where the file names none these are ends, and
// where there is no file it is made if make says so.
func drawnUntil(companions []checkpoint.Source, ends []int32, token int32, make bool) ([]checkpoint.Source, error) {
	at := slices.IndexFunc(companions, func(s checkpoint.Source) bool { return s.Name == checkpoint.GenerationFile })
	if at < 0 && !make {
		return companions, nil
	}
	fields := map[string]json.RawMessage{}
	var said stranger.IDs
	if at >= 0 {
		var b bytes.Buffer
		if err := companions[at].Write(&b); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b.Bytes(), &fields); err != nil {
			return nil, fmt.Errorf("%s: %w", checkpoint.GenerationFile, err)
		}
		if raw := fields["eos_token_id"]; raw != nil {
			if err := json.Unmarshal(raw, &said); err != nil {
				return nil, fmt.Errorf("%s: %w", checkpoint.GenerationFile, err)
			}
		}
		if slices.Contains(said, token) {
			return companions, nil
		}
		companions = slices.Delete(slices.Clone(companions), at, at+1)
	}
	if len(said) == 0 {
		said = ends
	}
	raw, err := json.Marshal(stranger.IDs(with(said, token)))
	if err != nil {
		return nil, err
	}
	if fields == nil { // null
		fields = map[string]json.RawMessage{}
	}
	fields["eos_token_id"] = raw
	if raw, err = json.MarshalIndent(fields, "", "  "); err != nil {
		return nil, err
	}
	return append(companions, checkpoint.TextFile(checkpoint.GenerationFile, append(raw, '\n'))), nil
}

// MergedEnds are the tokens that end an answer of a merged model: its own, and those that its adapters have learned, which are in the
// generation_config.json of these and not in the base's; nil where they have learned none.
func MergedEnds(adapters, base *hub.Bundle, merged model.Definition) ([]int32, error) {
	learned, err := stranger.Ends(adapters, checkpoint.GenerationFile)
	if err != nil {
		return nil, err
	}
	known, err := stranger.Ends(base, checkpoint.GenerationFile)
	if err != nil {
		return nil, err
	}
	own, err := endsOf(merged)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(own)
	if len(own) == 0 {
		all = known
	}
	more := false
	for _, id := range learned {
		if !slices.Contains(known, id) && !slices.Contains(all, id) {
			all, more = with(all, id), true
		}
	}
	if !more {
		return nil, nil
	}
	return all, nil
}
