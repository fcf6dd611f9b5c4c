package runfile

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"gputrain/model"
)

// TemplateOf writes a run file for a new model: what it is, its kind and its keys, and the tokenizer
// that it is for ("": bytes).
func TemplateOf(w io.Writer, kind string, k model.Keys, def model.Definition, tokenizer string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# A new %s of %s parameters.\n", kind, grouped(model.Parameters(def)))
	b.WriteString("# What is not here keeps its default: gputrain config template has every key.\n")
	fmt.Fprintf(&b, "model:\n  kind: %s\n", kind)
	keys := reflect.ValueOf(k)
	for _, f := range keysOf(keys.Type()) {
		if v := keys.FieldByIndex(f.Index); !v.IsZero() {
			text := inline(v.Interface())
			if v.CanFloat() { // 1000000.0 rather than 1e+06
				text = strconv.FormatFloat(v.Float(), 'f', 1, 64)
			}
			fmt.Fprintf(&b, "  %s: %s\n", keyOf(f), text)
		}
	}
	if tokenizer != "" {
		fmt.Fprintf(&b, "data:\n  tokenizer: %s\n", inline(tokenizer))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// grouped is a number with commas between thousands.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
