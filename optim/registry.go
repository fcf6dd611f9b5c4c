package optim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gputrain/shaders/suggest"
)

// Parameters are an optimizer's own: a pointer to a plain struct whose fields have the tags json and doc.
type Parameters interface {
	// Transform makes the optimizer without what Options.assemble adds, its rate included, of parameters that it
	// checks.
	Transform(lr Schedule, o Options) (Transform, error)
}

type entry struct {
	doc      string
	defaults func() Parameters
}

var optimizers = struct {
	sync.RWMutex
	byName map[string]entry
}{byName: map[string]entry{
	"adafactor": {adafactorDoc, func() Parameters { c := DefaultAdafactor(); return &c }},
	"adamw":     {adamwDoc, func() Parameters { c := DefaultAdamW(); return &c }},
	"lion":      {lionDoc, func() Parameters { c := DefaultLion(); return &c }},
	"mars":      {marsDoc, func() Parameters { c := DefaultMars(); return &c }},
	"muon":      {muonDoc, func() Parameters { c := DefaultMuon(); return &c }},
	"quad":      {quadDoc, func() Parameters { c := DefaultQuad(); return &c }},
	"skew":      {skewDoc, func() Parameters { c := DefaultSkew(); return &c }},
	"rmsprop":   {rmspropDoc, func() Parameters { c := DefaultRMSProp(); return &c }},
	"sgd":       {sgdDoc, func() Parameters { return &SGDConfig{} }},
}}

// Register adds an optimizer under a name that is not yet taken: defaults makes its parameters, freshly each time.
func Register(name, doc string, defaults func() Parameters) error {
	optimizers.Lock()
	defer optimizers.Unlock()
	if _, taken := optimizers.byName[name]; taken || name == "" || defaults == nil {
		return fmt.Errorf("optim: register: found %q, wanted a name not yet taken and a constructor", name)
	}
	optimizers.byName[name] = entry{doc, defaults}
	return nil
}

// Names lists the registered optimizers in order.
func Names() []string {
	optimizers.RLock()
	defer optimizers.RUnlock()
	return slices.Sorted(maps.Keys(optimizers.byName))
}

func find(name string) (entry, error) {
	optimizers.RLock()
	defer optimizers.RUnlock()
	e, ok := optimizers.byName[name]
	if !ok {
		known := slices.Sorted(maps.Keys(optimizers.byName))
		return e, fmt.Errorf("optim: build: optimizer: found %q, wanted one of %s%s", name, strings.Join(known, ", "), suggest.DidYouMean(name, known))
	}
	return e, nil
}

// Config names an optimizer with all that it is built of. In JSON it is strict, and complete: parameters that were left
// out are written with their defaults.
type Config struct {
	Name       string          `json:"name"`
	Options    Options         `json:"options"`
	Parameters json.RawMessage `json:"parameters"`
}

// ParseConfig reads a Config. An unknown key is an error with a suggestion.
func ParseConfig(data []byte) (Config, error) {
	var c Config
	if err := strict(data, &c); err != nil {
		return c, fmt.Errorf("optim: config: %w", err)
	}
	p, err := c.parameters()
	if err != nil {
		return c, err
	}
	if c.Parameters, err = json.Marshal(p); err != nil {
		return c, fmt.Errorf("optim: config: %s: parameters: %w", c.Name, err)
	}
	return c, nil
}

// parameters reads the parameters over their defaults.
func (c Config) parameters() (Parameters, error) {
	e, err := find(c.Name)
	if err != nil {
		return nil, err
	}
	p := e.defaults()
	if given := bytes.TrimSpace(c.Parameters); len(given) > 0 && !bytes.Equal(given, []byte("null")) {
		if err := strict(given, p); err != nil {
			return nil, fmt.Errorf("optim: %s: parameters: %w", c.Name, err)
		}
	}
	return p, nil
}

// Build makes the optimizer.
func (c Config) Build() (Transform, error) {
	p, err := c.parameters()
	if err != nil {
		return Transform{}, err
	}
	return build(c.Name, p, c.Options)
}

// Build makes the optimizer of that name; parameters is a JSON object of those that are not to have their defaults, or
// nothing.
func Build(name string, o Options, parameters []byte) (Transform, error) {
	return Config{Name: name, Options: o, Parameters: parameters}.Build()
}

func build(name string, p Parameters, o Options) (Transform, error) {
	if err := o.Validate(); err != nil {
		return Transform{}, fmt.Errorf("optim: %s: %w", name, err)
	}
	lr, err := o.Schedule.Build(o.Numerics)
	if err != nil {
		return Transform{}, err
	}
	inner, err := p.Transform(lr, o)
	if err != nil {
		return Transform{}, fmt.Errorf("optim: %s: %w", name, err)
	}
	t := o.assemble(lr, inner)
	if t.err != nil {
		return Transform{}, fmt.Errorf("optim: %s: %w", name, t.err)
	}
	t.name = name
	return t, nil
}

// Description is what there is to tell of an optimizer.
type Description struct {
	Name       string      `json:"name"`
	Doc        string      `json:"doc"`
	Parameters []Parameter `json:"parameters"`
	Cost       Cost        `json:"cost"` // with the defaults
}

// Parameter is one of an optimizer's own parameters.
type Parameter struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Default any    `json:"default"`
	Doc     string `json:"doc"`
}

// Describe tells of an optimizer.
func Describe(name string) (Description, error) {
	e, err := find(name)
	if err != nil {
		return Description{}, err
	}
	t, err := Build(name, Options{}, nil)
	if err != nil {
		return Description{}, err
	}
	d := Description{Name: name, Doc: e.doc, Cost: t.Cost()}
	values := reflect.ValueOf(e.defaults()).Elem()
	for _, k := range keys(values.Type()) {
		d.Parameters = append(d.Parameters, Parameter{k.key, k.typ.String(), values.Field(k.index).Interface(), k.doc})
	}
	return d, nil
}
