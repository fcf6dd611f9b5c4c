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
	var items []expression
	several := false
	for !p.tupleEnds(ends) {
		items = append(items, p.expression(choice))
		if !p.operator(",") {
			break
		}
		several = true
	}
	switch {
	case several:
		return tupleOf(items)
	case len(items) == 0:
		p.fail(t.line, "found %s, wanted an expression", p.peek())
	}
	return items[0]
}

func (p *parser) tupleEnds(ends []string) bool {
	t := p.peek()
	return t.kind == tokenClose || t.kind == tokenEnd || p.is(tokenOperator, ")") || t.kind == tokenName && slices.Contains(ends, t.text)
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
		left = binary(t.line, op, left, operand())
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
	line, first := p.peek().line, p.sum()
	ordered := oneOf("==", "!=", "<", "<=", ">", ">=")
	var operators []string
	var operands []expression
	for {
		op := ordered(p.peek())
		switch {
		case op != "":
			p.at++
		case p.word("in"):
			op = "in"
		case named(p.peek(), "not") != "" && named(p.tokens[p.at+1], "in") != "":
			p.at += 2
			op = "not in"
		case len(operators) == 0:
			return first
		default:
			return closure(func(r *run, s *scope) any {
				left := r.eval(first, s)
				for i, op := range operators {
					right := r.eval(operands[i], s)
					r.line = line
					if !r.holds(op, left, right) {
						return false
					}
					left = right
				}
				return true
			})
		}
		operators, operands = append(operators, op), append(operands, p.sum())
	}
}

func (p *parser) sum() expression { return p.chain(p.concatenation, oneOf("+", "-")) }

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

func (p *parser) product() expression { return p.chain(p.power, oneOf("*", "/", "//", "%")) }

func (p *parser) power() expression {
	return p.chain(func() expression { return p.unary(true) }, oneOf("**"))
}

func (p *parser) unary(filters bool) expression {
	defer p.deeper()()
	t, begin := p.peek(), p.at
	var e expression
	switch {
	case p.operator("-"), p.operator("+"):
		e = signed(t, p.unary(false))
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e, begin)
	}
	return e
}

var literals = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

func (p *parser) primary() expression {
	t := p.next()
	switch t.kind {
	case tokenName:
		if value, ok := literals[t.text]; ok {
			return constant(value)
		}
		if p.names != nil {
			p.names[t.text] = true
		}
		return variable(t)
	case tokenString:
		for p.peek().kind == tokenString {
			t.text += p.next().text
		}
		return constant(t.text)
	case tokenInteger:
		n, ok := parseInt(t.text, 0)
		if !ok {
			p.fail(t.line, "found the number %.40s, wanted a shorter one", t.text)
		}
		return constant(n)
	case tokenFloat:
		f, ok := parseFloat(t.text)
		if !ok {
			p.fail(t.line, "found the number %.40s, wanted one that a float can be", t.text)
		}
		return constant(f)
	case tokenOperator:
		switch t.text {
		case "(":
			if p.operator(")") {
				return tupleOf(nil)
			}
			e := p.tuple()
			p.expect(tokenOperator, ")")
			return e
		case "[":
			var items []expression
			p.commas("]", func() { items = append(items, p.expression(true)) })
			return closure(func(r *run, s *scope) any { return r.listed(items, s) })
		case "{":
			return p.object(t.line)
		}
	}
	p.fail(t.line, "found %s, wanted an expression", t)
	return nil
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
				n, err := strconv.ParseInt(name.text, 10, 64)
				if err != nil {
					p.fail(name.line, "found %.40q after a dot, wanted a smaller number", name.text)
				}
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
func (p *parser) subscript(at int, e expression) expression {
	line := p.peek().line
	var first, second, third expression
	if !p.is(tokenOperator, ":") {
		first = p.expression(true)
		if !p.is(tokenOperator, ":") {
			return closure(func(r *run, s *scope) any {
				of, place := r.eval(e, s), r.eval(first, s)
				r.line = at
				return r.item(of, place)
			})
		}
	}
	p.expect(tokenOperator, ":")
	if !p.is(tokenOperator, ":") && !p.is(tokenOperator, "]") {
		second = p.expression(true)
	}
	if p.operator(":") && !p.is(tokenOperator, "]") {
		third = p.expression(true)
	}
	return closure(func(r *run, s *scope) any {
		of := r.eval(e, s)
		bounds := [3]*int{r.bound(first, s, line), r.bound(second, s, line), r.bound(third, s, line)}
		r.line = at
		return r.slice(of, bounds)
	})
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

// filters is filters, tests and calls after an expression, whose first token is given.
func (p *parser) filters(e expression, begin int) expression {
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
			subject := spelled(p.tokens[begin:p.at])
			p.at++
			p.chained()
			e = p.test(e, t.line, subject)
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
	name := p.dotted()
	known, ok := filters[name]
	if !ok {
		p.unknown(line, "filter", name, slices.Sorted(maps.Keys(filters)))
	}
	var g given
	if p.is(tokenOperator, "(") {
		g = p.given()
	}
	return known.of(name, line, e, g)
}

func (p *parser) test(e expression, line int, subject string) expression {
	negated := p.word("not")
	t := p.peek()
	name := p.dotted()
	known, ok := tests[name]
	if !ok {
		p.unknown(t.line, "test", name, slices.Sorted(maps.Keys(tests)))
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
	test := known.of(name, line, p.asked(e, name, subject), g)
	holds := closure(func(r *run, s *scope) any { return truth(test(r, s)) })
	if negated {
		return not(holds)
	}
	return holds
}

func (p *parser) unknown(line int, what, name string, known []string) {
	p.fail(line, "found the %s %q, wanted one that is known%s", what, name, suggest.DidYouMean(name, known))
}
