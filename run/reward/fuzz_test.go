package reward

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever a command says, its answers are numbers, nothing, or an error, and no more than its lines.
func FuzzAnswers(f *testing.F) {
	for _, said := range []string{"1\n", "null\n-0.5\r\n", "1e400\n", "nan\n", "1", "\n\n", "\x00\xff\n", "1_0\n", "--1\n", "1e-400\n", strings.Repeat("1", mostLine) + "\n"} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		p := &process{answers: make(chan answer), closing: make(chan struct{})}
		go p.read(bytes.NewReader(said))
		n := 0
		for a := range p.answers {
			n++
			if a.err == nil && math.IsInf(a.value, 0) || a.err != nil && len(a.err.Error()) > 600 || strings.ContainsAny(a.text, "\n\x1b") {
				t.Fatalf("%+v", a)
			}
		}
		if lines := bytes.Count(said, []byte("\n")); n > lines+1+len(said)/mostLine {
			t.Fatalf("found %d answers in %d lines", n, lines)
		}
	})
}

// Whatever a row has, a command gets one line of JSON of it, in which the completion is ours.
func FuzzRows(f *testing.F) {
	f.Add("2+2", "4", `{"answer": 4, "id": [1], "completion": null}`, int64(3))
	f.Add("", "\xff\xfe", "", int64(0))
	f.Add("\xff\n", "\u2028<a>&\x00", `{"": {"a": "\ud800"}}`, int64(-1))
	f.Fuzz(func(t *testing.T, prompt, completion, columns string, id int64) {
		s := Sample{ID: id, Prompt: prompt, Completion: completion, Tokens: []int32{1, 2}}
		_ = json.Unmarshal([]byte(columns), &s.Columns)
		text, err := rows([]Sample{s, s})
		require.NoError(t, err)
		all := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		require.Len(t, all, 2)
		var got struct {
			ID         int64   `json:"id"`
			Completion string  `json:"completion"`
			IDs        []int32 `json:"completion_ids"`
		}
		require.NoError(t, json.Unmarshal(all[1], &got))
		require.Equal(t, s.ID, got.ID)
		require.Equal(t, s.Tokens, got.IDs)
		require.Equal(t, string([]rune(completion)), got.Completion, "U+FFFD for a byte that is no character")
		for name := range s.Columns {
			require.Contains(t, string(all[0]), ":", name)
		}
	})
}

// Rewards that need no code answer 0, 1, a share or nothing to whatever a model says, or name the row.
func FuzzBuiltIn(f *testing.F) {
	f.Add("so 1,234.5e3 is -7", "-7")
	f.Add("<t>\u2212.5</t>", "1e999")
	specs := []Spec{
		{Kind: "equal", Column: "a"},
		{Kind: "number", Column: "a"},
		{Kind: "regex", Pattern: `(\d+)|<`, Column: "a"},
		{Kind: "tags", Tags: []string{"<t>", "</t>", "1"}},
		{Kind: "length", Tokens: 20, Buffer: 7},
		{Kind: "repetition", NGram: 2},
	}
	f.Fuzz(func(t *testing.T, completion, wanted string) {
		s := Sample{ID: 5, Completion: completion, Columns: map[string]any{"a": wanted}}
		for _, b := range []byte(completion) {
			s.Tokens = append(s.Tokens, int32(b))
		}
		for _, spec := range specs {
			fn, err := open(spec, Env{})
			require.NoError(t, err)
			answers, err := fn.Rewards(t.Context(), []Sample{s})
			if err != nil {
				require.ErrorContains(t, err, "row 5: ")
				continue
			}
			if v := answers[0]; !(math.Abs(v) <= 1) {
				t.Fatalf("%s: %v", spec.Kind, v)
			}
		}
	})
}

// Commands that fail in every way, again and again, leave neither goroutines nor memory behind.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	leaksNothing(t)
	beats := filepath.Join(t.TempDir(), "beats")
	ways := [][]string{
		behaves("length"), behaves("silence"), behaves("flood", "1\n"), behaves("flood", "x"), behaves("noise"), behaves("exit", "1", "3"), behaves("each", "nan\n"),
		behaves("deaf"), behaves("early"), behaves("hush"), behaves("fork", beats, "end"), behaves("fork", beats, "sleep"),
	}
	random := rand.New(rand.NewPCG(1, 2))
	memory := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	before := memory().HeapAlloc
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		all, _ := asked(t, "30ms", ways[random.IntN(len(ways))]...)
		for range random.IntN(4) {
			_, _ = all.Of(t.Context(), batch(1+random.IntN(50), random.IntN(5000)))
		}
		require.NoError(t, all.Close())
	}
	assert.Less(t, memory().HeapAlloc, before+64<<20)
	lives(t, beats, false)
}
