package texts

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// counted is a file that counts its reads.
type counted struct {
	io.ReaderAt
	n int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	c.n++
	return c.ReaderAt.ReadAt(p, at)
}

// counting returns n tokens of two bytes whose values are their positions, and their file.
func counting(n int) (*data.Tokens, *counted) {
	raw := make([]byte, 2*n)
	for i := range n {
		raw[2*i], raw[2*i+1] = byte(i), byte(i>>8)
	}
	file := &counted{ReaderAt: strings.NewReader(string(raw))}
	return data.NewTokens(1<<16, []data.Stretch{{Name: "counting", Bytes: file, Width: 2, Count: int64(n)}}), file
}

// countedSources are a text, documents and a mixture of both, and how many reads of files they have cost.
func countedSources(t *testing.T) (text *data.Tokens, documents *Documents, mixture *data.Mixture, reads func() int) {
	t.Helper()
	text, file := counting(50001)
	documents = numbered(data.Layout{Packing: data.PackNone}, 5, 5, 5, 5, 5)
	stored := &counted{ReaderAt: documents.tokens.store.bytes}
	documents.tokens.store.bytes = stored
	mixture, err := data.NewMixture([]data.Source{text, documents}, []float64{1, 1}, "restart")
	require.NoError(t, err)
	return text, documents, mixture, func() int { return file.n + stored.n }
}

// count returns them without their file.
func count(n int) *data.Tokens {
	tokens, _ := counting(n)
	return tokens
}

func batches(t *testing.T, source data.Source, c data.LoaderConfig, n int) []data.Batch {
	t.Helper()
	l, err := data.NewLoader(source, c)
	require.NoError(t, err)
	defer l.Close()
	var out []data.Batch
	for range n {
		b, err := l.Next(t.Context())
		require.NoError(t, err)
		out = append(out, b)
	}
	return out
}
