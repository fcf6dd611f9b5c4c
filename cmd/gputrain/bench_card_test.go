package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// cardRunner makes this test's file the program, for the part that starts it.
const cardRunner = "CARD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(cardRunner) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// testedCard runs the command at the scale of tests.
func testedCard(t *testing.T, ctx context.Context, checks ...gpu.Check) (card bench.Card, page string, err error) {
	t.Helper()
	t.Setenv(cardRunner, "1")
	program, err := os.Executable()
	require.NoError(t, err)
	scale := bench.TestScale()
	scale.Checks = func(all []gpu.Check) []gpu.Check { return append(all[:2:2], checks...) }
	dir := filepath.Join(t.TempDir(), "card")
	c := benchCmd{Progress: "plain"}
	var told bytes.Buffer
	err = c.card(ctx, gputest.Adapters(t)[0], scale, program, &told, dir)
	raw, readErr := os.ReadFile(filepath.Join(dir, bench.CardJSON))
	require.NoError(t, readErr)
	require.NoError(t, json.Unmarshal(raw, &card))
	text, readErr := os.ReadFile(filepath.Join(dir, bench.CardPage))
	require.NoError(t, readErr)
	return card, string(text), err
}

// The command measures every part, and page and figures say the same.
func TestBenchCard(t *testing.T) {
	gputest.Long(t, "TestBenchCardStopped")
	failing := gpu.Check{Name: "that is wrong", Run: func(context.Context, *gpu.Device) (gpu.Result, error) {
		return gpu.Result{MaxError: 0.5, Tolerance: 0.25, Worst: "element 7"}, nil
	}}
	card, page, err := testedCard(t, t.Context(), failing)
	require.ErrorContains(t, err, "1 checks and 0 parts failed")
	assert.Equal(t, 1, exitCode(err))

	assert.Equal(t, card.Page(), page, "the page is made of the figures alone")
	for _, heading := range []string{
		"Who it is", "The largest gaps, and what to try", "What was measured", "Time to the first step", "Checks", "Copy and optimizers", "Products", "Attention",
		"Kronecker factors", "Optimizers of matrices", "Training steps",
	} {
		assert.Contains(t, page, "\n## "+heading+"\n")
	}
	assert.Equal(t, "1. check kernel/that is wrong fails", strings.Split(page[strings.Index(page, "\n1. ")+1:], ". Try")[0])
	assert.Contains(t, page, "2 passed, 1 FAILED.")
	assert.Regexp(t, `\| kernel/that is wrong \| 0.5 \| 0.25 \| .*element 7 \|`, page)
	assert.Contains(t, page, card.Adapter.Driver)

	require.Len(t, card.Parts, 11)
	for _, p := range card.Parts {
		assert.Empty(t, p.Short+p.Failed, p.Name)
		assert.Equal(t, p.Of, p.Done, p.Name)
		assert.Positive(t, p.Done, p.Name)
		for _, f := range p.Figures {
			positive(t, f.Bench, f.Value)
			assert.Contains(t, page, "| "+f.Bench+" |")
		}
	}
	require.Len(t, card.Starts, 2)
	for _, s := range card.Starts {
		positive(t, s.Caches, s.Seconds)
		assert.NotEmpty(t, s.Spans)
	}
	require.Len(t, card.Models, 4)
	for _, m := range card.Models {
		positive(t, m.Name, m.Seconds, m.Predicted, m.TokensPerSecond, m.Create, m.LongestSubmit, float64(m.Dispatches), float64(m.Submits), float64(m.Planned), float64(m.Taken))
		assert.InDelta(t, m.Seconds/m.Predicted, m.Ratio, 1e-9*m.Ratio)
		assert.InDelta(t, float64(m.Tokens), m.Seconds*m.TokensPerSecond, 1e-6*float64(m.Tokens))
		assert.InDelta(t, math.Log(64), m.Loss, 1, "an untrained model of 64 tokens")
		assert.Contains(t, page, "\n### "+m.Name+"\n")
		if !card.Adapter.Timestamps {
			assert.NotEmpty(t, m.Missing)
			continue
		}
		assert.Empty(t, m.Missing)
		passes, known := 0.0, map[string]bool{}
		for _, o := range m.Operations {
			positive(t, o.Name, o.Seconds)
			passes, known[o.Name] = passes+o.Seconds, o.Predicted > 0
		}
		assert.LessOrEqual(t, passes, m.Profiled)
		for _, name := range []string{"products", "attention", "head and loss", "update and sums"} {
			assert.True(t, known[name], "%s: %s was measured and computed", m.Name, name)
		}
	}
}

// A signal ends it at once, whatever a part does, and what was measured until then is written.
func TestBenchCardStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	release := make(chan struct{})
	stuck := gpu.Check{Name: "stuck", Run: func(context.Context, *gpu.Device) (gpu.Result, error) {
		cancel(errors.New("signal interrupt"))
		<-release
		return gpu.Result{}, nil
	}}
	card, page, err := testedCard(t, ctx, stuck) // which comes back before the part does
	close(release)
	assert.Equal(t, 3, exitCode(err))
	assert.Equal(t, "signal interrupt", card.Ended)
	assert.Len(t, card.Checks, 2)
	assert.Contains(t, page, "**It ended before its time: signal interrupt.**")
	assert.Contains(t, page, "2 of 3 done when the command ended: signal interrupt")
	assert.NotContains(t, page, "\n## Products\n")
}

func positive(t *testing.T, name string, values ...float64) {
	t.Helper()
	for i, v := range values {
		assert.True(t, v > 0 && !math.IsInf(v, 0), "%s: value %d: found %v, wanted a positive finite number", name, i, v)
	}
}

// Wrong uses of the flags are named.
func TestBenchCardUsage(t *testing.T) {
	for _, c := range []benchCmd{{Card: true, Name: "copy"}, {Card: true, JSON: true}, {Out: "x"}} {
		assert.Equal(t, 2, exitCode(c.Run(t.Context())))
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Equal(t, 2, exitCode((&benchCmd{}).card(t.Context(), gpu.Adapter{}, bench.TestScale(), "", io.Discard, file)))
}
