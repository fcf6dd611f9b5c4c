package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
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

// A disk that is full while ids are written is told once.
func TestAFullDiskIsToldOnce(t *testing.T) {
	full := errors.New("no space left")
	out := bufio.NewWriterSize(failing{full}, 16)
	w := idWriter{out: out}
	err := w.write(make([]int32, 100))
	require.ErrorIs(t, err, full)
	require.EqualError(t, flushed(out, err), full.Error())
	require.EqualError(t, flushed(out, nil), full.Error(), "what nobody has told yet")
	require.EqualError(t, flushed(out, io.ErrUnexpectedEOF), io.ErrUnexpectedEOF.Error()+"\n"+full.Error())
}

// failing is a writer that writes nothing.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
