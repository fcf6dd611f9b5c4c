package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// The commands of docs/rollouts.md make a model that is right about half of all sums, and by rewards one that is right about at least nine in ten that
// neither has seen.
// SUMS_SEEDS (make sums) says for how many seeds: each but the first is the page's commands with another.
func TestRolloutsPage(t *testing.T) {
	gputest.Long(t, "TestRewardRises")
	seeds, err := strconv.Atoi(os.Getenv("SUMS_SEEDS"))
	if err != nil {
		seeds = 1
	}
	env := []string{"GPUTRAIN_ADAPTER=" + adapter(t), "GPUTRAIN_CACHE=" + workshop}
	for seed := range seeds {
		text := read(t, "../docs/rollouts.md")
		if seed > 0 {
			text = regexp.MustCompile(`--run-dir (\S+)`).ReplaceAllString(text, fmt.Sprintf("--run-dir $1 --set train.seed=%d", 42+seed))
		}
		page := filepath.Join(t.TempDir(), "rollouts.md")
		require.NoError(t, os.WriteFile(page, []byte(text), 0o666))
		p := runPage(t, page, 6, func(dir string) {
			require.NoError(t, os.CopyFS(filepath.Join(dir, "docs", "tuning"), os.DirFS("../docs/tuning")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "runs"), 0o777))
		}, env...)
		said := regexp.MustCompile(`mean reward of \d+ held-out prompts (\S+)`).FindAllStringSubmatch(read(t, p.path("page", "runs", "summed.txt")), -1)
		require.Len(t, said, 2)
		before, err := strconv.ParseFloat(said[0][1], 64)
		require.NoError(t, err)
		held := read(t, p.path("page", "runs", "held.txt"))
		t.Logf("seed %d: before %v; after, unseen: %s", 42+seed, before, strings.TrimSpace(held))
		assert.InDelta(t, 0.575, before, 0.175)
		after, err := strconv.ParseFloat(regexp.MustCompile(`reward (\S+),`).FindStringSubmatch(held)[1], 64)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, after, 0.9)
		unseen(t, "../docs/tuning/sum-held.jsonl", "../docs/tuning/sums.jsonl", "../docs/tuning/sum-prompts.jsonl")
	}
}

// unseen holds the prompts of a file to be in none of others.
func unseen(t *testing.T, held string, others ...string) {
	prompts := func(path string) (all []string) {
		for line := range strings.Lines(read(t, path)) {
			var row struct{ Prompt string }
			require.NoError(t, json.Unmarshal([]byte(line), &row))
			all = append(all, row.Prompt)
		}
		return all
	}
	for _, other := range others {
		for _, prompt := range prompts(held) {
			assert.NotContains(t, prompts(other), prompt, other)
		}
	}
}
