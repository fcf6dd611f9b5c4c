package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// embeddingPage shows the example.
const embeddingPage = "../docs/embedding.md"

// quoted is the part of the example that the page shows: everything from main on.
func quoted(t *testing.T) string {
	t.Helper()
	_, after, ok := strings.Cut(read(t, "embedding/main.go"), "\nfunc main() {\n")
	require.True(t, ok)
	return "func main() {\n" + after
}

// The example trains, and leaves a model that the program reads.
func TestEmbeddingExample(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	example := filepath.Join(p.dir, "embedding")
	out, err := exec.Command("go", "build", "-o", example, "./embedding").CombinedOutput()
	require.NoError(t, err, "%s", out)
	p.write(t, "books/lines.txt", lines(2000))

	r := ok(t, p.command().with(func(c *command) { c.program = example }))
	steps := regexp.MustCompile(`step (\d+): loss (\d+\.\d+)\n`).FindAllStringSubmatch(r.out, -1)
	require.Greater(t, len(steps), 50)
	assert.InDelta(t, 5.5, number(t, steps[0][2]), 0.2, "an untrained model knows nothing: ln 256")
	assert.Less(t, number(t, steps[len(steps)-1][2]), 2.5)

	r = ok(t, p.command("inspect", "trained"))
	assert.Contains(t, r.out, "every checksum holds")
}

func TestEmbeddingExampleIsShort(t *testing.T) {
	body, _, ok := strings.Cut(quoted(t), "\n}\n")
	require.True(t, ok)
	assert.LessOrEqual(t, strings.Count(body, "\n"), 26)
}

// The page shows the example as it stands, and those of a value.
func TestPageQuotesTheExamples(t *testing.T) {
	page := read(t, embeddingPage)
	assert.NoError(t, quotes(page, quoted(t)))
	for name, file := range map[string]string{"ExampleNew": "../state/example_value_test.go", "ExampleRun_value": "../run/train/example_test.go"} {
		value := regexp.MustCompile(`(?s)func ` + name + `\(\) \{\n.*?\n\}\n`).FindString(read(t, file))
		require.NotEmpty(t, value)
		assert.NoError(t, quotes(page, value))
	}
	// The comparison can fail.
	assert.Error(t, quotes("```go\nfunc main() {\n}\n```\n", quoted(t)))
	assert.Error(t, quotes("no block", quoted(t)))
	assert.NoError(t, quotes("text\n\n```go\n"+quoted(t)+"```\n", quoted(t)))
}

// Another module imports this one as the page says.
func TestAnotherModuleImportsThisOne(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestEmbeddingExample")
	own := regexp.MustCompile("(?s)```\n(module .*?)```").FindStringSubmatch(read(t, embeddingPage))
	require.NotNil(t, own)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	const copied = "=> ../gputrain"
	require.Contains(t, own[1], copied)
	module := strings.Replace(own[1], copied, "=> "+strconv.Quote(root), 1)
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": module, "main.go": read(t, "embedding/main.go"), "go.sum": read(t, "../go.sum")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", filepath.Join(dir, "trains"), ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// quotes looks for the block of Go that begins as code does, and compares it with code.
func quotes(text, code string) error {
	first, _, _ := strings.Cut(code, "\n")
	for _, block := range strings.Split(text, "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.HasPrefix(block, first+"\n") {
			continue
		}
		if block != code {
			return errors.New("the block of Go that begins with " + first + " is not tests/embedding/main.go from there on:\n" + block)
		}
		return nil
	}
	return errors.New("found no block of Go that begins with " + first + ", wanted tests/embedding/main.go from there on")
}
