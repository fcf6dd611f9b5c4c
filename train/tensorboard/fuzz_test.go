package tensorboard

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// Whatever a file holds, reading it ends, takes no more memory than a multiple of its size, and what has been read is written as a message
// that the protobuf library takes, and that is read as the same. Few inputs get past a checksum, so framed puts the input into a record first.
func FuzzReader(f *testing.F) {
	for _, c := range cases {
		message, err := encode(c.event)
		require.NoError(f, err)
		f.Add(message, true)
		f.Add(appendRecord(nil, message), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, framed bool) {
		if framed {
			data = appendRecord(nil, data)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var found []Event
		for e, err := range events(bytes.NewReader(data), int64(len(data))) {
			if err != nil {
				break
			}
			found = append(found, e)
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+256*len(data)))
		for _, e := range found {
			if slices.ContainsFunc(e.Values, func(v Value) bool { return v.Kind == Unknown }) {
				continue
			}
			message, err := encode(e)
			require.NoError(t, err)
			read := eventOf(t)
			require.NoError(t, proto.Unmarshal(message, read))
			assertKnown(t, read)
			again, err := decode(message)
			require.NoError(t, err)
			second, err := encode(again)
			require.NoError(t, err)
			assert.Equal(t, message, second)
		}
	})
}
