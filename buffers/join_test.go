package buffers_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

// kept is a tensor of bytes that a test can look at.
func kept(t buffers.Tensor, raw []byte) (buffers.Tensor, *[]byte) {
	held := slices.Clone(raw)
	t.Read = func(context.Context) ([]byte, error) { return slices.Clone(held), nil }
	t.Write = func(raw []byte) error {
		held = slices.Clone(raw)
		return nil
	}
	return t, &held
}

func halves(values ...uint16) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint16(raw, v)
	}
	return raw
}

// Rows of three places, smaller matrices among them, are the whole tensor; writing it gives each place its rows back.
func TestJoin(t *testing.T) {
	whole := []int{4, 2, 3}
	a, heldA := kept(buffers.Tensor{Name: "q", DType: buffers.BF16, Shape: []int{1, 2, 3}, Rows: []int{2}, Whole: whole}, halves(21, 22, 23, 24, 25, 26))
	b, heldB := kept(buffers.Tensor{Name: "q", DType: buffers.BF16, Shape: []int{2, 1, 2}, Rows: []int{3, 0}, Whole: whole}, halves(31, 32, 1, 2))
	c, heldC := kept(buffers.Tensor{Name: "q", DType: buffers.BF16, Shape: []int{1, 2, 2}, Rows: []int{1}, Whole: whole}, halves(11, 12, 14, 15))
	plain, _ := kept(buffers.Tensor{Name: "mu", DType: buffers.F32, Shape: []int{1}}, []byte{1, 2, 3, 4})
	l, heldL := kept(buffers.Tensor{Name: "rms", DType: buffers.I32, Shape: []int{1}, Rows: []int{1}, Whole: []int{2}}, []byte{5, 6, 7, 8})
	m, heldM := kept(buffers.Tensor{Name: "rms", DType: buffers.I32, Shape: []int{1}, Rows: []int{0}, Whole: []int{2}}, []byte{1, 2, 3, 4})

	got, err := buffers.Join([]buffers.Tensor{a, l, b, plain, m, c})
	require.NoError(t, err)
	require.Len(t, got, 3)
	assert.Equal(t, []string{"mu", "q", "rms"}, []string{got[0].Name, got[1].Name, got[2].Name})
	q := got[1]
	assert.Equal(t, buffers.BF16, q.DType)
	assert.Equal(t, whole, q.Shape)
	assert.Nil(t, q.Rows)
	raw, err := q.Read(t.Context())
	require.NoError(t, err)
	want := halves(
		1, 2, 0, 0, 0, 0,
		11, 12, 0, 14, 15, 0,
		21, 22, 23, 24, 25, 26,
		31, 32, 0, 0, 0, 0,
	)
	assert.Equal(t, want, raw)
	raw, err = got[2].Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7, 8}, raw)

	for i := range want {
		want[i] ^= 0x40
	}
	require.NoError(t, q.Write(want))
	const x = 0x4040
	assert.Equal(t, halves(21^x, 22^x, 23^x, 24^x, 25^x, 26^x), *heldA)
	assert.Equal(t, halves(31^x, 32^x, 1^x, 2^x), *heldB)
	assert.Equal(t, halves(11^x, 12^x, 14^x, 15^x), *heldC)
	require.NoError(t, got[2].Write([]byte{11, 12, 13, 14, 15, 16, 17, 18}))
	assert.Equal(t, []byte{15, 16, 17, 18}, *heldL)
	assert.Equal(t, []byte{11, 12, 13, 14}, *heldM)

	require.ErrorContains(t, q.Write(want[1:]), `tensor "q": 47 bytes, want 48 of bf16 [4 2 3]`)
	*heldB = (*heldB)[1:]
	_, err = q.Read(t.Context())
	require.ErrorContains(t, err, `tensor "q": 7 bytes, want 8 of bf16 [2 1 2]`)
}

func TestJoinRefusesWhatIsNotOneWhole(t *testing.T) {
	piece := func(shape, rows, whole []int) buffers.Tensor {
		return buffers.Tensor{Name: "q", DType: buffers.F32, Shape: shape, Rows: rows, Whole: whole}
	}
	other := piece([]int{1, 2}, []int{1}, []int{2, 2})
	other.DType = buffers.BF16
	half := piece([]int{1, 2}, []int{0}, []int{2, 2})
	for want, pieces := range map[string][]buffers.Tensor{
		"given more than once, not as rows":          {half, piece([]int{2, 2}, nil, nil)},
		"rows of f32 [2 2] and of bf16 [2 2]":        {half, other},
		"rows of f32 [2 2] and of f32 [2 3]":         {half, piece([]int{1, 2}, []int{1}, []int{2, 3})},
		"shape [1 2] and 2 rows of [2 2]":            {piece([]int{1, 2}, []int{0, 1}, []int{2, 2})},
		"shape [1] and 1 rows of [2 2]":              {piece([]int{1}, []int{0}, []int{2, 2})},
		"shape [1 3] does not fit the rows of [2 2]": {piece([]int{1, 3}, []int{0}, []int{2, 2})},
		"row 2 of 2":           {half, piece([]int{1, 2}, []int{2}, []int{2, 2})},
		"row -2 of 2":          {half, piece([]int{1, 2}, []int{-2}, []int{2, 2})},
		"row 0 is given twice": {half, half},
		`buffers: join: tensor "q": row 1 of 2 is missing`: {half},
		`buffers: join: tensor "q": given more than once`:  {piece([]int{2, 2}, nil, nil), piece([]int{2, 2}, nil, nil)},
	} {
		_, err := buffers.Join(pieces)
		assert.ErrorContains(t, err, want)
	}
}

// An error of one place is the error of the whole.
func TestJoinPassesErrorsOn(t *testing.T) {
	lost := errors.New("lost")
	a, _ := kept(buffers.Tensor{Name: "q", DType: buffers.F32, Shape: []int{1}, Rows: []int{0}, Whole: []int{2}}, make([]byte, 4))
	b := a
	b.Rows = []int{1}
	b.Read = func(context.Context) ([]byte, error) { return nil, lost }
	b.Write = func([]byte) error { return lost }
	got, err := buffers.Join([]buffers.Tensor{a, b})
	require.NoError(t, err)
	_, err = got[0].Read(t.Context())
	require.ErrorIs(t, err, lost)
	require.ErrorIs(t, got[0].Write(make([]byte, 8)), lost)
}
