package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gputrain/hub/gguf"
	"gputrain/internal/modelcard"
	"gputrain/internal/terminal"
	"gputrain/run/setup"
)

// modelCard is what is written beside a model, or into its file, of where it comes from.
type modelCard struct {
	modelcard.Card
	base string // the GGUF file that adapters stand on; "" where it is none
}

// card is that of the model as it is written to a place; at is where its base was said to be, "": nowhere.
func (s *storedModel) card(command, to, at string, merged bool) modelCard {
	c := modelCard{Card: setup.Card(setup.Exporting{From: s.Bundle, At: at, Def: s.Def, Merged: merged, To: to}, func(what string) { say("gputrain: %s: %s\n", command, what) })}
	if base, err := s.Base(); err == nil && base != nil && base.IsGGUF() {
		c.base = base.Path(".")
	}
	return c
}

func (c modelCard) write(w io.Writer) error {
	_, err := w.Write(c.Text())
	return err
}

// tell says the base and its licence, and what to type next.
func (c modelCard) tell(to string) {
	if c.Base != "" {
		license := strings.Join(c.License.Names, ", ")
		if license == "" {
			license = "not known: " + modelcard.File + " of the base says none"
		}
		fmt.Printf("base model %s, licence %s\n", terminal.Name(c.Base), terminal.Name(license))
	}
	if next := c.next(to); next != "" {
		fmt.Printf("next: %s\n", next)
	}
}

// next is a line for the shell by which another program runs the model; "": none does.
func (c modelCard) next(to string) string {
	switch {
	case namesGGUF(to) && c.Relation == modelcard.Adapter:
		return fmt.Sprintf("llama-server -m %s --lora %s", shellWord(cmp.Or(c.base, "BASE.gguf")), shellWord(to))
	case namesGGUF(to):
		return "llama-server -m " + shellWord(to)
	case c.Library == "":
		return ""
	}
	return fmt.Sprintf("python -c %s", shellWord(fmt.Sprintf("from transformers import pipeline; print(pipeline(%q, %q)(\"It was\"))", c.Task, to)))
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
