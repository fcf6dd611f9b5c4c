package chat

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gputrain/internal/suggest"
	"gputrain/text/chat/template"
)

// roles are those that messages may have, by what data calls them.
var roles = map[string]string{
	"system": "system", "developer": "developer", "user": "user", "assistant": "assistant", "tool": "tool", "function": "function", "ipython": "ipython",
	"model": "assistant", "human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "observation": "tool", roleOfCalls: "assistant",
}

// roleOfCalls is the role of a message whose content is a call in JSON, in data of the ShareGPT kind.
const roleOfCalls = "function_call"

// messages adds the messages of a list. Where it is given, train stands for those that do not say whether they learn.
func (c *Conversation) messages(row *template.Object, key string, train *bool) error {
	value, _ := row.Get(key)
	value, err := parsed(value, key)
	if err != nil {
		return err
	}
	list, ok := value.([]any)
	switch {
	case !ok:
		return fmt.Errorf("%s: found %s, wanted a list of messages", key, template.Kind(value))
	case len(list) == 0:
		return fmt.Errorf("%s: found an empty conversation, wanted messages", key)
	}
	for i, one := range list {
		m, err := readMessage(one)
		if err != nil {
			return fmt.Errorf("%s: message %d: %w", key, i, err)
		}
		learns, said, err := learning(one.(*template.Object))
		if err != nil {
			return fmt.Errorf("%s: message %d: %w", key, i, err)
		}
		if said = cmp.Or(said, train); learns == nil {
			learns = said
		}
		c.Messages, c.Train, c.before = append(c.Messages, m), append(c.Train, learns), append(c.before, said)
	}
	return nil
}

// readMessage reads one, of either form: role and content, or from and value.
func readMessage(one any) (m *template.Object, err error) {
	from, ok := one.(*template.Object)
	if !ok {
		return nil, fmt.Errorf("found %s, wanted an object with role and content", template.Kind(one))
	}
	m = &template.Object{}
	for _, key := range from.Keys() {
		value, _ := from.Get(key)
		read, err := look(key, value, inMessage, false)
		if err != nil {
			return nil, err
		}
		if read {
			continue // it is no business of templates
		}
		switch key {
		case "from":
			if none(from, "role") {
				key = "role"
			}
		case "value":
			if none(from, "content") {
				key = "content"
			}
		case "tool_calls":
			if value, err = calls(value); err != nil {
				return nil, err
			}
		}
		if value != nil || key == "content" { // columns of tables have a null for what a message lacks
			m.Set(key, value)
		}
	}
	return m, complete(m)
}

// learning is what a message says of whether it learns; said is what earlier programs read of that, "train" alone.
func learning(m *template.Object) (learns, said *bool, err error) {
	value, _ := m.Get("train")
	train, ok := value.(bool)
	if !ok && value != nil {
		return nil, nil, fmt.Errorf("train: found %s, wanted true or false", template.Kind(value))
	}
	if ok {
		said = &train
	}
	learns = said
	for _, key := range weights {
		value, _ := m.Get(key)
		switch value {
		case nil, true, int64(1), 1.0: // its role decides
		case false, int64(0), 0.0:
			if ok && train {
				return nil, nil, fmt.Errorf("train, %s: found true and %s, wanted one answer", key, brief(value))
			}
			learns = new(bool)
		default:
			return nil, nil, fmt.Errorf("%s: found %s, wanted 0 or 1", key, brief(value))
		}
	}
	return learns, said, nil
}

// complete checks a message, and gives it the role's own name.
func complete(m *template.Object) error {
	value, _ := m.Get("role")
	role, ok := value.(string)
	if !ok {
		return fmt.Errorf("found no role, wanted one of %s", strings.Join(known(), ", "))
	}
	name, ok := roles[role]
	if !ok {
		return fmt.Errorf("role: found %q, wanted one of %s%s", role, strings.Join(known(), ", "), suggest.DidYouMean(role, known()))
	}
	m.Set("role", name)
	if role == roleOfCalls {
		return call(m)
	}
	content, _ := m.Get("content")
	_, several := m.Get("tool_calls")
	_, one := m.Get("function_call")
	switch content.(type) {
	case string, []any, *template.Object: // whether the template reads an object is looked at where there is one
		return nil
	case nil:
		if several || one {
			return nil
		}
		return fmt.Errorf("of %s: found no content, wanted a text", role)
	}
	return fmt.Errorf("of %s: content: found %s, wanted a text or a list of parts", role, template.Kind(content))
}

// call makes the content of a message its call.
func call(m *template.Object) error {
	value, err := parsed(content(m), "content")
	if err != nil {
		return fmt.Errorf("of %s: %w", roleOfCalls, err)
	}
	one, ok := value.(*template.Object)
	if !ok || none(one, "name") {
		return fmt.Errorf("of %s: content: found %s, wanted a call in JSON, an object with name and arguments", roleOfCalls, template.Kind(value))
	}
	m.Set("content", nil)
	m.Set("function_call", one)
	return nil
}

func known() []string { return slices.Sorted(maps.Keys(roles)) }

// calls are those of tools.
func calls(value any) (any, error) {
	value, err := parsed(value, "tool_calls")
	if err != nil || value == nil {
		return nil, err
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("tool_calls: found %s, wanted a list", template.Kind(value))
	}
	if len(list) == 0 {
		return nil, nil
	}
	all := make([]any, len(list))
	for i, one := range list {
		if all[i], err = oneCall(one); err != nil {
			return nil, fmt.Errorf("tool_calls: call %d: %w", i, err)
		}
	}
	return all, nil
}

func oneCall(one any) (any, error) {
	from, ok := one.(*template.Object)
	if !ok {
		return nil, fmt.Errorf("found %s, wanted an object", template.Kind(one))
	}
	to := &template.Object{}
	for _, key := range from.Keys() {
		value, _ := from.Get(key)
		var err error
		switch key {
		case "function":
			value, err = oneCall(value)
		case "arguments":
			value, err = arguments(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if value != nil {
			to.Set(key, value)
		}
	}
	return to, nil
}

// arguments are an object, or the text of one in JSON, which templates may take for either; any other text stays.
func arguments(value any) (any, error) {
	if s, ok := value.(string); ok {
		made, err := template.Encoded(s)
		if err != nil {
			return nil, errors.New(err.Error()) // apart from what rows are told, as in parsed
		}
		return made, nil
	}
	return value, nil
}
