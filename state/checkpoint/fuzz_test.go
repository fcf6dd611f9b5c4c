package checkpoint

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/tests/frugal"
)

// memory is a directory for reading: of each file the name and the bytes.
type memory struct {
	FileSystem
	files map[string][]byte
}

func (m memory) Open(path string) (io.ReadCloser, error) {
	raw, ok := m.files[filepath.Base(path)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

func (m memory) Size(path string) (int64, error) {
	raw, ok := m.files[filepath.Base(path)]
	if !ok {
		return 0, fs.ErrNotExist
	}
	return int64(len(raw)), nil
}

const fuzzedRecord = `{"format":1,"step":6,"optimizer":{"config":{"name":"adamw","options":{"schedule":{"type":"cosine","learning_rate":0.01,` +
	`"learning_rate_end":0,"warmup_steps":2,"steps":12,"exponent":0},"clip_grad":1,"weight_decay":0.1,"weight_decay_mask":"matrices",` +
	`"accumulation_steps":0,"skip_non_finite":true,"measure_norm":true,"numerics":"stable","rates":null},"parameters":{"b1":0.9}},"counts":{"count":6}},` +
	`"skipped":0,"adapter":"llvmpipe","run":{"data":{"epoch":1,"position":24},"fingerprint":"tiny","seed":11,"tokens":384,"window":[5.5,5.25],` +
	`"best_step":4,"best_loss":5.4,"eval_step":4,"eval_loss":5.4,"guard":{"steps":[5,6],"loss":[5.5,5.25],"grad_norm":[1,2]},"temporary":true}}`

// FuzzRecord: a state.json that is accepted is written to bytes that are accepted as the same.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(fuzzedRecord))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"format":1,"step":-1}`))
	f.Add([]byte(`{"format":1,"optimizer":{"config":{"options":{"schedule":null,"rates":[{"match":"x","rate":2}]}}}} {}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		frugal.Parse(t, len(raw), func() {
			r, err := ReadRecord(memory{files: map[string][]byte{RecordFile: raw}}, "dir")
			if err != nil {
				require.ErrorIs(t, err, Err)
				return
			}
			require.GreaterOrEqual(t, r.Step, int64(0))
			written, err := json.Marshal(r)
			require.NoError(t, err)
			again, err := ReadRecord(memory{files: map[string][]byte{RecordFile: written}}, "dir")
			require.NoError(t, err)
			twice, err := json.Marshal(again)
			require.NoError(t, err)
			require.Equal(t, string(written), string(twice))
		})
	})
}

// FuzzManifest: a manifest that is accepted names files of its own directory alone, with their lengths, and a check of them ends.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"step":6,"files":{"config.json":{"bytes":2,"crc32c":"00000000"}}}`))
	f.Add([]byte(`{"format":1,"step":6,"files":{"model.safetensors":{"bytes":10,"crc32c":"00000000","tensors":{"a":"00000000"}}}}`))
	f.Add([]byte(`{"format":1,"files":{"../config.json":{"bytes":2}}}`))
	f.Add([]byte(`{"format":1,"files":{"..":{"bytes":0},".":{},"":{}}}`))
	files := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": append([]byte{2, 0, 0, 0, 0, 0, 0, 0}, "{}"...)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		frugal.Parse(t, len(raw), func() {
			dir := memory{files: map[string][]byte{manifestName: raw}}
			for name, text := range files {
				dir.files[name] = text
			}
			m, err := readManifest(dir, "dir")
			if err != nil {
				require.ErrorIs(t, err, Err)
				return
			}
			for name, file := range m.Files {
				require.Contains(t, dir.files, name)
				require.EqualValues(t, len(dir.files[name]), file.Bytes)
			}
			if err := Verify(dir, "dir"); err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
			}
		})
	})
}

// FuzzSums: of a file that the format's parser accepts, every tensor has the checksum of its bytes, in whatever pieces they came.
func FuzzSums(f *testing.F) {
	for _, tensors := range [][]safetensors.Tensor{
		nil,
		{{Name: "a", DType: "F32", Shape: []int{2}, Data: func(w io.Writer) error { _, err := w.Write([]byte("12345678")); return err }}},
		{
			{Name: "b", DType: "F16", Shape: []int{0}, Data: func(io.Writer) error { return nil }},
			{Name: "c", DType: "BF16", Shape: []int{1}, Data: func(w io.Writer) error { _, err := w.Write([]byte("xy")); return err }},
		},
	} {
		var out bytes.Buffer
		require.NoError(f, safetensors.Write(&out, tensors, nil))
		f.Add(out.Bytes(), uint8(3))
	}
	f.Add([]byte("\x40\x00\x00\x00\x00\x00\x00\x00"+`{"a":{"data_offsets":[9223372036854775807,-9223372036854775808]}}`), uint8(9))
	f.Fuzz(func(t *testing.T, raw []byte, piece uint8) {
		frugal.Parse(t, len(raw), func() {
			s := newFileSums(true)
			for rest := raw; len(rest) > 0; rest = rest[min(len(rest), 1+int(piece)):] {
				_, err := s.Write(rest[:min(len(rest), 1+int(piece))])
				require.NoError(t, err)
			}
			got, err := s.file()
			parsed, refused := safetensors.Parse(raw)
			if refused != nil {
				return
			}
			require.NoError(t, err)
			sum := func(raw []byte) checksum {
				h := crc32.New(castagnoli)
				h.Write(raw)
				return sumOf(h)
			}
			require.Equal(t, sum(raw), got.CRC32C)
			require.EqualValues(t, len(raw), got.Bytes)
			require.Len(t, got.Tensors, len(parsed.Names()))
			for _, name := range parsed.Names() {
				r, err := parsed.Bytes(name)
				require.NoError(t, err)
				all, err := io.ReadAll(r)
				require.NoError(t, err)
				require.Equal(t, sum(all), got.Tensors[name], name)
			}
		})
	})
}
