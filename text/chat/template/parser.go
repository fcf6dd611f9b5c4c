package template

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/internal/suggest"
)

// parser makes statements of tokens.
type parser struct {
	name      string
	tokens    []token
	at        int
	depth     int             // of what is read
	links     int             // operators of the tag
	loops     int             // that are around what is read, for break and continue
	generates bool            // a statement so far
	texts     map[string]bool // what `is string` is asked of
}

func (p *parser) fail(line int, format string, args ...any) {
	panic(stop{&fault{p.name, line, fmt.Sprintf(format, args...)}})
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenLast {
		p.at++
	}
	return t
}

// is says whether the next token is an operator or name.
func (p *parser) is(kind, text string) bool {
	t := p.peek()
	return t.kind == kind && t.text == text
}

func (p *parser) skip(kind, text string) bool {
	if p.is(kind, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) operator(text string) bool { return p.skip(tokenOperator, text) }

func (p *parser) word(text string) bool { return p.skip(tokenName, text) }

func (t token) String() string {
	switch t.kind {
	case tokenName, tokenOperator, tokenInteger, tokenFloat:
		return fmt.Sprintf("%q", t.text)
	case tokenString:
		return fmt.Sprintf("the text %.40q", t.text)
	}
	return t.kind
}

func (p *parser) expect(kind, text string) token {
	t := p.next()
	if t.kind != kind || text != "" && t.text != text {
		wanted := kind
		if text != "" {
			wanted = fmt.Sprintf("%q", text)
		}
		p.fail(t.line, "found %s, wanted %s", t, wanted)
	}
	return t
}

// deeper bounds the height of what is read; the function that it gives goes back.
func (p *parser) deeper() func() {
	p.depth++
	if p.depth > deepestNesting {
		p.fail(p.peek().line, "statements or expressions are nested more than %d deep, wanted at most so many (limit: nesting)", deepestNesting)
	}
	return func() { p.depth-- }
}

// body reads statements up to one of some, which it gives back, read up to its name.
func (p *parser) body(opened token, ends ...string) (all []statement, end string) {
	defer p.deeper()()
	for {
		t := p.next()
		p.links = 0
		switch t.kind {
		case tokenText:
			all = append(all, does(func(r *run, _ *scope) { r.write(t.text) }))
		case tokenOpen:
			all = append(all, output(t.line, p.tuple(true)))
			p.expect(tokenClose, "")
		case tokenBegin:
			tag := p.expect(tokenName, "")
			if slices.Contains(ends, tag.text) {
				return all, tag.text
			}
			all = append(all, p.statement(tag, ends))
		default: // the end
			if len(ends) > 0 {
				p.fail(opened.line, "%q is not closed, wanted {%% %s %%}", opened.text, strings.Join(ends, " %} or {% "))
			}
			return all, ""
		}
	}
}

// block reads statements from the end of a tag to the tag that ends them.
func (p *parser) block(opened token, end string) []statement {
	p.expect(tokenEnd, "")
	all, _ := p.body(opened, end)
	p.expect(tokenEnd, "")
	return all
}

// statements are all that may stand after {%.
var statements = []string{"if", "for", "set", "macro", "call", "filter", "break", "continue", "generation"}

func (p *parser) statement(tag token, ends []string) statement {
	switch tag.text {
	case "if":
		return p.condition(tag)
	case "for":
		return p.loop(tag)
	case "set":
		return p.assignment(tag)
	case "macro":
		return p.macro(tag)
	case "call":
		return p.callBlock(tag)
	case "filter":
		return p.filterBlock(tag)
	case "generation":
		p.generates = true
		return generation(tag.line, p.separate(tag, "endgeneration"))
	case "break", "continue":
		if p.loops == 0 {
			p.fail(tag.line, "found %q outside of a loop", tag.text)
		}
		p.expect(tokenEnd, "")
		return func(*run, *scope) jump { return jump(tag.text) }
	}
	known := append(slices.Clone(statements), ends...)
	wanted := "one of " + strings.Join(statements, ", ")
	if len(ends) > 0 {
		wanted = strings.Join(ends, " or ") + ", or " + wanted
	}
	p.fail(tag.line, "found the statement %q, wanted %s%s", tag.text, wanted, suggest.DidYouMean(tag.text, known))
	return nil
}

func (p *parser) condition(tag token) statement {
	var tests []expression
	var bodies [][]statement
	end := "elif"
	for end == "elif" {
		tests = append(tests, p.tuple(false))
		p.expect(tokenEnd, "")
		var body []statement
		body, end = p.body(tag, "elif", "else", "endif")
		bodies = append(bodies, body)
	}
	otherwise := p.otherwise(tag, end, "endif")
	return func(r *run, s *scope) jump {
		for i, test := range tests {
			if truth(r.eval(test, s)) {
				return r.block(bodies[i], s)
			}
		}
		return r.block(otherwise, s)
	}
}

func (p *parser) loop(tag token) statement {
	target := p.target()
	p.expect(tokenName, "in")
	over, filter := p.tuple(false), expression(nil)
	if p.word("if") {
		filter = p.expression(true)
	}
	p.expect(tokenEnd, "")
	p.loops++
	body, end := p.body(tag, "endfor", "else")
	p.loops--
	otherwise := p.otherwise(tag, end, "endfor")
	return func(r *run, s *scope) jump {
		of := r.eval(over, s)
		r.line = tag.line
		r.deeper()
		defer r.shallower()
		items := r.items(of)
		if filter != nil {
			items = r.filtered(items, target, filter, s)
		}
		for i, one := range items {
			inner := s.inner()
			r.step(1)
			inner.set("loop", &loop{items, i})
			target.assign(r, inner, one)
			if r.block(body, inner) == breakLoop {
				break
			}
		}
		if len(items) == 0 {
			return r.block(otherwise, s.inner())
		}
		return onward
	}
}

// otherwise reads what follows a body that ended at else or at the end.
func (p *parser) otherwise(tag token, ended, end string) []statement {
	if ended == "else" {
		return p.block(tag, end)
	}
	p.expect(tokenEnd, "")
	return nil
}

// target is names with commas between them, and attributes of namespaces.
func (p *parser) target() target {
	to := target{line: p.peek().line}
	for {
		t := p.expect(tokenName, "")
		if _, literal := literals[t.text]; literal {
			p.fail(t.line, "found %q, wanted a name", t.text)
		}
		one := destination{name: t.text}
		if p.operator(".") {
			one.attribute = p.expect(tokenName, "").text
		}
		if to.all = append(to.all, one); !p.operator(",") {
			return to
		}
	}
}

func (p *parser) assignment(tag token) statement {
	to := p.target()
	if p.operator("=") {
		e := p.tuple(true)
		p.expect(tokenEnd, "")
		return does(func(r *run, s *scope) {
			value := r.eval(e, s)
			r.line = tag.line
			r.made(32)
			to.assign(r, s, value)
		})
	}
	body := p.separate(tag, "endset")
	return does(func(r *run, s *scope) {
		value := r.captured(func() { r.block(body, s.inner()) })
		r.line = tag.line
		to.assign(r, s, value)
	})
}

// separate reads a block in which break and continue have no loop.
func (p *parser) separate(tag token, end string) []statement {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return p.block(tag, end)
}

func (p *parser) parameters() (names []string, defaults []expression) {
	p.expect(tokenOperator, "(")
	p.commas(")", func() {
		name := p.expect(tokenName, "")
		names = append(names, name.text)
		if p.operator("=") {
			defaults = append(defaults, p.expression(true))
		} else if len(defaults) > 0 {
			p.fail(name.line, "parameter %q has no default, wanted one as the parameter before it has one", name.text)
		}
	})
	return names, defaults
}

func (p *parser) macro(tag token) statement {
	m := &macroStatement{name: p.expect(tokenName, "").text}
	m.names, m.defaults = p.parameters()
	m.body = p.separate(tag, "endmacro")
	return does(func(r *run, s *scope) {
		r.made(64)
		s.set(m.name, &macro{m, s})
	})
}

func (p *parser) callBlock(tag token) statement {
	m := &macroStatement{name: "caller"}
	if p.is(tokenOperator, "(") {
		m.names, m.defaults = p.parameters()
	}
	of, ok := p.expression(true).(*call)
	if !ok {
		p.fail(tag.line, "found no call after %q, wanted {%% call macro() %%}", "call")
	}
	m.body = p.separate(tag, "endcall")
	return does(func(r *run, s *scope) {
		with := *of
		with.caller = &macro{m, s}
		value := r.eval(&with, s)
		r.line = tag.line
		r.write(r.str(value))
	})
}

func (p *parser) filterBlock(tag token) statement {
	const written = "what is written" // is no name that a template can have
	value := p.filters(p.filter(variable(token{text: written, line: tag.line}), tag.line), p.at)
	body := p.separate(tag, "endfilter")
	return does(func(r *run, s *scope) {
		block := s.inner()
		block.set(written, r.captured(func() { r.block(body, s.inner()) }))
		made := r.eval(value, block)
		r.line = tag.line
		r.write(r.str(made))
	})
}
