package template

import (
	"maps"
	"slices"
	"strconv"

	"gputrain/internal/suggest"
)

// tuple is an expression, or several with commas between them.
func (p *parser) tuple() expression { return p.without(true) }

// without is tuple; where a condition after `if` is not part of it, choice is false. It ends before an operator or name that cannot go on with it.
func (p *parser) without(choice bool, ends ...string) expression {
	t := p.peek()
	list := &listing{line: t.line, tuple: true}
	several := false
	for !p.tupleEnds(ends) {
		list.items = append(list.items, p.expression(choice))
		if !p.operator(",") {
			break
		}
		several = true
	}
	switch {
	case several:
		return list
	case len(list.items) == 0:
		p.fail(t.line, "found %s, wanted an expression", p.peek())
	}
	return list.items[0]
}

func (p *parser) tupleEnds(ends []string) bool {
	t := p.peek()
	return t.kind == tokenClose || t.kind == tokenEnd || p.is(tokenOperator, ")") || t.kind == tokenName && slices.Contains(ends, t.text)
}

// expression is one, with `a if b else c` if choice is true.
func (p *parser) expression(choice bool) expression {
	defer p.deeper()()
	e := p.or()
	for choice {
		line := p.peek().line
		if !p.word("if") {
			break
		}
		c := &ternary{line: line, then: e, test: p.or()}
		if p.word("else") {
			c.otherwise = p.expression(true)
		}
		e = c
	}
	return e
}

func (p *parser) or() expression {
	return p.chain(p.and, func(t token) string { return named(t, "or") })
}

func (p *parser) and() expression {
	return p.chain(p.not, func(t token) string { return named(t, "and") })
}

func named(t token, name string) string {
	if t.kind == tokenName && t.text == name {
		return name
	}
	return ""
}

func oneOf(all ...string) func(token) string {
	return func(t token) string {
		if t.kind == tokenOperator && slices.Contains(all, t.text) {
			return t.text
		}
		return ""
	}
}

// chain is operands with operators of one rank between them, the leftmost first.
func (p *parser) chain(operand func() expression, operator func(token) string) expression {
	left := operand()
	for {
		t := p.peek()
		op := operator(t)
		if op == "" {
			return left
		}
		p.at++
		p.chained()
		left = &binary{t.line, op, left, operand()}
	}
}

// chained counts what makes the tree of a tag higher without any parentheses.
func (p *parser) chained() {
	if p.links++; p.links > mostOperators {
		p.fail(p.peek().line, "more than %d operators in one tag, wanted at most so many (limit: operators)", mostOperators)
	}
}

func (p *parser) not() expression {
	if t := p.peek(); p.word("not") {
		defer p.deeper()()
		return &not{t.line, p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expression {
	c := &comparison{line: p.peek().line, first: p.sum()}
	ordered := oneOf("==", "!=", "<", "<=", ">", ">=")
	for {
		t := p.peek()
		op := ordered(t)
		switch {
		case op != "":
			p.at++
		case p.word("in"):
			op = "in"
		case named(t, "not") != "" && named(p.tokens[p.at+1], "in") != "":
			p.at += 2
			op = "not in"
		default:
			if len(c.operators) == 0 {
				return c.first
			}
			return c
		}
		c.operators, c.operands = append(c.operators, op), append(c.operands, p.sum())
	}
}

func (p *parser) sum() expression { return p.chain(p.concatenation, oneOf("+", "-")) }

func (p *parser) concatenation() expression {
	c := &concatenation{[]expression{p.product()}}
	for p.operator("~") {
		c.parts = append(c.parts, p.product())
	}
	if len(c.parts) == 1 {
		return c.parts[0]
	}
	return c
}

func (p *parser) product() expression { return p.chain(p.power, oneOf("*", "/", "//", "%")) }

func (p *parser) power() expression {
	return p.chain(func() expression { return p.unary(true) }, oneOf("**"))
}

func (p *parser) unary(filters bool) expression {
	defer p.deeper()()
	t := p.peek()
	var e expression
	switch {
	case p.operator("-"):
		e = &sign{t.line, "-", p.unary(false)}
	case p.operator("+"):
		e = &sign{t.line, "+", p.unary(false)}
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e)
	}
	return e
}

var literals = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

func (p *parser) primary() expression {
	t := p.next()
	switch t.kind {
	case tokenName:
		if value, ok := literals[t.text]; ok {
			return &constant{value}
		}
		if p.names != nil {
			p.names[t.text] = true
		}
		return &variable{t.line, t.text}
	case tokenString:
		for p.peek().kind == tokenString {
			t.text += p.next().text
		}
		return &constant{t.text}
	case tokenInteger:
		n, ok := parseInt(t.text, 0)
		if !ok {
			p.fail(t.line, "found the number %.40s, wanted a shorter one", t.text)
		}
		return &constant{n}
	case tokenFloat:
		f, ok := parseFloat(t.text)
		if !ok {
			p.fail(t.line, "found the number %.40s, wanted one that a float can be", t.text)
		}
		return &constant{f}
	case tokenOperator:
		switch t.text {
		case "(":
			if p.operator(")") {
				return &listing{line: t.line, tuple: true}
			}
			e := p.tuple()
			p.expect(tokenOperator, ")")
			return e
		case "[":
			list := &listing{line: t.line}
			p.commas("]", func() { list.items = append(list.items, p.expression(true)) })
			return list
		case "{":
			o := &objectLiteral{line: t.line}
			p.commas("}", func() {
				o.keys = append(o.keys, p.expression(true))
				p.expect(tokenOperator, ":")
				o.values = append(o.values, p.expression(true))
			})
			return o
		}
	}
	p.fail(t.line, "found %s, wanted an expression", t)
	return nil
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
				e = &attribute{t.line, e, name.text}
			case tokenInteger:
				n, err := strconv.ParseInt(name.text, 10, 64)
				if err != nil {
					p.fail(name.line, "found %.40q after a dot, wanted a smaller number", name.text)
				}
				e = &item{t.line, e, &constant{n}}
			default:
				p.fail(name.line, "found %s after a dot, wanted a name or number", name)
			}
		case p.operator("["):
			p.chained()
			e = &item{t.line, e, p.subscript()}
			p.expect(tokenOperator, "]")
		case p.is(tokenOperator, "("):
			p.chained()
			e = &call{line: t.line, function: e, given: p.given()}
		default:
			return e
		}
	}
}

// subscript is an index or a slice.
func (p *parser) subscript() expression {
	line := p.peek().line
	var first, second, third expression
	if !p.is(tokenOperator, ":") {
		first = p.expression(true)
		if !p.is(tokenOperator, ":") {
			return first
		}
	}
	p.expect(tokenOperator, ":")
	if !p.is(tokenOperator, ":") && !p.is(tokenOperator, "]") {
		second = p.expression(true)
	}
	if p.operator(":") && !p.is(tokenOperator, "]") {
		third = p.expression(true)
	}
	return &slicing{line, first, second, third}
}

// given is what stands in the parentheses of a call.
func (p *parser) given() (g given) {
	p.expect(tokenOperator, "(")
	p.commas(")", func() {
		t := p.peek()
		switch {
		case p.operator("**"):
			g.more = append(g.more, p.expression(true))
		case len(g.more) > 0:
			p.fail(t.line, "found %s, wanted nothing after **", t)
		case p.operator("*"):
			g.rest = append(g.rest, p.expression(true))
		case t.kind == tokenName && p.tokens[p.at+1] == (token{tokenOperator, "=", p.tokens[p.at+1].line}):
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

// filters is filters, tests and calls after an expression.
func (p *parser) filters(e expression) expression {
	for {
		t := p.peek()
		switch {
		case p.operator("|"):
			p.chained()
			e = p.filter(e, t.line)
		case p.is(tokenName, "is"):
			if _, block := e.(held); block {
				return e
			}
			p.at++
			p.chained()
			e = p.test(e, t.line)
		case p.is(tokenOperator, "("):
			p.chained()
			e = &call{line: t.line, function: e, given: p.given()}
		default:
			return e
		}
	}
}

func (p *parser) dotted() string {
	name := p.expect(tokenName, "").text
	for p.operator(".") {
		name += "." + p.expect(tokenName, "").text
	}
	return name
}

func (p *parser) filter(e expression, line int) expression {
	f := &filtered{line: line, of: e, name: p.dotted()}
	known, ok := filters[f.name]
	if !ok {
		p.unknown(line, "filter", f.name, slices.Sorted(maps.Keys(filters)))
	}
	f.filter = known
	if p.is(tokenOperator, "(") {
		f.given = p.given()
	}
	return f
}

func (p *parser) test(e expression, line int) expression {
	negated := p.word("not")
	t := p.peek()
	test := &tested{line: line, of: e, name: p.dotted()}
	known, ok := tests[test.name]
	if !ok {
		p.unknown(t.line, "test", test.name, slices.Sorted(maps.Keys(tests)))
	}
	test.test = known
	switch t := p.peek(); {
	case p.is(tokenOperator, "("):
		test.given = p.given()
	case t.kind == tokenName && slices.Contains([]string{"else", "or", "and"}, t.text):
	case t.kind == tokenName && t.text == "is":
		p.fail(t.line, `found a second "is", wanted one test and "and"`)
	case slices.Contains([]string{tokenName, tokenString, tokenInteger, tokenFloat}, t.kind), p.is(tokenOperator, "["), p.is(tokenOperator, "{"):
		test.given = given{list: []expression{p.postfix(p.primary())}}
	}
	if negated {
		return &not{line, test}
	}
	return test
}

func (p *parser) unknown(line int, what, name string, known []string) {
	p.fail(line, "found the %s %q, wanted one that is known%s", what, name, suggest.DidYouMean(name, known))
}
