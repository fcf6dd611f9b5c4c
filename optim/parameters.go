package optim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/suggest"
)

// Parameters are an optimizer's own: a pointer to a plain struct. Tags of a field hold every fact about a parameter:
//
//	json     its name
//	doc      what it is, in a line
//	default  its value where none is given, as JSON without quotes; no tag is the zero value
//	eformer  the same in eformer numerics, where that is another
//	numerics the one of the two that reads it; no tag is both. With the other it has its default
//	range    of a number an interval, "[0,1)" or "(0,inf)"; of text the words that it may be, "f32|bf16". null fits every range
type Parameters interface {
	// Transform makes the optimizer without what Options.assemble adds, its rate included. The parameters are in their ranges.
	Transform(lr Schedule, o Options) (Transform, error)
}

// setDefaults gives the fields of a struct that are zero their defaults.
func setDefaults(p any, o Options) {
	v := reflect.ValueOf(p).Elem()
	for _, k := range keys(v.Type()) {
		field := v.FieldByIndex(k.index)
		text, given := k.tag.Lookup("default")
		if other, has := k.tag.Lookup("eformer"); has && o.Numerics == EFormer && o.Edition != First {
			text = other
		}
		if !given || !field.IsZero() {
			continue
		}
		if field.Kind() == reflect.String {
			text = strconv.Quote(text)
		}
		if err := json.Unmarshal([]byte(text), field.Addr().Interface()); err != nil {
			panic(fmt.Sprintf("optim: %s: %s: default %s: %v", v.Type(), k.key, text, err)) // of the source text
		}
	}
}

// checkRanges refuses the first field of a struct that is out of its range.
func checkRanges(p any) error {
	v := reflect.ValueOf(p).Elem()
	for _, k := range keys(v.Type()) {
		field := v.FieldByIndex(k.index)
		if field.Kind() == reflect.Pointer {
			field = field.Elem() // no value for null
		}
		within, given := k.tag.Lookup("range")
		if !given || !field.IsValid() {
			continue
		}
		var err error
		switch {
		case field.Kind() == reflect.String:
			err = oneOf(k.key, field.String(), strings.Split(within, "|"))
		case field.CanInt():
			err = inInterval(k.key, float64(field.Int()), within)
		default:
			err = inInterval(k.key, field.Float(), within)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRead refuses the first parameter that the numerics do not read and that is not its default. Where the rules let it have any value, it gets
// that.
func checkRead(p, defaults Parameters, o Options) error {
	v, usual := reflect.ValueOf(p).Elem(), reflect.ValueOf(defaults).Elem()
	for _, k := range keys(v.Type()) {
		reader, given := k.tag.Lookup("numerics")
		field, untouched := v.FieldByIndex(k.index), usual.FieldByIndex(k.index)
		switch {
		case !given || Numerics(reader) == cmp.Or(o.Numerics, Stable) || reflect.DeepEqual(field.Interface(), untouched.Interface()):
		case o.Edition == First:
			field.Set(untouched)
		default:
			return fmt.Errorf("%s: found %v, wanted %v: %s numerics do not read it", k.key, field, untouched, cmp.Or(o.Numerics, Stable))
		}
	}
	return nil
}

// oneOf refuses a word that is not listed; "" may be.
func oneOf(name, word string, words []string) error {
	if slices.Contains(words, word) {
		return nil
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return fmt.Errorf("%s: found %q, wanted %s%s", name, word, strings.Join(words, " or "), suggest.DidYouMean(word, words))
}

// inInterval refuses a number outside of an interval as mathematics writes it, and numbers that are not finite.
func inInterval(name string, x float64, interval string) error {
	last := len(interval) - 1
	low, high, _ := strings.Cut(interval[1:last], ",")
	from, err := strconv.ParseFloat(low, 64)
	to, err2 := strconv.ParseFloat(high, 64)
	if err != nil || err2 != nil {
		panic("optim: range: found " + interval) // of the source text
	}
	openLow, openHigh := interval[0] == '(', interval[last] == ')'
	if x > from && x < to || x == from && !openLow || x == to && !openHigh {
		return nil
	}
	var wanted string
	switch {
	case math.IsInf(from, -1):
		wanted = "at most " + high
	case math.IsInf(to, 1) && openLow:
		wanted = "more than " + low
	case math.IsInf(to, 1):
		wanted = low + " or more"
	case openLow:
		wanted = "more than " + low + ", at most " + high
	case openHigh:
		wanted = low + " to less than " + high
	default:
		wanted = low + " to " + high
	}
	return fmt.Errorf("%s: found %g, wanted %s", name, x, wanted)
}

// firstError is the first of errs that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
