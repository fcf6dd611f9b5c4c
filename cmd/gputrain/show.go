package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"gputrain/buffers/safetensors"
	"gputrain/hub"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/run/setup"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

// showModelCmd shows what the headers of files say; inspect reads every number.
type showModelCmd struct {
	Path    string `arg:"" help:"GGUF file, .safetensors file, model directory, run directory or checkpoint." type:"path" placeholder:"PATH"`
	Tensors bool   `help:"List the tensors."`
	JSON    bool   `name:"json" help:"Write JSON."`
}

// shownModel is a model's files, as far as their headers tell.
type shownModel struct {
	Path       string                     `json:"path"`
	Format     string                     `json:"format"`
	Bytes      int64                      `json:"bytes"`
	Family     string                     `json:"family,omitempty"`
	Parameters int64                      `json:"parameters,omitempty"`
	Context    int                        `json:"context,omitempty"`
	Vocabulary int                        `json:"vocabulary,omitempty"`
	Sizes      map[string]json.RawMessage `json:"sizes,omitempty"` // as config.json names them
	Adapters   string                     `json:"adapters,omitempty"`
	Unread     []string                   `json:"unread,omitempty"` // what could not be read, and why
	Types      []shownType                `json:"types"`
	Tokenizer  string                     `json:"tokenizer,omitempty"`
	Ends       []int32                    `json:"end_tokens,omitempty"`
	Template   string                     `json:"chat_template,omitempty"`
	Metadata   []shownKey                 `json:"metadata,omitempty"`
	Tensors    []shownTensor              `json:"tensors,omitempty"`
}

type shownType struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

type shownKey struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type shownTensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int64  `json:"bytes"`
}

func (c *showModelCmd) Run() error {
	_, err := os.Stat(c.Path)
	if err != nil {
		return usageError{fmt.Errorf("show: %w%s", err, hub.Download(c.Path))}
	}
	s := &shownModel{Path: c.Path}
	if !hub.Is(c.Path) {
		err = s.safetensors([]string{c.Path})
	} else {
		b, held := setup.Open(c.Path, told)
		if held != nil {
			return held
		}
		defer b.Close()
		s.Path = b.Path(".")
		err = s.model(b)
	}
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	s.count()
	if !c.Tensors {
		s.Tensors = nil
	}
	if c.JSON {
		return writeJSON(os.Stdout, s)
	}
	return s.print(os.Stdout)
}

// model reads the headers of a model's files, and what else it has.
func (s *shownModel) model(b *hub.Bundle) error {
	if b.IsGGUF() {
		if err := s.gguf(b); err != nil {
			return err
		}
		s.describe(b)
		return nil
	}
	files, err := b.WeightFiles()
	if err == nil {
		err = s.safetensors(files)
	}
	s.describe(b)
	return err
}

// gguf reads the header of a file, of whatever architecture.
func (s *shownModel) gguf(b *hub.Bundle) error {
	f, err := b.GGUF()
	if err != nil {
		return err
	}
	s.Format = "GGUF"
	for _, k := range f.Keys() {
		s.Metadata = append(s.Metadata, shownKey{k.Name, brief(k.Value)})
	}
	for _, t := range f.Tensors() {
		s.Tensors = append(s.Tensors, shownTensor{t.Name, t.Type.String(), t.Shape, t.Length()})
	}
	return nil
}

// brief is a value in at most 80 characters: of long lists how many there are of what.
func brief(value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice && v.Len() > 8 {
		return fmt.Sprintf("%d values, %s", v.Len(), v.Type().Elem())
	}
	text := strings.Join(strings.Fields(fmt.Sprint(value)), " ")
	if runes := []rune(text); len(runes) > 80 {
		text = fmt.Sprintf("%s... (%d characters)", string(runes[:60]), len(runes))
	}
	return text
}

func (s *shownModel) safetensors(files []string) error {
	s.Format = "safetensors"
	if len(files) > 1 {
		s.Format = fmt.Sprintf("safetensors, %d files", len(files))
	}
	for _, path := range files {
		f, err := safetensors.Open(path)
		if err != nil {
			return err
		}
		for _, name := range f.Names() {
			dtype, shape, _ := f.Info(name)
			bytes, err := f.Bytes(name)
			if err != nil {
				return errors.Join(err, f.Close())
			}
			s.Tensors = append(s.Tensors, shownTensor{name, strings.ToLower(dtype), shape, bytes.Size()})
		}
		for key, value := range f.Metadata() {
			if k := (shownKey{key, brief(value)}); !slices.Contains(s.Metadata, k) {
				s.Metadata = append(s.Metadata, k)
			}
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	slices.SortFunc(s.Metadata, func(a, b shownKey) int { return strings.Compare(a.Key, b.Key) })
	return nil
}

// sizesShown are the keys of config.json that say how large a model is, in the order of the table.
var sizesShown = []struct {
	what string
	keys []string
}{
	{"layers", []string{"num_hidden_layers", "n_layer"}},
	{"width", []string{"hidden_size", "n_embd"}},
	{"heads", []string{"num_attention_heads", "n_head"}},
	{"key heads", []string{"num_key_value_heads"}},
	{"head width", []string{"head_dim"}},
	{"feed-forward", []string{"intermediate_size", "n_inner"}},
}

// describe reads what a directory says of its model beside the weights. What cannot be read is said, and hides nothing else.
func (s *shownModel) describe(b *hub.Bundle) {
	def, err := b.Definition()
	if err != nil {
		s.Unread = append(s.Unread, err.Error())
		if s.Format == "GGUF" { // nor is anything else of its directory
			return
		}
	} else {
		s.Family, s.Parameters, s.Context, s.Vocabulary = def.Kind(), model.Parameters(def), def.Context(), def.Vocab()
		s.Adapters = model.DescribeLoRA(def)
		settings := def.Settings()
		s.Sizes = map[string]json.RawMessage{}
		for _, row := range sizesShown {
			for _, key := range row.keys {
				if raw, err := json.Marshal(settings[key]); err == nil && settings[key] != nil {
					s.Sizes[key] = raw
				}
			}
		}
	}
	switch t, err := tokenizer.Open(b); {
	case err == nil:
		s.Tokenizer = fmt.Sprintf("%s, %d tokens, fingerprint %.12s", t.Kind(), t.VocabSize(), t.Fingerprint())
		s.Ends = t.EndTokens()
	case tokenizer.Has(b):
		s.Unread = append(s.Unread, err.Error())
	}
	switch t, err := chat.OpenTemplate(b, ""); {
	case err == nil:
		s.Template = t.Source()
	case !errors.Is(err, chat.ErrNone):
		s.Unread = append(s.Unread, err.Error())
	}
}

// count sums the tensors of each type, the largest first.
func (s *shownModel) count() {
	at := map[string]int{}
	for _, t := range s.Tensors {
		i, ok := at[t.Type]
		if !ok {
			i = len(s.Types)
			at[t.Type], s.Types = i, append(s.Types, shownType{Type: t.Type})
		}
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		of := &s.Types[i]
		of.Tensors, of.Elements, of.Bytes, s.Bytes = of.Tensors+1, of.Elements+n, of.Bytes+t.Bytes, s.Bytes+t.Bytes
	}
	slices.SortFunc(s.Types, func(a, b shownType) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	})
}

func (s *shownModel) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, terminal.Text(fmt.Sprintf(format, args...)))
	}
	row("file", "%s", s.Path)
	tensors := 0
	for _, t := range s.Types {
		tensors += t.Tensors
	}
	row("format", "%s, %d tensors, %s", s.Format, tensors, size(uint64(s.Bytes)))
	if s.Family != "" {
		row("family", "%s, %d parameters", s.Family, s.Parameters)
		for _, r := range sizesShown {
			for _, key := range r.keys {
				if v, ok := s.Sizes[key]; ok {
					row(r.what, "%s", v)
				}
			}
		}
		row("vocabulary", "%d", s.Vocabulary)
		row("context", "%d", s.Context)
	}
	if s.Adapters != "" {
		row("adapters", "%s", s.Adapters)
	}
	if s.Tokenizer != "" {
		row("tokenizer", "%s", s.Tokenizer)
		row("end tokens", "%v", s.Ends)
	}
	if s.Template != "" {
		row("chat template", "%s", brief(s.Template))
	}
	for _, why := range s.Unread {
		row("not read", "%s", why)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "TYPE\tTENSORS\tELEMENTS\tBYTES")
	for _, t := range s.Types {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", terminal.Name(t.Type), t.Tensors, t.Elements, t.Bytes)
	}
	if len(s.Metadata) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "KEY\tVALUE")
		for _, k := range s.Metadata {
			fmt.Fprintf(w, "%s\t%s\n", terminal.Name(k.Key), terminal.Text(k.Value))
		}
	}
	if len(s.Tensors) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "TENSOR\tTYPE\tSHAPE\tBYTES")
		for _, t := range s.Tensors {
			fmt.Fprintf(w, "%s\t%s\t%v\t%d\n", terminal.Name(t.Name), terminal.Name(t.Type), t.Shape, t.Bytes)
		}
	}
	return w.Flush()
}
