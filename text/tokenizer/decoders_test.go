package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Only tokens of the form <0xE2> are bytes: others in angle brackets, with digits there or not, are text.
func TestByteTokens(t *testing.T) {
	for token, want := range map[string]byte{"<0x00>": 0, "<0x41>": 'A', "<0xE2>": 0xe2} {
		b, ok := byteToken(token)
		assert.True(t, ok, token)
		assert.Equal(t, want, b, token)
	}
	for _, token := range []string{"", "<0x4>", "<0x041>", "<0xG1>", "<0x+1>", "<head>", "<fade>", "[0x41]", "<0x41)", "(0x41>"} {
		_, ok := byteToken(token)
		assert.False(t, ok, token)
	}
}
