package optim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gputrain/internal/suggest"
)

// An Optimizer is one row of the registry: every fact about an optimizer that has a name.
type Optimizer struct {
	Name string
	Doc  string            // one line
	New  func() Parameters // makes its parameters; fields that it leaves zero get the defaults of their tags
	// Rate is the peak learning rate to begin with where none is given, for the built-in run: the best of a few trials, not of a search.
	Rate float64
	// Small are parameters in JSON with which leaves of a few elements take the paths of large ones; "" where the defaults do.
	Small string
	// Tolerance is how far the device may be from the twin after four updates, relative to the largest number of a leaf; 0 = 1e-5.
	Tolerance float64
	// First says what is other in the first edition, by the numerics; nil: nothing.
	First map[Numerics]string
	// CountedFor names the shapes that Cost is counted for; "" where it holds for all.
	CountedFor string
}

var optimizers = struct {
	sync.RWMutex
	byName map[string]Optimizer
}{byName: map[string]Optimizer{}}

// Register adds an optimizer under a name that is not yet taken.
func Register(o Optimizer) error {
	optimizers.Lock()
	defer optimizers.Unlock()
	if _, taken := optimizers.byName[o.Name]; taken || o.Name == "" || o.New == nil {
		return fmt.Errorf("optim: register: found %q, wanted a name not yet taken and a constructor", o.Name)
	}
	optimizers.byName[o.Name] = o
	return nil
}

// parameters are those with which it is built where none are given.
func (o Optimizer) parameters(with Options) Parameters {
	p := o.New()
	setDefaults(p, with)
	return p
}

// builtin registers an optimizer of this package.
func builtin(o Optimizer) {
	if err := Register(o); err != nil {
		panic(err)
	}
}

// Names lists the registered optimizers in order.
func Names() []string {
	optimizers.RLock()
	defer optimizers.RUnlock()
	return slices.Sorted(maps.Keys(optimizers.byName))
}

// rows lists the registered optimizers by name.
func rows() []Optimizer {
	optimizers.RLock()
	defer optimizers.RUnlock()
	return slices.SortedFunc(maps.Values(optimizers.byName), func(a, b Optimizer) int { return strings.Compare(a.Name, b.Name) })
}

// Find gives the row of a registered optimizer. An unknown name is an error with a suggestion.
func Find(name string) (Optimizer, error) {
	optimizers.RLock()
	defer optimizers.RUnlock()
	o, ok := optimizers.byName[name]
	if !ok {
		known := slices.Sorted(maps.Keys(optimizers.byName))
		return o, fmt.Errorf("optim: build: optimizer: found %q, wanted one of %s%s", name, strings.Join(known, ", "), suggest.DidYouMean(name, known))
	}
	return o, nil
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
	p, err := c.Decode()
	if err != nil {
		return c, err
	}
	if c.Parameters, err = json.Marshal(p); err != nil {
		return c, fmt.Errorf("optim: config: %s: parameters: %w", c.Name, err)
	}
	c.Options.Edition = cmp.Or(c.Options.Edition, Newest)
	c.Options.Schedule = c.Options.Schedule.Complete()
	return c, nil
}

// AsRecorded is the configuration that a record means: one without an edition is of the first, unless that is as the newest.
func (c Config) AsRecorded() Config {
	if c.Options.Edition != 0 {
		return c
	}
	c.Options.Edition = Newest
	if _, err := c.Build(); err != nil || c.first() != "" {
		c.Options.Edition = First
	}
	return c
}

// Earlier says what the configuration's edition has other than the newest; "": nothing.
func (c Config) Earlier() string {
	if c.Options.Edition != First {
		return ""
	}
	return cmp.Or(c.first(), "parameters that its numerics do not read are let pass")
}

func (c Config) first() string {
	row, _ := Find(c.Name)
	return row.First[cmp.Or(c.Options.Numerics, Stable)]
}

// Following is the configuration of a run that began with another: of its edition, where this one names none.
func (c Config) Following(begun Config) Config {
	c.Options.Edition = cmp.Or(c.Options.Edition, begun.Options.Edition)
	return c
}

// Decode reads the parameters over their defaults: the struct that the optimizer's row makes.
func (c Config) Decode() (Parameters, error) {
	o, err := Find(c.Name)
	if err != nil {
		return nil, err
	}
	p := o.parameters(c.Options)
	if given := bytes.TrimSpace(c.Parameters); len(given) > 0 && !bytes.Equal(given, []byte("null")) {
		if err := strict(given, p); err != nil {
			return nil, fmt.Errorf("optim: %s: parameters: %w", c.Name, err)
		}
	}
	return p, nil
}

// Build makes the optimizer.
func (c Config) Build() (Transform, error) {
	p, err := c.Decode()
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
	if err := checkRanges(p); err != nil {
		return Transform{}, fmt.Errorf("optim: %s: parameters: %w", name, err)
	}
	row, err := Find(name)
	if err != nil {
		return Transform{}, err
	}
	if err := checkRead(p, row.parameters(o), o); err != nil {
		return Transform{}, fmt.Errorf("optim: %s: parameters: %w", name, err)
	}
	lr, err := o.Schedule.Build(o.Numerics)
	if err != nil {
		return Transform{}, err
	}
	inner, err := p.Transform(lr, o)
	if err != nil {
		return Transform{}, fmt.Errorf("optim: %s: %w", name, err)
	}
	if k, ok := p.(*Kron); ok {
		o.scanned = k.ScannedLayers
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
	Doc     string `json:"doc"` // with what its tags say of numerics

	Numerics Numerics `json:"numerics,omitempty"` // the one that reads it; "": both
}

// Describe tells of an optimizer.
func Describe(name string) (Description, error) {
	o, err := Find(name)
	if err != nil {
		return Description{}, err
	}
	t, err := Build(name, Options{}, nil)
	if err != nil {
		return Description{}, err
	}
	d := Description{Name: name, Doc: o.Doc, Cost: t.Cost()}
	values := reflect.ValueOf(o.parameters(Options{})).Elem()
	for _, k := range keys(values.Type()) {
		p := Parameter{k.key, k.typ.String(), values.FieldByIndex(k.index).Interface(), k.tag.Get("doc"), Numerics(k.tag.Get("numerics"))}
		if p.Numerics != "" {
			p.Doc = string(p.Numerics) + " numerics: " + p.Doc
		}
		if other, has := k.tag.Lookup("eformer"); has {
			p.Doc += "; with eformer numerics " + other
		}
		d.Parameters = append(d.Parameters, p)
	}
	return d, nil
}
