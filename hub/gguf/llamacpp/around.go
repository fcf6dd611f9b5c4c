package llamacpp

import (
	"encoding/json"
	"fmt"
)

// border is the tokens before a text and behind it.
type border struct{ before, behind []int }

// around is what the post-processor puts around a text, which is all that is put there: beside a tokenizer.json, add_bos_token and add_eos_token of
// tokenizer_config.json say nothing.
func (t *tokenizerFile) around() (b border, err error) {
	type processor struct {
		Type   string `json:"type"`
		Single []struct {
			Special *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
		} `json:"single"`
		Tokens map[string]struct {
			IDs []int `json:"ids"`
		} `json:"special_tokens"`
	}
	var p struct {
		processor
		Of []processor `json:"processors"`
	}
	if t.PostProcess == nil {
		return b, nil
	}
	if err := json.Unmarshal(t.PostProcess, &p); err != nil {
		return b, err
	}
	for _, one := range append(p.Of, p.processor) {
		if one.Type != "TemplateProcessing" {
			continue
		}
		text, before := false, []int(nil)
		for _, piece := range one.Single {
			switch {
			case piece.Special == nil:
				text = true
			case text:
				b.behind = append(b.behind, one.Tokens[piece.Special.ID].IDs...)
			default:
				before = append(before, one.Tokens[piece.Special.ID].IDs...)
			}
		}
		b.before = append(before, b.before...)
	}
	return b, nil
}

// check refuses what llama.cpp does not put around a text.
func (b border) check(size int) error {
	for _, side := range []struct {
		name string
		ids  []int
	}{{"before", b.before}, {"behind", b.behind}} {
		if len(side.ids) > 1 {
			return fmt.Errorf("found tokens %v %s a text, wanted one at most: llama.cpp puts no more there", side.ids, side.name)
		}
		if len(side.ids) == 1 && (side.ids[0] < 0 || side.ids[0] >= size) {
			return fmt.Errorf("found token %d %s a text, wanted 0 to %d", side.ids[0], side.name, size-1)
		}
	}
	return nil
}
