package main

import (
	"io"
	"slices"
	"strings"

	"gputrain/hub/gguf"
	"gputrain/internal/modelcard"
	"gputrain/run/setup"
)

// modelCard is what is written beside a model, or into its file, of where it comes from.
type modelCard struct{ modelcard.Card }

// card is that of the model as it is written to a place; at is where its base was said to be, "": nowhere.
func (s *storedModel) card(command, to, at string, merged bool) modelCard {
	return modelCard{setup.Card(setup.Exporting{From: s.Bundle, At: at, Def: s.Def, Merged: merged, To: to}, func(what string) { say("gputrain: %s: %s\n", command, what) })}
}

func (c modelCard) write(w io.Writer) error {
	_, err := w.Write(c.Text())
	return err
}

// keys are what llama.cpp's format has keys for. A model that is only written in another form has no base of its own.
func (c modelCard) keys() (keys []gguf.Key) {
	add := func(name, value string) {
		if value != "" {
			keys = append(keys, gguf.Key{Name: "general." + name, Value: value})
		}
	}
	if len(c.License.Names) == 1 {
		add("license", c.License.Names[0])
		add("license.name", c.License.Name)
		add("license.link", c.License.Link)
	}
	if c.Relation != "" && c.Base != "" {
		keys = append(keys, gguf.Key{Name: "general.base_model.count", Value: uint32(1)})
		name := c.Base
		if organization, rest, onHub := strings.Cut(c.Base, "/"); onHub {
			name = rest
			add("base_model.0.organization", organization)
			add("base_model.0.repo_url", "https://huggingface.co/"+c.Base)
		}
		add("base_model.0.name", name)
	}
	tags := slices.Clone(c.Tags)
	if c.Task != "" {
		tags = append(tags, c.Task)
	}
	return append(keys, gguf.Key{Name: "general.tags", Value: tags})
}
