package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A model that makes escape sequences does not move the terminal.
func TestTerminalsAreToldNothing(t *testing.T) {
	var out bytes.Buffer
	s := shown{to: &out}
	for _, b := range []byte("a\x1b]0;title\x07\tb\n\x7f\u009b31m é \u202ex \u2066 \xff\xc3") {
		_, err := s.Write([]byte{b})
		require.NoError(t, err)
	}
	_, err := s.Write([]byte("\n"))
	require.NoError(t, err)
	assert.Equal(t, "a\ufffd]0;title\ufffd\tb\n\ufffd\ufffd31m é \ufffdx \ufffd \ufffd\ufffd\n", out.String())
}
