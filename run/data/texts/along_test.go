package texts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// What lies along windows is of the right document and the right label of it, however documents are packed, cut and held out.
func TestAlong(t *testing.T) {
	const size = 8
	var rows strings.Builder
	labels := map[int64][]int32{} // all of each row, by token: 100 * row + place
	for row, n := range []int{3, 12, 1, 9, 20, 2, 5, 0, 7, 8, 4} {
		var ids, mask []string
		for i := range n {
			ids = append(ids, fmt.Sprint(100*row+i))
			mask = append(mask, map[bool]string{true: "1", false: "0"}[(row+i)%4 != 0])
		}
		fmt.Fprintf(&rows, "{\"ids\": [%s], \"mask\": [%s]}\n", strings.Join(ids, ", "), strings.Join(mask, ", "))
	}
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o666))
	for _, packing := range data.Packings {
		for _, long := range data.Longs {
			if packing == data.PackStream && long != data.LongSplit {
				continue
			}
			for _, held := range []float64{0, 0.4} {
				name := fmt.Sprintf("%s, %s, %v held out", packing, long, held)
				corpus, err := Open(t.Context(), Config{
					JSONL: []string{file}, Tokens: "u16", Vocab: 2000, Context: size, Validation: held, Cache: t.TempDir(),
					Fields: data.Fields{Text: "ids", Mask: "mask"}, Layout: data.Layout{Packing: packing, Long: long},
				})
				require.NoError(t, err, name)
				parts := []data.Source{corpus.Train}
				if held > 0 {
					parts = append(parts, corpus.Validation)
				}
				clear(labels)
				learned := 0
				for _, part := range parts {
					n, err := part.(*Documents).Lines(size, func(l Line) error {
						require.Len(t, l.Labels, len(l.Tokens))
						for _, label := range l.Labels {
							if label != data.Ignored {
								labels[l.Number] = append(labels[l.Number], label)
								assert.EqualValues(t, l.Number, label/100, name)
								learned++
							}
						}
						return nil
					})
					require.NoError(t, err)
					assert.EqualValues(t, 11, n)
				}
				seen := 0
				for _, part := range parts {
					along, err := part.(*Documents).Along(size, func(b *data.Batch, p Piece) error {
						for i, label := range p.Labels {
							if label == data.Ignored {
								continue
							}
							require.Less(t, p.Before, len(labels[p.Number]), name)
							assert.Equal(t, labels[p.Number][p.Before], label, name)
							assert.Equal(t, label, b.Labels[p.Row*size+p.At+i], name)
							p.Before++
							seen++
						}
						return nil
					})
					require.NoError(t, err)
					e, err := data.NewEvaluation(along, size, 3, 0)
					require.NoError(t, err)
					for i := range e.Batches() {
						_, err := e.Batch(i)
						require.NoError(t, err)
					}
				}
				assert.Equal(t, learned, seen, name)
				require.NoError(t, corpus.Close())
			}
		}
	}
}
