package buffers

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// Arrays that are yet to be read are read once, wherever they are cut, and never held as a whole.
func TestWriteAllReadsOnce(t *testing.T) {
	dev := gputest.Device(t)
	r := rand.New(rand.NewPCG(1, 2))
	var hosts, want []Host
	var mu sync.Mutex
	times := map[string][]byte{}
	for _, s := range []Spec{{Path: "a", Shape: []int{3}}, {Path: "b", Shape: []int{1300, 1200}}, {Path: "c", Shape: []int{0, 4}}, {Path: "d", Shape: []int{1024, 1024}}, {Path: "e", Shape: []int{}}} {
		h := Host{Path: s.Path, Shape: s.Shape}
		data := make([]float32, h.Elements())
		for i := range data {
			data[i] = float32(r.IntN(200) - 100) // exact in bf16
		}
		want = append(want, Host{Path: s.Path, Shape: s.Shape, Data: data})
		times[s.Path] = make([]byte, len(data))
		h.Read = func(dst []float32, first int) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range dst {
				dst[i] = data[first+i]
				times[s.Path][first+i]++
			}
			return nil
		}
		hosts = append(hosts, h)
	}
	for _, dtype := range []DType{F32, BF16} {
		for _, counts := range times {
			clear(counts)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tree, err := Upload(dev, "read", hosts, dtype)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		defer tree.Release()
		got, err := tree.Download(t.Context())
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i, h := range want {
			assert.True(t, slices.Equal(h.Data, got[i].Data), h.Path)
			require.Equal(t, len(h.Data), bytes.Count(times[h.Path], []byte{1}), "%s: elements that were read once", h.Path)
		}
		workers := min(fillers, runtime.GOMAXPROCS(0))
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+workers*8*fillElements))
	}
}

// An array that cannot be read is named.
func TestWriteAllThatCannotBeRead(t *testing.T) {
	dev := gputest.Device(t)
	wrong := errors.New("the disk is gone")
	for _, read := range []func([]float32, int) error{func([]float32, int) error { return wrong }, func([]float32, int) error { panic("a bug") }} {
		_, err := Upload(dev, "read", []Host{{Path: "a", Shape: []int{3}, Data: []float32{1, 2, 3}}, {Path: "b", Shape: []int{2}, Read: read}}, F32)
		require.Error(t, err)
	}
	_, err := Upload(dev, "read", []Host{{Path: "b", Shape: []int{2}, Read: func([]float32, int) error { return wrong }}}, F32)
	require.ErrorIs(t, err, wrong)
	require.ErrorContains(t, err, `tree "read": leaf "b"`)
}

// Of several arrays that cannot be read the first is named, each time, however long the others take.
func TestWriteAllNamesTheFirst(t *testing.T) {
	dev := gputest.Device(t)
	wrong := errors.New("the disk is gone")
	for range 20 {
		begun := make(chan struct{})
		hosts := []Host{
			{Path: "a", Shape: []int{fillElements}, Data: make([]float32, fillElements)},
			{Path: "b", Shape: []int{fillElements}, Read: func([]float32, int) error { <-begun; return wrong }},
			{Path: "c", Shape: []int{fillElements}, Read: func([]float32, int) error { close(begun); return wrong }},
		}
		if runtime.GOMAXPROCS(0) == 1 {
			close(begun)
			hosts = hosts[:2]
		}
		_, err := Upload(dev, "read", hosts, F32)
		require.ErrorContains(t, err, `leaf "b"`)
		require.NotContains(t, err.Error(), `leaf "c"`)
	}
}
