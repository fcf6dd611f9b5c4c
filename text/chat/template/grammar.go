package template

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// tuple is an expression, or several with commas between them. Where a condition after `if` is not part of it, choice
// is false.
func (p *parser) tuple(choice bool) expression {
	first := p.expression(choice)
	if !p.is(tokenOperator, ",") {
		return first
	}
	items := []expression{first}
	for p.operator(",") && !p.is(tokenOperator, ")") && p.peek().kind != tokenClose && p.peek().kind != tokenEnd {
		items = append(items, p.expression(choice))
	}
	return tupleOf(items)
}

func tupleOf(items []expression) expression {
	return closure(func(r *run, s *scope) any { return tuple(r.all(items, s)) })
}

// expression is one, with `a if b else c` if choice is true.
func (p *parser) expression(choice bool) expression {
	defer p.deeper()()
	e := p.or()
	for choice && p.word("if") {
		then, test, otherwise := e, p.or(), expression(nil)
		if p.word("else") {
			otherwise = p.expression(true)
		}
		e = closure(func(r *run, s *scope) any {
			switch {
			case truth(r.eval(test, s)):
				return r.eval(then, s)
			case otherwise != nil:
				return r.eval(otherwise, s)
			}
			return undefined{"the inline if-expression evaluated to false and no else section was defined"}
		})
	}
	return e
}

func (p *parser) or() expression  { return p.chain(p.and, tokenName, "or") }
func (p *parser) and() expression { return p.chain(p.not, tokenName, "and") }
func (p *parser) sum() expression { return p.chain(p.concatenation, tokenOperator, "+", "-") }
func (p *parser) product() expression {
	return p.chain(p.unary, tokenOperator, "*", "/", "//", "%")
}

// chain is operands with operators of one rank between them, the leftmost first.
func (p *parser) chain(operand func() expression, kind string, operators ...string) expression {
	left := operand()
	for {
		t := p.peek()
		if t.kind != kind || !slices.Contains(operators, t.text) {
			return left
		}
		p.at++
		p.chained()
		left = binary(t.line, t.text, left, operand())
	}
}

// chained counts what makes the tree of a tag higher without any parentheses.
func (p *parser) chained() {
	if p.links++; p.links > mostOperators {
		p.fail(p.peek().line, "more than %d operators in one tag, wanted at most so many (limit: operators)", mostOperators)
	}
}

func (p *parser) not() expression {
	if p.word("not") {
		defer p.deeper()()
		return not(p.not())
	}
	return p.comparison()
}

func (p *parser) comparison() expression {
	line, left := p.peek().line, p.sum()
	op := p.compares()
	if op == "" {
		return left
	}
	right := p.sum()
	return closure(func(r *run, s *scope) any {
		a, b := r.eval(left, s), r.eval(right, s)
		r.line = line
		return r.holds(op, a, b)
	})
}

// compares reads an operator that compares, if there is one.
func (p *parser) compares() string {
	t := p.peek()
	switch {
	case t.kind == tokenOperator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
		p.at++
		return t.text
	case p.word("in"):
		return "in"
	case p.is(tokenName, "not") && p.tokens[p.at+1].kind == tokenName && p.tokens[p.at+1].text == "in":
		p.at += 2
		return "not in"
	}
	return ""
}

func (p *parser) concatenation() expression {
	all := []expression{p.product()}
	for p.operator("~") {
		all = append(all, p.product())
	}
	if len(all) == 1 {
		return all[0]
	}
	return closure(func(r *run, s *scope) any {
		parts := make([]string, len(all))
		for i, e := range all {
			parts[i] = r.str(r.eval(e, s))
		}
		return r.join(parts, "")
	})
}

func (p *parser) unary() expression {
	begin := p.at
	return p.filters(p.signed(), begin)
}

func (p *parser) signed() expression {
	defer p.deeper()()
	if line := p.peek().line; p.operator("-") {
		return negative(line, p.signed())
	}
	return p.postfix(p.primary())
}

var literals = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

func (p *parser) primary() expression {
	t := p.next()
	switch t.kind {
	case tokenName:
		if value, ok := literals[t.text]; ok {
			return constant(value)
		}
		return variable(t)
	case tokenString:
		for p.peek().kind == tokenString {
			t.text += p.next().text
		}
		return constant(t.text)
	case tokenInteger:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			p.fail(t.line, "found the number %.40s, wanted an integer of 64 bits", t.text)
		}
		return constant(n)
	case tokenFloat:
		f, _ := parseFloat(t.text)
		return constant(f)
	}
	if t.kind != tokenOperator || !strings.Contains("([{", t.text) {
		p.fail(t.line, "found %s, wanted an expression", t)
	}
	switch t.text {
	case "[":
		var items []expression
		p.commas("]", func() { items = append(items, p.expression(true)) })
		return closure(func(r *run, s *scope) any { return r.all(items, s) })
	case "{":
		return p.object(t.line)
	}
	if p.operator(")") {
		return tupleOf(nil)
	}
	e := p.tuple(true)
	p.expect(tokenOperator, ")")
	return e
}

func (p *parser) object(line int) expression {
	var keys, values []expression
	p.commas("}", func() {
		keys = append(keys, p.expression(true))
		p.expect(tokenOperator, ":")
		values = append(values, p.expression(true))
	})
	return closure(func(r *run, s *scope) any {
		made := &Object{}
		for i := range keys {
			key, value := r.eval(keys[i], s), r.eval(values[i], s)
			r.line = line
			r.setItem(made, key, value)
		}
		return made
	})
}

// commas reads parts with commas between them, up to what closes them.
func (p *parser) commas(closer string, part func()) {
	for first := true; !p.operator(closer); first = false {
		if !first {
			p.expect(tokenOperator, ",")
			if p.operator(closer) {
				return
			}
		}
		part()
	}
}

// postfix is attributes, elements and calls.
func (p *parser) postfix(e expression) expression {
	for {
		t := p.peek()
		switch {
		case p.operator("."):
			p.chained()
			name := p.next()
			switch name.kind {
			case tokenName:
				method := p.is(tokenOperator, "(")
				e = after(t.line, e, func(r *run, of any) any { return r.attribute(of, name.text, method) })
			case tokenInteger:
				n, _ := strconv.ParseInt(name.text, 10, 64)
				e = after(t.line, e, func(r *run, of any) any { return r.item(of, n) })
			default:
				p.fail(name.line, "found %s after a dot, wanted a name or number", name)
			}
		case p.operator("["):
			p.chained()
			e = p.subscript(t.line, e)
			p.expect(tokenOperator, "]")
		case p.is(tokenOperator, "("):
			p.chained()
			e = &call{line: t.line, function: e, given: p.given()}
		default:
			return e
		}
	}
}

// subscript is the index or slice of an expression.
func (p *parser) subscript(line int, e expression) expression {
	var parts [3]expression
	part := func(i int) {
		if !p.is(tokenOperator, ":") && !p.is(tokenOperator, "]") {
			parts[i] = p.expression(true)
		}
	}
	part(0)
	if !p.operator(":") {
		if parts[0] == nil {
			p.fail(line, `found %s, wanted an expression`, p.peek())
		}
		return closure(func(r *run, s *scope) any {
			of, place := r.eval(e, s), r.eval(parts[0], s)
			r.line = line
			return r.item(of, place)
		})
	}
	if part(1); p.operator(":") {
		part(2)
	}
	return closure(func(r *run, s *scope) any {
		of := r.eval(e, s)
		r.line = line
		var bounds [3]*int64
		for i, e := range parts {
			bounds[i] = r.bound(e, s)
		}
		return r.slice(of, bounds)
	})
}

// given is what stands in the parentheses of a call.
func (p *parser) given() (g given) {
	p.expect(tokenOperator, "(")
	p.commas(")", func() {
		t := p.peek()
		switch after := p.tokens[min(p.at+1, len(p.tokens)-1)]; {
		case p.operator("*"):
			g.rest = append(g.rest, p.expression(true))
		case t.kind == tokenName && after.kind == tokenOperator && after.text == "=":
			p.at += 2
			g.names, g.named = append(g.names, t.text), append(g.named, p.expression(true))
		case len(g.names) > 0 || len(g.rest) > 0:
			p.fail(t.line, "found %s, wanted name=value, as the argument before it has a name", t)
		default:
			g.list = append(g.list, p.expression(true))
		}
	})
	return g
}

// filters is filters and tests after an expression, whose first token is given.
func (p *parser) filters(e expression, begin int) expression {
	for {
		line, subject := p.peek().line, p.tokens[begin:p.at]
		switch {
		case p.operator("|"):
			e = p.filter(e, line)
		case p.word("is"):
			p.chained()
			e = p.test(e, line, spelled(subject))
		default:
			return e
		}
	}
}

func (p *parser) filter(e expression, line int) expression {
	p.chained()
	name := p.expect(tokenName, "").text
	known, ok := filters[name]
	if !ok {
		p.fail(line, "%s", unknown("filter", name, slices.Collect(maps.Keys(filters))))
	}
	var g given
	if p.is(tokenOperator, "(") {
		g = p.given()
	}
	return known.of(name, line, e, g)
}

func (p *parser) test(e expression, line int, subject string) expression {
	negated := p.word("not")
	name := p.expect(tokenName, "")
	known, ok := tests[name.text]
	if !ok {
		p.fail(name.line, "%s", unknown("test", name.text, slices.Collect(maps.Keys(tests))))
	}
	var g given
	switch t := p.peek(); {
	case p.is(tokenOperator, "("):
		g = p.given()
	case t.kind == tokenName && slices.Contains([]string{"else", "or", "and"}, t.text):
	case t.kind == tokenName && t.text == "is":
		p.fail(t.line, `found a second "is", wanted one test and "and"`)
	case slices.Contains([]string{tokenName, tokenString, tokenInteger, tokenFloat}, t.kind), p.is(tokenOperator, "["), p.is(tokenOperator, "{"):
		g = given{list: []expression{p.postfix(p.primary())}}
	}
	test := known.of(name.text, line, p.asked(e, name.text, subject), g)
	holds := closure(func(r *run, s *scope) any { return truth(test(r, s)) })
	if negated {
		return not(holds)
	}
	return holds
}
