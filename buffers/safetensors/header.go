package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"
)

const metadataKey = "__metadata__"

// entry is a tensor's place: bytes [begin, end) of the data after the header.
type entry struct {
	dtype      string
	shape      []int
	begin, end uint64
}

type header struct {
	entries  map[string]entry
	metadata map[string]string
}

// parseHeader reads the JSON header of a file with dataBytes bytes of data. It goes by tokens, since decoding into a map
// would let the last of two equal keys win in silence.
func parseHeader(text []byte, dataBytes uint64) (header, error) {
	h := header{entries: map[string]entry{}, metadata: map[string]string{}}
	if !utf8.Valid(text) {
		return h, errors.New("header is not UTF-8")
	}
	if len(text) == 0 || text[0] != '{' {
		return h, errors.New("header does not begin with {")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	seen := map[string]bool{}
	err := object(d, func(name string) error {
		if seen[name] {
			return fmt.Errorf("tensor %q: given twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			return h.readMetadata(d)
		}
		e, err := readEntry(d)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		h.entries[name] = e
		return nil
	})
	if err != nil {
		return h, err
	}
	if rest := bytes.TrimLeft(text[d.InputOffset():], " "); len(rest) > 0 {
		return h, fmt.Errorf("header: %d bytes after the closing }", len(rest))
	}
	return h, h.checkCover(dataBytes)
}

// object reads one JSON object; value is called at each value with its key.
func object(d *json.Decoder, value func(key string) error) error {
	if err := delim(d, '{'); err != nil {
		return err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("header is not JSON: %w", err)
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("header: key %v, want a string", t)
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return delim(d, '}')
}

func delim(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return fmt.Errorf("header is not JSON: %w", err)
	}
	if t != want {
		return fmt.Errorf("header: %v, want %v", t, want)
	}
	return nil
}

func (h *header) readMetadata(d *json.Decoder) error {
	return object(d, func(key string) error {
		if _, twice := h.metadata[key]; twice {
			return fmt.Errorf("%s: key %q: given twice", metadataKey, key)
		}
		s, err := text(d)
		if err != nil {
			return fmt.Errorf("%s: key %q: %w", metadataKey, key, err)
		}
		h.metadata[key] = s
		return nil
	})
}

func readEntry(d *json.Decoder) (entry, error) {
	var e entry
	seen := map[string]bool{}
	err := object(d, func(key string) (err error) {
		if seen[key] {
			return fmt.Errorf("key %q: given twice", key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			e.dtype, err = text(d)
		case "shape":
			e.shape, err = integers(d)
		case "data_offsets":
			var at []int
			if at, err = integers(d); err == nil {
				if len(at) != 2 {
					return fmt.Errorf("data_offsets: %d numbers, want 2", len(at))
				}
				e.begin, e.end = uint64(at[0]), uint64(at[1])
			}
		default:
			return fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return e, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return e, fmt.Errorf("key %q is missing", key)
		}
	}
	want, err := byteLength(e.dtype, e.shape)
	if err != nil {
		return e, err
	}
	if e.end < e.begin || e.end-e.begin != want {
		return e, fmt.Errorf("data_offsets [%d, %d], want %d bytes for %s %v", e.begin, e.end, want, e.dtype, e.shape)
	}
	return e, nil
}

func text(d *json.Decoder) (string, error) {
	t, err := d.Token()
	if err != nil {
		return "", fmt.Errorf("header is not JSON: %w", err)
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%v, want a string", t)
	}
	return s, nil
}

// integers reads an array of non-negative integers: digits alone, so neither 1.0 nor 1e3 nor -0.
func integers(d *json.Decoder) ([]int, error) {
	if err := delim(d, '['); err != nil {
		return nil, err
	}
	out := []int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("header is not JSON: %w", err)
		}
		n, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%v, want an integer", t)
		}
		v, err := strconv.ParseUint(n.String(), 10, 64)
		if err != nil || v > math.MaxInt64 {
			return nil, fmt.Errorf("%s, want an integer from 0 to 2^63-1", n)
		}
		out = append(out, int(v))
	}
	return out, delim(d, ']')
}

// checkCover makes sure that the tensors fill the data: sorted by offset they follow on each other from 0 to the end.
func (h *header) checkCover(dataBytes uint64) error {
	names := h.byOffset()
	at := uint64(0)
	for _, name := range names {
		e := h.entries[name]
		if e.begin < at {
			return fmt.Errorf("tensor %q: begins at %d, inside the tensor before, which ends at %d", name, e.begin, at)
		}
		if e.begin > at {
			return fmt.Errorf("tensor %q: begins at %d, a gap after %d", name, e.begin, at)
		}
		at = e.end
	}
	if at != dataBytes {
		return fmt.Errorf("%d bytes of data, the header wants %d", dataBytes, at)
	}
	return nil
}

func (h *header) byOffset() []string {
	names := h.names()
	sort.SliceStable(names, func(i, j int) bool {
		a, b := h.entries[names[i]], h.entries[names[j]]
		return a.begin < b.begin || a.begin == b.begin && a.end < b.end
	})
	return names
}

func (h *header) names() []string {
	names := make([]string, 0, len(h.entries))
	for name := range h.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
