package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No character of a stranger's tells a terminal what to do, and what people read stays as it is.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "one\n\ttwo": "one\n\ttwo", "Gewicht.ä 重み\u3000👍": "Gewicht.ä 重み\u3000👍", `a "\x1b" b`: `a "\x1b" b`,
		"\x1b[31mk": `\x1b[31mk`, "\x1b]0;PWN\a": `\x1b]0;PWN\a`, "a\rb\x00\x7f": `a\rb\x00\x7f`, "\u009b31m": `\u009b31m`,
		"\u202eevil\u2066\u200f": `\u202eevil\u2066\u200f`, "a\xffb\xc3": `a\xffb\xc3`, "\ufeff\u2028": `\ufeff\u2028`, "\ufffd": "\ufffd",
	} {
		assert.Equal(t, want, Text(text))
		var out bytes.Buffer
		_, err := fmt.Fprintf(Writer{&out}, "%s\n", text)
		require.NoError(t, err)
		assert.Equal(t, want+"\n", out.String())
	}
}

// What a model has made shows where something was hidden, and is cut nowhere.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\tä 重み👍": "a\n\tä 重み👍", "\x1b[31m\r\u009b": "\ufffd[31m\ufffd\ufffd", "\u202eevil\u2066\u200f\ufeff": "\ufffdevil\ufffd\ufffd\ufffd",
		"👩\u200d🔬 می\u200cخواهم e\u0301 ❤\ufe0f": "👩\u200d🔬 می\u200cخواهم e\u0301 ❤\ufe0f", "\U000e0041": "\ufffd",
	} {
		assert.Equal(t, want, strings.Map(Shown, text))
	}
}

// A text of any length becomes one of at most Most bytes, with its begin and its end.
func TestTextIsBounded(t *testing.T) {
	for _, middle := range []string{"x", "\x1b", "\xff", "ä", "\x80", "👍", "\n"} {
		got := Text("what failed: " + strings.Repeat(middle, 3_400_000) + ": why")
		assert.LessOrEqual(t, len(got), Most)
		assert.Greater(t, len(got), Most/2)
		assert.True(t, utf8.ValidString(got))
		assert.Regexp(t, `(?s)^what failed: .* bytes are left out\] .*: why$`, got)
		assert.NotContains(t, got, "\x1b")
	}
	exact := strings.Repeat("x", Most)
	assert.Equal(t, exact, Text(exact))
	assert.Less(t, len(Text(exact+"x")), Most)
}

// A name in a file is a stranger's: it must not move the cursor or begin another line.
func TestNamesTellATerminalNothing(t *testing.T) {
	for name, want := range map[string]string{
		"h.0.attn.weight": "h.0.attn.weight", "Gewicht.ä": "Gewicht.ä",
		"\x1b[2Jw": `"\x1b[2Jw"`, "a\tb\nc": `"a\tb\nc"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`,
	} {
		assert.Equal(t, want, Name(name))
	}
}
