package template

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A Template is one that was read. It does not change.
type Template struct {
	name      string
	source    string
	body      []statement
	generates bool
	marks     bool // may mark texts as safe
}

// Source is the text that was read.
func (t *Template) Source() string { return t.source }

// Generates says whether the template has {% generation %}, so that [Rendering.Generated] tells what a model writes.
func (t *Template) Generates() bool { return t.generates }

// Parse reads a template; errors call it by the name.
func Parse(name, source string) (t *Template, err error) {
	defer stopped(&err)
	if len(source) > longestSource {
		return nil, &fault{name, 1, "the template is longer than 4 MiB, wanted a shorter one"}
	}
	if !utf8.ValidString(source) {
		return nil, &fault{name, 1, "the template is not UTF-8"}
	}
	p := &parser{name: name, tokens: lex(name, source)}
	body, _ := p.body(token{})
	return &Template{name, source, body, p.generates, slices.ContainsFunc(p.tokens, func(t token) bool { return t.text == "safe" })}, nil
}

// Options say how a template is rendered.
type Options struct {
	limits  limits
	Account *Account  // of this rendering and others; nil: it stands alone
	Now     time.Time // that strftime_now tells; zero: the time of the call

	earlier bool
}

// A Rendering is what a template wrote.
type Rendering struct {
	Text string
	// Generated are the parts of the text that stood in {% generation %}, in characters: [start, end).
	Generated [][2]int
}

// Render runs a template with some variables.
func (t *Template) Render(variables *Object, o Options) (made *Rendering, err error) {
	r := &run{template: t, limits: o.limits.withDefaults(), now: o.Now, earlier: o.earlier, line: 1, out: &strings.Builder{}}
	if r.now.IsZero() {
		r.now = time.Now()
	}
	if r.account = o.Account; r.account == nil {
		r.account = &Account{}
	}
	bytes := size(variables)
	begun, err := r.account.begin(bytes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r.alone {
			r.account.heavy.Unlock()
		}
	}()
	made, err = r.render(variables)
	if over := r.account.end(begun, r.waited, bytes, r.out.Len()); over != nil {
		return nil, over
	}
	return made, err
}

func (r *run) render(variables *Object) (made *Rendering, err error) {
	defer stopped(&err)
	top := &scope{}
	for i, key := range variables.Keys() {
		top.set(key, variables.values[i])
	}
	r.block(r.template.body, top)
	text := r.out.String()
	made = &Rendering{Text: text}
	at, character := 0, 0
	for _, g := range r.generated {
		if g.inside && (g.end > len(text) || text[g.begin:g.end] != g.text) {
			r.line = g.line
			r.fail("what {%% generation %%} wrote inside of a macro or block is not where it was written, wanted it outside of them")
		}
		if g.begin < at {
			at, character = 0, 0
		}
		character += utf8.RuneCountInString(text[at:g.begin])
		end := character + utf8.RuneCountInString(text[g.begin:g.end])
		at = g.begin
		made.Generated = append(made.Generated, [2]int{character, end})
	}
	return made, nil
}

// RenderEarlier is what earlier programs made, which knew neither that safe marks texts nor that an object in JSON is a
// text too; nil where there is nothing of either.
func (t *Template) RenderEarlier(variables *Object, o Options) (*Rendering, error) {
	parsed, some := parsedObjects(variables)
	if !some && !t.marks {
		return nil, nil
	}
	o.earlier = true
	return t.Render(parsed.(*Object), o)
}

// run is one rendering.
type run struct {
	template *Template
	limits   limits
	now      time.Time
	earlier  bool

	line                int
	steps, bytes, depth int
	account             *Account
	alone               bool          // it has much memory
	waited              time.Duration // for others that had

	out       *strings.Builder   // what is written
	outer     []*strings.Builder // around it: of blocks whose text is a value
	before    int                // bytes of outer
	generated []generated
}

// generated is a part of the text, in bytes.
type generated struct {
	line       int
	begin, end int
	inside     bool // of a block whose text is a value
	text       string
}

func (r *run) write(s string) {
	if len(s) > r.limits.Output-r.out.Len() {
		r.fail("more than %d bytes of text, wanted at most so many (limit: output)", r.limits.Output)
	}
	r.made(len(s))
	r.out.WriteString(s)
}

// written is how many bytes were written, if what is around a block stays as it is.
func (r *run) written() int { return r.before + r.out.Len() }

// captured is what some statements write.
func (r *run) captured(write func()) string {
	r.outer = append(r.outer, r.out)
	r.before += r.out.Len()
	r.out = &strings.Builder{}
	write()
	text := r.out.String()
	last := len(r.outer) - 1
	r.out, r.outer = r.outer[last], r.outer[:last]
	r.before -= r.out.Len()
	return text
}
