package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"maps"
	"slices"
	"sort"

	"gputrain/internal/stranger"
)

// castagnoli is CRC32C, which current processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is a CRC32C in the manifest's text form, eight hexadecimal digits.
type checksum string

func sumOf(h hash.Hash32) checksum { return checksum(fmt.Sprintf("%08x", h.Sum32())) }

// fileSums computes, in one pass over a file's bytes, its length and CRC32C and, for a safetensors file, the CRC32C of every tensor.
type fileSums struct {
	whole  hash.Hash32
	bytes  int64
	spans  []tensorSpan // by begin; nil until the header is read
	next   int          // the span that the next byte may belong to
	header []byte       // what is read of length and header so far; nil when the file has none or it is done
	err    error
}

// tensorSpan is one tensor's place in the file.
type tensorSpan struct {
	name       string
	begin, end int64 // bytes from the start of the file
	sum        hash.Hash32
}

func newFileSums(safetensors bool) *fileSums {
	s := &fileSums{whole: crc32.New(castagnoli)}
	if safetensors {
		s.header = []byte{}
	}
	return s
}

// Write never fails; a header that cannot be read is reported by tensors.
func (s *fileSums) Write(p []byte) (int, error) {
	s.whole.Write(p)
	if s.header != nil {
		s.header = append(s.header, p...)
		s.parseHeader()
	} else {
		s.feed(s.bytes, p)
	}
	s.bytes += int64(len(p))
	return len(p), nil
}

// parseHeader waits for the whole header, then feeds what came after it to the tensors.
func (s *fileSums) parseHeader() {
	if len(s.header) < 8 {
		return
	}
	n := binary.LittleEndian.Uint64(s.header)
	if n > stranger.SafetensorsHeader {
		s.err, s.header = fmt.Errorf("header of %d bytes, at most %d", n, stranger.SafetensorsHeader), nil
		return
	}
	end := 8 + int64(n)
	if int64(len(s.header)) < end {
		return
	}
	read := s.header
	s.header = nil
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(read[8:end], &entries); err != nil {
		s.err = fmt.Errorf("header: %w", err)
		return
	}
	s.spans = make([]tensorSpan, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) { // the first that is wrong is the same each time
		raw := entries[name]
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Offsets [2]int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			s.err = fmt.Errorf("header: tensor %q: %w", name, err)
			return
		}
		s.spans = append(s.spans, tensorSpan{name: name, begin: end + e.Offsets[0], end: end + e.Offsets[1], sum: crc32.New(castagnoli)})
	}
	sort.Slice(s.spans, func(i, j int) bool {
		a, b := s.spans[i], s.spans[j]
		if a.begin != b.begin {
			return a.begin < b.begin
		}
		return a.end < b.end // a zero-length tensor stands before the one that starts at its place
	})
	s.feed(end, read[end:])
}

// feed gives bytes that start at offset at of the file to the tensors they belong to.
func (s *fileSums) feed(at int64, p []byte) {
	for len(p) > 0 && s.next < len(s.spans) {
		t := &s.spans[s.next]
		switch {
		case at >= t.end:
			s.next++
		case at < t.begin:
			skip := min(t.begin-at, int64(len(p)))
			at, p = at+skip, p[skip:]
		default:
			take := min(t.end-at, int64(len(p)))
			t.sum.Write(p[:take])
			at, p = at+take, p[take:]
		}
	}
}

// file is the manifest's entry for what was written.
func (s *fileSums) file() (manifestFile, error) {
	if s.err != nil {
		return manifestFile{}, s.err
	}
	if s.header != nil {
		return manifestFile{}, fmt.Errorf("header: file ends after %d bytes", s.bytes)
	}
	f := manifestFile{Bytes: s.bytes, CRC32C: sumOf(s.whole)}
	if s.spans != nil {
		f.Tensors = make(map[string]checksum, len(s.spans))
		for _, t := range s.spans {
			f.Tensors[t.name] = sumOf(t.sum)
		}
	}
	return f, nil
}
