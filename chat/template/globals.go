package template

// globals are functions that every template has.
var globals = map[string]*function{
	"range":           method("range", takes("first last? step=1", rangeOf)),
	"namespace":       {name: "namespace", call: newNamespace},
	"dict":            {name: "dict", call: func(r *run, a arguments) any { return r.dict(a) }},
	"cycler":          {name: "cycler", call: newCycler},
	"joiner":          method("joiner", takes("sep?", newJoiner)),
	"raise_exception": method("raise_exception", takes("message", raise)),
	"strftime_now":    method("strftime_now", takes("format", func(r *run, a values, _ arguments) any { return r.strftime(a.text(r, 0)) })),
}

func method(name string, b *builtin) *function {
	return &function{name: name, call: func(r *run, a arguments) any { return b.run(r, name, a) }}
}

func raise(r *run, a values, _ arguments) any {
	panic(stop{&RaisedError{r.template.name, r.line, r.str(a[0])}})
}

func rangeOf(r *run, a values, _ arguments) any {
	begin, end, step := 0, a.int(r, 0), a.int(r, 2)
	if !a.missing(1) {
		begin, end = end, a.int(r, 1)
	}
	n := 0
	switch {
	case step == 0:
		r.fail("range() arg 3 must not be zero")
	case step > 0 && end > begin:
		n = (end - begin + step - 1) / step
	case step < 0 && end < begin:
		n = (begin - end - step - 1) / -step
	}
	if n > longestRange {
		r.fail("range: found %d numbers, wanted at most %d (limit: range)", n, longestRange)
	}
	r.made(16 * n)
	all := make([]any, n)
	for i := range all {
		all[i] = int64(begin + i*step)
	}
	return all
}

// setItem puts a value under a key that a template made.
func (r *run) setItem(o *Object, key, value any) {
	hash := r.hashed(key)
	r.made(64 + len(hash))
	o.set(key, hash, value)
}

// dict makes an object of another, or of pairs, and of names.
func (r *run) dict(a arguments) *Object {
	o := &Object{}
	if len(a.list) > 1 {
		r.fail("dict expected at most 1 argument, got %d", len(a.list))
	}
	for _, one := range a.list {
		if from, ok := mapping(one); ok {
			for i, key := range from.keys {
				r.setItem(o, key, from.values[i])
			}
			continue
		}
		for _, pair := range r.items(r.defined(one)) {
			both := r.items(pair)
			if len(both) != 2 {
				r.fail("dict: found an element of %d values, wanted 2", len(both))
			}
			r.setItem(o, both[0], both[1])
		}
	}
	for i, key := range a.named.keys {
		r.setItem(o, key, a.named.values[i])
	}
	return o
}

func newNamespace(r *run, a arguments) any { return &namespace{*r.dict(a)} }

func newCycler(r *run, a arguments) any {
	if len(a.list) == 0 {
		r.fail("at least one item has to be provided")
	}
	at, held := 0, map[string]any{"current": a.list[0]}
	to := func(i int) {
		at = i % len(a.list)
		held["current"] = a.list[at]
	}
	held["next"] = &function{name: "next", call: func(*run, arguments) any {
		one := a.list[at]
		to(at + 1)
		return one
	}}
	held["reset"] = &function{name: "reset", call: func(*run, arguments) any {
		to(0)
		return nil
	}}
	return &function{name: "cycler", held: held, call: func(r *run, _ arguments) any {
		r.fail("'Cycler' object is not callable, wanted .next()")
		return nil
	}}
}

func newJoiner(_ *run, a values, _ arguments) any {
	used := false
	return &function{name: "joiner", call: func(*run, arguments) any {
		if !used {
			used = true
			return ""
		}
		if a.missing(0) {
			return ", "
		}
		return a[0]
	}}
}
