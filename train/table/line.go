package table

import (
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strconv"

	"gputrain/train/jsonline"
)

var errNoStep = errors.New(`found no "step", wanted one in every line`)

// stepOf is the step of a line, which must be a JSON object.
func stepOf(line []byte) (float64, error) {
	if !json.Valid(line) {
		return 0, json.Unmarshal(line, new(json.RawMessage)) // says what is wrong
	}
	for name, raw := range jsonline.Members(line) {
		if v, ok := number(raw); ok && string(name) == "step" {
			return v, nil
		}
	}
	return 0, errNoStep
}

// numbers are the numbers of a JSON object, in their order, also those written "NaN", "Infinity" and "-Infinity", with their names, which are valid
// until the next. Other texts, truth values, nulls and what is nested deeper than one array or object are left out.
func numbers(line []byte) iter.Seq2[[]byte, float64] {
	return func(yield func(name []byte, v float64) bool) {
		var inner []byte
		for name, raw := range jsonline.Members(line) {
			if v, ok := number(raw); ok && !yield(name, v) {
				return
			}
			n := 0
			for key, raw := range jsonline.Members(raw) {
				inner = append(append(inner[:0], name...), '.')
				if key == nil {
					inner = strconv.AppendInt(inner, int64(n), 10)
				}
				inner = append(inner, key...)
				n++
				if v, ok := number(raw); ok && !yield(inner, v) {
					return
				}
			}
		}
	}
}

func number(raw []byte) (float64, bool) {
	switch string(raw) {
	case `"NaN"`:
		return math.NaN(), true
	case `"Infinity"`:
		return math.Inf(1), true
	case `"-Infinity"`:
		return math.Inf(-1), true
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	return v, err == nil
}
