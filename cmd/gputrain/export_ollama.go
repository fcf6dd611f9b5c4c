package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"gputrain/cmd/gputrain/modelfile"
	"gputrain/hub"
	"gputrain/hub/gguf"
	"gputrain/internal/atomicfile"
	"gputrain/internal/stranger"
	"gputrain/model"
	"gputrain/run/setup"
	"gputrain/state/checkpoint"
	"gputrain/text/tokenizer"
)

// ollamaName is what Ollama takes for a name: NAMESPACE/MODEL:TAG.
var ollamaName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*/)*[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9._-]+)?$`)

// modelfileName is the file by which Ollama makes a model.
const modelfileName = "Modelfile"

// modelfile is a Modelfile for the model with some keys.
func (c *exportCmd) modelfile(ctx context.Context, m *storedModel, keys []gguf.Key) (*atomicfile.New, error) {
	if !ollamaName.MatchString(c.Ollama) {
		return nil, usageError{fmt.Errorf("export: --ollama: found %q, wanted a name such as my-model or me/my-model:latest", c.Ollama)}
	}
	out := modelfile.Model{From: "./" + filepath.Base(c.To)}
	if len(model.AdapterParams(m.Def)) > 0 {
		var err error
		out.Adapter = out.From
		if out.From, keys, err = c.ollamaBase(ctx, m); err != nil {
			return nil, err
		}
	}
	out.Begin = beginToken(keys)
	text, err := c.modelfileText(m, out)
	if err != nil {
		return nil, &setup.ModelError{Err: fmt.Errorf("export: --ollama: %w", err)}
	}
	return &atomicfile.New{Path: filepath.Join(filepath.Dir(c.To), modelfileName), Write: func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}}, nil
}

// ollamaImports are the families of which Ollama takes a directory for a base: docs.ollama.com/import.
var ollamaImports = []string{"llama", "mistral", "gemma2", "gemma3_text", "phi3", "qwen2", "qwen3"}

// ollamaBase is the base of adapters as a Modelfile names it, and the keys of a GGUF file of it.
func (c *exportCmd) ollamaBase(ctx context.Context, m *storedModel) (from string, keys []gguf.Key, err error) {
	base, err := m.Base()
	if err != nil {
		return "", nil, &setup.ModelError{Err: c.advised(err)}
	}
	def := model.BaseOf(m.Def)
	if !base.IsGGUF() && !slices.Contains(ollamaImports, def.Kind()) {
		return "", nil, usageError{fmt.Errorf("export: --ollama: found a %s in %s for a base, of which Ollama imports no directories, wanted a GGUF file of it for --base: gputrain export %s --to base.gguf --type f32",
			def.Kind(), base.Path("."), base.Path("."))}
	}
	if keys, _, err = ggufModel(ctx, &storedModel{&setup.StoredModel{Bundle: base, Def: def, Weights: m.Weights.Below()}}, gguf.F16); err != nil {
		return "", nil, &setup.ModelError{Err: fmt.Errorf("export: --ollama: %s: %w", base.Path("."), err)}
	}
	from, err = filepath.Abs(base.Path("."))
	return from, keys, err
}

func (c *exportCmd) modelfileText(m *storedModel, out modelfile.Model) ([]byte, error) {
	text := spoken(m.Bundle)
	tok, err := tokenizer.Open(text)
	if err != nil {
		return nil, err
	}
	template, ends, err := answerEnds(text, tok)
	if err != nil {
		return nil, err
	}
	if template == nil {
		say("gputrain: export: found no chat template: Ollama completes text with this model\n")
	}
	out.Template = template
	for _, id := range ends {
		token, err := tok.Token(id)
		if err != nil {
			return nil, err
		}
		out.Stops = append(out.Stops, token)
	}
	if out.Parameters, err = ollamaParameters(drawnOf(m.Bundle)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	notes, err := modelfile.Write(&b, out, time.Now())
	for _, note := range notes {
		say("gputrain: export: %s\n", note)
	}
	return b.Bytes(), err
}

// beginToken is the token that a file's reader puts before a text; "" for none.
func beginToken(keys []gguf.Key) string {
	values := map[string]any{}
	for _, k := range keys {
		values[k.Name] = k.Value
	}
	tokens, _ := values["tokenizer.ggml.tokens"].([]string)
	id, ok := values["tokenizer.ggml.bos_token_id"].(uint32)
	if add, _ := values["tokenizer.ggml.add_bos_token"].(bool); !add || !ok || int(id) >= len(tokens) {
		return ""
	}
	return tokens[id]
}

// ollamaParameters are what generation_config.json says of drawing text, by Ollama's names.
func ollamaParameters(b *hub.Bundle) (out []modelfile.Parameter, err error) {
	var g map[string]any
	if err := stranger.Beside(b, checkpoint.GenerationFile, &g); err != nil {
		return nil, err
	}
	if draws, said := g["do_sample"].(bool); said && !draws {
		g["temperature"] = 0.0
	}
	for _, row := range [][2]string{{"temperature", "temperature"}, {"top_k", "top_k"}, {"top_p", "top_p"}, {"min_p", "min_p"}, {"repetition_penalty", "repeat_penalty"}} {
		if v, ok := g[row[0]].(float64); ok {
			out = append(out, modelfile.Parameter{Name: row[1], Value: strconv.FormatFloat(v, 'g', -1, 64)})
		}
	}
	return out, nil
}
