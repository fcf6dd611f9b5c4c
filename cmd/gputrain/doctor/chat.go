package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gputrain/internal/formats"
	"gputrain/run/setup"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
	"gputrain/text/tokenizer"
)

// chatFile is a file of conversations, and what the template beside it makes of them.
type chatFile struct {
	template *chat.Template
	now      time.Time
	cases    []*template.Object
}

func readChats(dir string, raw []byte) (*chatFile, error) {
	file, err := template.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("cases.json: %w", err)
	}
	c := &chatFile{}
	if now, ok := member(file, "now").(string); ok {
		if c.now, err = time.Parse("2006-01-02T15:04:05", now); err != nil {
			return nil, fmt.Errorf("cases.json: now: %w", err)
		}
	}
	list, _ := member(file, "cases").([]any)
	for i, one := range list {
		o, ok := one.(*template.Object)
		if !ok {
			return nil, fmt.Errorf("cases.json: case %d: found %s, wanted an object", i, template.Kind(one))
		}
		c.cases = append(c.cases, o)
	}
	if len(c.cases) == 0 {
		return nil, errors.New("cases: found none")
	}
	c.template, err = setup.OpenTemplate(dir)
	return c, err
}

func member(v any, key string) any {
	o, ok := v.(*template.Object)
	if !ok {
		return nil
	}
	value, _ := o.Get(key)
	return value
}

// talk is the conversation of a case, as it stands there.
func talk(c *template.Object) (*chat.Conversation, error) {
	list, ok := member(c, "messages").([]any)
	if !ok {
		return nil, errors.New("messages: found no list, wanted one")
	}
	t := &chat.Conversation{Format: formats.Messages, Messages: []*template.Object{}, Train: make([]*bool, len(list))}
	for i, one := range list {
		m, ok := one.(*template.Object)
		if !ok {
			return nil, fmt.Errorf("message %d: found %s, wanted an object", i, template.Kind(one))
		}
		t.Messages = append(t.Messages, m)
	}
	for _, key := range c.Keys() {
		if !slices.Contains([]string{"talk", "messages", "add_generation_prompt", "text", "error", "generation"}, key) {
			t.Variables.Set(key, member(c, key))
		}
	}
	return t, nil
}

// chatCases renders conversations.
func chatCases(f *textFile) (string, error) {
	file, err := readChats(f.dir, f.raw)
	if err != nil {
		return "", err
	}
	return each(file.cases, func(where string, c *template.Object) (string, error) {
		t, err := talk(c)
		if err != nil {
			return "", fmt.Errorf("%s: %w", where, err)
		}
		generation, _ := member(c, "add_generation_prompt").(bool)
		made, err := file.template.Render(t.Messages, &t.Variables, generation, file.now)
		return rendered(where, c, made, err), nil
	})
}

// rendered compares what a template made of a case, or refused. The names of Jinja's errors are not compared.
func rendered(where string, c *template.Object, made *template.Rendering, err error) string {
	wanted, refused := member(c, "error").(string)
	var raised *template.RaisedError
	switch {
	case errors.As(err, &raised):
		return differ(where+" error", raised.Message, wanted)
	case err != nil && refused:
		return ""
	case err != nil:
		return fmt.Sprintf("%s: %v", where, err)
	case refused:
		return fmt.Sprintf("%s: found a text, want the error %q", where, wanted)
	}
	if worst := differ[any](where+" text", made.Text, member(c, "text")); worst != "" {
		return worst
	}
	generated := []any{}
	for _, g := range made.Generated {
		generated = append(generated, []any{int64(g[0]), int64(g[1])})
	}
	parts, _ := member(c, "generation").([]any)
	return differ(where+" generation", generated, append([]any{}, parts...))
}

// sftCase is a conversation of another file, by its name, and its tokens and labels.
type sftCase struct {
	Talk    string  `json:"talk"`
	Tools   bool    `json:"tools"`
	IDs     []int32 `json:"ids"`
	Labels  []int32 `json:"labels"`
	Learned *string `json:"learned"`
}

// sftCases makes tokens and labels of the conversations of another file, whose folder the file names.
func sftCases(f *textFile) (string, error) {
	var file struct {
		Tokenizer string    `json:"tokenizer"`
		Chat      string    `json:"chat"`
		Cases     []sftCase `json:"cases"`
	}
	if err := f.decode(&file, func() int { return len(file.Cases) }); err != nil {
		return "", err
	}
	root := filepath.Dir(f.dir)
	dir := filepath.Join(root, filepath.FromSlash(file.Chat))
	raw, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		return "", err
	}
	chats, err := readChats(dir, raw)
	if err != nil {
		return "", err
	}
	tok, err := setup.OpenTokenizer(filepath.Join(root, filepath.FromSlash(file.Tokenizer)))
	if err != nil {
		return "", err
	}
	e, err := chat.NewEncoder(tok, chats.template, chat.Options{Now: chats.now})
	if err != nil {
		return "", err
	}
	return each(file.Cases, func(where string, c sftCase) (string, error) {
		at := slices.IndexFunc(chats.cases, func(o *template.Object) bool {
			return member(o, "talk") == c.Talk && (member(o, "tools") != nil) == c.Tools && member(o, "add_generation_prompt") == nil
		})
		if at < 0 {
			return "", fmt.Errorf("%s: talk: found %q, which %s has not", where, c.Talk, file.Chat)
		}
		t, err := talk(chats.cases[at])
		if err != nil {
			return "", fmt.Errorf("%s: %w", where, err)
		}
		ids, learned, err := e.Encode(t)
		if err != nil {
			return "", fmt.Errorf("%s: %w", where, err)
		}
		return c.labelled(where, tok, ids, learned)
	})
}

// labelled compares tokens, and the labels of those that learn: -100 stands for the others.
func (c sftCase) labelled(where string, t *tokenizer.Tokenizer, ids []int32, learned []bool) (string, error) {
	if worst := differ(where+" ids", ids, c.IDs); worst != "" {
		return worst, nil
	}
	labels, kept := make([]int32, len(ids)), []int32{}
	for i, id := range ids {
		labels[i] = -100
		if learned[i] {
			labels[i], kept = id, append(kept, id)
		}
	}
	if worst := differ(where+" labels", labels, c.Labels); worst != "" || c.Learned == nil {
		return worst, nil
	}
	s, err := t.Decode(kept, false)
	if err != nil {
		return "", fmt.Errorf("%s: learned: %w", where, err)
	}
	return differ(where+" learned", s, *c.Learned), nil
}
