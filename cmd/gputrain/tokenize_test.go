package main

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIDsAsTrainingReadsThem(t *testing.T) {
	written := func(as string, ids ...int32) ([]byte, error) {
		var out bytes.Buffer
		w := idWriter{out: bufio.NewWriter(&out), as: as}
		err := w.write(ids)
		require.NoError(t, w.end())
		require.NoError(t, w.out.Flush())
		return out.Bytes(), err
	}
	got, err := written("u16", 1, 0x1234, 65535)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0x34, 0x12, 255, 255}, got)
	got, err = written("u32", 1, 65536)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0, 0, 0, 0, 1, 0}, got)
	_, err = written("u16", 3, 65536)
	require.EqualError(t, err, "tokenize: id 65536: found one beyond u16, wanted at most 65535: use --as u32")
	assert.Equal(t, 2, exitCode(err))
}
