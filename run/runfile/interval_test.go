package runfile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSaveEvery(t *testing.T) {
	for text, want := range map[string]Intervals{
		"200":                                    {{200, 0}},
		"0":                                      nil,
		"[]":                                     nil,
		"[{every: 10, until: 100}, {every: 50}]": {{10, 100}, {50, 0}},
		"[{every: 10, until: null}]":             {{10, 0}},
		"\n  - every: 10\n    until: 20\n  - {every: 5, until: 1000}": {{10, 20}, {5, 1000}},
	} {
		c := New()
		require.NoError(t, c.Parse("a.yaml", []byte("train:\n  save_every: "+strings.ReplaceAll(text, "\n", "\n  ")+"\n")), text)
		require.NoError(t, c.Validate(), text)
		assert.Equal(t, want, c.Train.SaveEvery, text)
		// What is printed, and what run.yaml records, is read as the same.
		raw, err := json.Marshal(c.Train.SaveEvery)
		require.NoError(t, err)
		for _, again := range []string{inline(c.Train.SaveEvery), string(raw)} {
			c := New()
			require.NoError(t, c.Set("train.save_every="+again), again)
			assert.Equal(t, want, c.Train.SaveEvery, again)
		}
	}
	assert.Equal(t, "200", inline(New().Train.SaveEvery))
	for text, says := range map[string]string{
		"-1":                         "train.save_every (--set): found -1, wanted every and until of 1 or more",
		"[{every: 10}, {every: 20}]": "an until in each interval but the last",
		"[{every: 1, until: 9}, {every: 2, until: 9}]": "intervals whose until ascends",
		"often":               "wanted a whole number, or a list, each {every: N, until: STEP}",
		"1.5":                 "wanted a whole number, or a list",
		"[{until: 10}]":       "wanted a whole number, or a list",
		"[{every: 1, to: 3}]": "wanted a whole number, or a list",
		"[5]":                 "wanted a whole number, or a list",
	} {
		c := New()
		err := c.Set("train.save_every=" + text)
		if err == nil {
			err = c.Validate()
		}
		assert.ErrorContains(t, err, says, text)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "0s": 0, "90s": 90 * time.Second, "15m": 15 * time.Minute, "1.5h": 90 * time.Minute, "1d": 24 * time.Hour,
		"2h30m": 150 * time.Minute, "1d2h30m4s": 26*time.Hour + 30*time.Minute + 4*time.Second, "0.25s": 250 * time.Millisecond,
	} {
		got, err := parseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"5", "1d2", "x1d", "1d x", "1d\n", "30m2h", "1h1h", "-5m", "1e3s", "5 m", "ms", "5ms", ".5s", "9999999999999d", fmt.Sprintf("%dh", 1<<62)} {
		_, err := parseDuration(text)
		assert.ErrorContains(t, err, fmt.Sprintf("found %q, wanted a time such as", text))
	}
	for _, key := range []string{"train.save_interval", "train.time_limit"} {
		c := New()
		require.NoError(t, c.Set(key+"=15"))
		assert.ErrorContains(t, c.Validate(), key+` (--set): found "15", wanted a time such as 90s, 15m or 1d2h30m`)
	}
}
