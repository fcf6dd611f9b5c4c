package follow

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reading is Lines with the lines it has handed over and not taken back.
type reading struct {
	Lines
	lines   []string
	rewinds int
}

func (r *reading) poll(t *testing.T, dir string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, r.Lines.Poll(root, func() {
		r.lines, r.rewinds = nil, r.rewinds+1
	}, func(line []byte, offset int64) {
		assert.EqualValues(t, len(strings.Join(r.lines, "")), offset)
		r.lines = append(r.lines, string(line))
	}))
}

func TestLinesSeeWhatStandsInTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	r := &reading{Lines: Lines{Name: "f"}}
	random := rand.New(rand.NewPCG(1, 2))
	content := ""
	r.poll(t, dir)
	for round := range 400 {
		lines := strings.SplitAfter(content, "\n")
		switch random.IntN(5) {
		case 0: // resumed: cut back, maybe in a torn line, and written on to any length before the next look
			content = strings.Join(lines[:random.IntN(len(lines)+1)], "")
			fallthrough
		case 1, 2:
			if !strings.HasSuffix(content, "\n") && content != "" {
				content = content[:strings.LastIndex(content, "\n")+1]
			}
			for range random.IntN(6) {
				content += fmt.Sprintf(`{"step":%d,"ms":%d}`+"\n", len(content), random.Uint32())
			}
			if random.IntN(3) == 0 {
				content += `{"step":1`
			}
		case 3: // replaced by another file of the same length
			content = strings.ReplaceAll(content, "ms", "sm")
		case 4: // gone
			if random.IntN(4) == 0 {
				content = ""
				_ = os.Remove(path)
			}
		}
		if content != "" {
			to := path
			if random.IntN(2) == 0 {
				to = path + "2"
			}
			require.NoError(t, os.WriteFile(to, []byte(content), 0o666))
			require.NoError(t, os.Rename(to, path))
		}
		r.poll(t, dir)
		whole := content[:strings.LastIndex(content, "\n")+1]
		require.Equal(t, whole, strings.Join(r.lines, ""), "round %d", round)
	}
	assert.Positive(t, r.rewinds)
}

func TestLinesReadTheEndAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	r := &reading{Lines: Lines{Name: "f"}}
	for _, c := range []struct {
		file    string
		rewinds int
		lines   string
	}{
		{"a\nb\nc\nd\n", 0, "a\nb\nc\nd\n"},
		{"a\nb\nx\nd\ne", 0, "a\nb\nc\nd\n"}, // the last line stands where it stood
		{"a\nb\nx\nd\nef\n", 0, "a\nb\nc\nd\nef\n"},
		{"a\nb\nx\nd\neg\nh\n", 1, "a\nb\nx\nd\neg\nh\n"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(c.file), 0o666))
		r.poll(t, dir)
		assert.Equal(t, c.rewinds, r.rewinds)
		assert.Equal(t, c.lines, strings.Join(r.lines, ""))
	}
}

func TestLinesRefuse(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	poll := func(name string) error {
		l := Lines{Name: name}
		return l.Poll(root, func() {}, func([]byte, int64) {})
	}
	endless, err := os.Create(filepath.Join(dir, "endless"))
	require.NoError(t, err)
	require.NoError(t, endless.Truncate(mostLine+1<<20))
	require.NoError(t, endless.Close())
	assert.ErrorContains(t, poll("endless"), "wanted lines of JSON")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o777))
	assert.ErrorContains(t, poll("folder"), "wanted a regular file")
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("secret\n"), 0o666))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	assert.ErrorContains(t, poll("link"), "escapes")
}
