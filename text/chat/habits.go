package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gputrain/text/chat/template"
)

// habits are what a template does with messages of forms that not all templates know. A probe tells, once for each: templates say it in many ways.
type habits struct {
	encoder *Encoder
	mu      sync.Mutex
	known   map[habit]bool
}

type habit struct {
	of         *template.Template
	role, form string
}

// habitsKept bounds what is kept: data may have any number of keys.
const habitsKept = 4096

// does tells whether a template has a habit, as probe finds out.
func (h *habits) does(what habit, probe func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	does, ok := h.known[what]
	if !ok {
		does = probe()
		if h.known == nil {
			h.known = map[habit]bool{}
		}
		if len(h.known) < habitsKept {
			h.known[what] = does
		}
	}
	return does
}

// mentions tells whether a word stands in the text of a template.
func (h *habits) mentions(of *template.Template, word string) bool {
	return h.does(habit{of, "", word}, func() bool { return strings.Contains(of.Source(), word) })
}

// Texts of probes, which no template has of itself.
const (
	probeOne = "qzjfirst"
	probeTwo = "qzjsecond"
)

// writes tells whether a template writes the texts of a probe, which stands behind some other messages, and what stands between them.
func (h *habits) writes(of *template.Template, probe *template.Object, between func(string) bool) bool {
	question, answer, call := message("user", "q"), message("assistant", "a"), message("assistant", "")
	one := wrapped([]any{object("name", "f", "arguments", &template.Object{})})[0].(*template.Object)
	one.Set("id", "call12345") // as Mistral's templates want it
	call.Set("tool_calls", []any{one})
	for _, before := range [][]*template.Object{nil, {question}, {question, answer}, {question, call}} {
		for _, after := range [][]*template.Object{nil, {question}, {answer}} {
			all := slices.Concat(before, []*template.Object{probe}, after)
			t := h.encoder.template
			made, err := of.Render(t.given(all, &template.Object{}, false), t.options(h.encoder.options.Now))
			if err != nil { // it may take the probe elsewhere
				continue
			}
			_, text, found := strings.Cut(made.Text, probeOne)
			text, _, both := strings.Cut(text, probeTwo)
			if found && both && between(text) {
				return true
			}
		}
	}
	return false
}

// object has members: keys, each with its value behind it.
func object(members ...any) *template.Object {
	o := &template.Object{}
	for i := 0; i < len(members); i += 2 {
		o.Set(members[i].(string), members[i+1])
	}
	return o
}

func message(role string, content any) *template.Object {
	return object("role", role, "content", content)
}

// part is a part of a content.
func part(form, text string) *template.Object { return object("type", form, form, text) }

// parts tells whether a template reads the parts of a form in a content of a role. One that writes a list as it stands has the names of its keys between.
func (h *habits) parts(of *template.Template, role, form string) bool {
	return h.does(habit{of, role, form}, func() bool {
		content := []any{part(form, probeOne), part("text", probeTwo)}
		return h.writes(of, message(role, content), func(between string) bool { return !strings.Contains(between, "text") })
	})
}

// adapt gives messages the form that the template reads.
func (e *Encoder) adapt(c *Conversation) error {
	if e.template == nil {
		return nil
	}
	of, err := e.template.choose(&c.Variables)
	if err != nil {
		return err
	}
	c.Messages = slices.Clone(c.Messages)
	for i, m := range c.Messages {
		if m, err = e.adapted(of, c, i, m); err != nil {
			return fmt.Errorf("message %d of %s: %w", i, c.role(i), err)
		}
		c.Messages[i] = m
		for _, key := range m.Keys() {
			if key != "role" && key != "content" && !e.habits.mentions(of, key) {
				c.unread("messages." + key)
			}
		}
	}
	for _, key := range c.Variables.Keys() {
		if value, _ := c.Variables.Get(key); full(value) && !e.habits.mentions(of, key) {
			c.unread(key)
		}
	}
	return nil
}

// results are the roles whose content may be what a tool gave, in any template.
var results = []string{"tool", "function", "ipython"}

func (c *Conversation) unread(key string) {
	if !slices.Contains(c.Unread, key) {
		c.Unread = append(c.Unread, key)
	}
}

// adapted is message i as the template reads it.
func (e *Encoder) adapted(of *template.Template, c *Conversation, i int, m *template.Object) (*template.Object, error) {
	if _, ok := content(m).(*template.Object); ok && !slices.Contains(results, c.role(i)) && !e.habits.mentions(of, "content is mapping") {
		return nil, errors.New("content: found an object, wanted a text or a list of parts, as the template reads no objects")
	}
	if list, ok := content(m).([]any); ok {
		text, keep, err := e.contentOf(of, c.role(i), list)
		if err != nil {
			return nil, fmt.Errorf("content: %w", err)
		}
		if !keep {
			m = with(m, "content", text)
			c.otherwise("message %d: content: its parts are one text", i)
		}
	}
	if call, _ := m.Get("function_call"); call != nil && !e.habits.callsFunctions(of) {
		list, err := calls(wrapped([]any{call}))
		if err != nil {
			return nil, fmt.Errorf("function_call: %w", err)
		}
		m = with(with(m, "function_call", nil), "tool_calls", list)
		c.otherwise("message %d: function_call: it is one of tool_calls", i)
	}
	if called, _ := m.Get("tool_calls"); full(called) && !full(content(m)) && !e.habits.mentions(of, "tool_calls") {
		return nil, errors.New("tool_calls: found calls and no content, wanted a template that writes calls: it would be an empty answer")
	}
	if c.role(i) == "function" && !e.habits.hasFunctions(of) {
		m = with(m, "role", "tool")
		c.otherwise("message %d: role: function is tool", i)
	}
	return m, nil
}

// callsFunctions tells whether a template writes the older form of a call.
func (h *habits) callsFunctions(of *template.Template) bool {
	m := object("role", "assistant", "content", "", "function_call", object("name", probeOne+probeTwo, "arguments", "{}"))
	return h.does(habit{of, "assistant", "function_call"}, func() bool { return h.writes(of, m, nothing) })
}

// hasFunctions tells whether a template writes messages of the role function.
func (h *habits) hasFunctions(of *template.Template) bool {
	return h.does(habit{of, "function", "role"}, func() bool { return h.writes(of, message("function", probeOne+probeTwo), nothing) })
}

func nothing(between string) bool { return between == "" }

func content(m *template.Object) any { value, _ := m.Get("content"); return value }

// with is a message with another value of a key; nil: without it.
func with(m *template.Object, key string, value any) *template.Object {
	out := &template.Object{}
	for _, k := range m.Keys() {
		if v, _ := m.Get(k); k != key {
			out.Set(k, v)
		} else if value != nil {
			out.Set(k, value)
		}
	}
	if _, ok := m.Get(key); !ok && value != nil {
		out.Set(key, value)
	}
	return out
}

// contentOf is the text of a content's parts; keep: the template reads them itself.
func (e *Encoder) contentOf(of *template.Template, role string, list []any) (text string, keep bool, err error) {
	keep = len(list) > 0 || e.habits.parts(of, role, "text")
	thinks := -1
	for i, one := range list {
		form, said, err := partOf(one)
		if err != nil {
			return "", false, fmt.Errorf("part %d: %w", i, err)
		}
		switch reads := e.habits.parts(of, role, form); {
		case form == "thinking" && !reads:
			return "", false, fmt.Errorf("part %d: found thinking, wanted text, as the template reads no such part", i)
		case form == "thinking":
			thinks = i
		case !reads:
			keep = false
		}
		if value, _ := one.(*template.Object); form == "text" && !isTyped(value) {
			keep = false // it is text, but not in the form that templates look for
		}
		text += said
	}
	if thinks >= 0 && !keep {
		return "", false, fmt.Errorf("part %d: found thinking, wanted the others to be of type text", thinks)
	}
	return text, keep, nil
}

func isTyped(part *template.Object) bool { form, _ := part.Get("type"); return form == "text" }

// textForms are the types of parts that are text.
var textForms = []string{"text", "input_text", "output_text"}

// partOf is the form of a part, text or thinking, and what it says.
func partOf(one any) (form, said string, err error) {
	const wanted = "wanted text, as models see nothing else here"
	if s, ok := one.(string); ok {
		return "text", s, nil
	}
	p, ok := one.(*template.Object)
	if !ok {
		return "", "", fmt.Errorf("found %s, wanted a text, or an object with type and text", template.Kind(one))
	}
	kind, _ := p.Get("type")
	form, _ = kind.(string)
	key := form
	switch {
	case kind == nil || slices.Contains(textForms, form):
		form, key = "text", "text"
	case form != "thinking":
		return "", "", fmt.Errorf("found type %s, %s", brief(kind), wanted)
	}
	for _, other := range p.Keys() {
		if value, _ := p.Get(other); strings.HasPrefix(other, "image") || strings.HasPrefix(other, "audio") || strings.HasPrefix(other, "video") {
			if full(value) {
				return "", "", fmt.Errorf("found %s, %s", other, wanted)
			}
		}
	}
	value, _ := p.Get(key)
	said, ok = value.(string)
	if !ok {
		return "", "", fmt.Errorf("%s: found %s, wanted a text", key, template.Kind(value))
	}
	return form, said, nil
}
