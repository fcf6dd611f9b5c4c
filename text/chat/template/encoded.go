package template

import (
	"fmt"
	"strings"
)

// An encoded is an object that its row has as a text in JSON, as programs keep the arguments of calls. It is the text,
// byte for byte, wherever a template takes it for a str. It is the object where a str would fail, give nonsense or be
// quoted a second time.
type encoded struct {
	text   string
	object *Object
}

// Encoded is a text as the value that is an object too; a text that does not begin as an object stays what it is.
func Encoded(s string) (any, error) {
	if !strings.HasPrefix(strings.TrimSpace(s), "{") {
		return s, nil
	}
	value, err := Decode([]byte(s))
	if err != nil {
		return nil, err
	}
	object, ok := value.(*Object)
	if !ok {
		return nil, fmt.Errorf("found %s, wanted an object", Kind(value))
	}
	return &encoded{s, object}, nil
}

// parsedObjects is a value with the objects alone in place of those that are texts too, and whether it has such.
func parsedObjects(v any) (made any, some bool) {
	switch v := v.(type) {
	case *encoded:
		return v.object, true
	case []any:
		list := make([]any, len(v))
		for i, one := range v {
			var is bool
			list[i], is = parsedObjects(one)
			some = some || is
		}
		made = list
	case *Object:
		o := &Object{}
		for i, key := range v.Keys() {
			value, is := parsedObjects(v.values[i])
			o.Set(key, value)
			some = some || is
		}
		made = o
	}
	if !some {
		return v, false
	}
	return made, true
}

// mapping is the object of what is one, or is encoded.
func mapping(v any) (*Object, bool) {
	switch v := v.(type) {
	case *Object:
		return v, true
	case *encoded:
		return v.object, true
	}
	return nil, false
}

// asked is what a test is asked of. A template that asks of the same whether it is a string writes a text as it stands:
// no mapping, as Jinja2 says.
func (p *parser) asked(e expression, test, subject string) expression {
	if p.texts == nil {
		p.texts = map[string]bool{}
	}
	texts := p.texts
	switch test {
	case "string":
		texts[subject] = true
	case "mapping":
		return closure(func(r *run, s *scope) any {
			value := r.eval(e, s)
			if texts[subject] {
				return plain(value)
			}
			return value
		})
	}
	return e
}

// spelled is an expression by its names, so that a.b and a["b"] are the same.
func spelled(tokens []token) string {
	var names []string
	for _, t := range tokens {
		if t.kind != tokenOperator {
			names = append(names, t.text)
		}
	}
	return strings.Join(names, ".")
}
