package template

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ticking is a clock on which a rendering takes some time.
func ticking(each time.Duration) func() time.Time {
	now := time.Time{}
	return func() time.Time {
		now = now.Add(each)
		return now
	}
}

// All renderings of an account are bounded: of n that take a second and have 1000 bytes, n(1 - 0.01 - 0.01) seconds may
// be Within.
func TestAccountOfTime(t *testing.T) {
	parsed, err := Parse("case", "{{ x }}")
	require.NoError(t, err)
	variables := &Object{}
	variables.Set("x", strings.Repeat("y", 1000-2-6-1)) // braces, and the key with what is around it
	for _, c := range []struct {
		each   time.Duration
		within func(*Account)
		most   int // renderings that are made
		says   string
	}{
		{time.Second, func(a *Account) { a.Within(5 * time.Second) }, 5, "6 renderings of 6000 bytes: found 6s, wanted at most 5.1s together"},
		{time.Second, func(a *Account) { a.Within(49 * time.Second) }, 50, "found 51s, wanted at most 50s together"},
		{time.Second, func(*Account) {}, 61, "found 1m2s, wanted at most 1m1.2s together"}, // 60 / 0.98
		{time.Second, func(a *Account) { a.Within(0) }, 1000, ""},
		{20 * time.Millisecond, func(a *Account) { a.Within(time.Nanosecond) }, 1000, ""},
	} {
		a := &Account{clock: ticking(c.each)}
		c.within(a)
		made := 0
		for made < 1000 {
			if _, err = parsed.Render(variables, Options{Account: a}); err != nil {
				break
			}
			made++
		}
		assert.Equal(t, c.most, made)
		if made == 1000 {
			continue
		}
		assert.ErrorContains(t, err, c.says)
		_, again := parsed.Render(variables, Options{Account: a})
		assert.Equal(t, err, again, "whatever swallows an error meets it again")
	}
}

// Texts may be 64 KiB longer than eight times their variables, and 256 MiB beyond that together: five of 60 million
// bytes are more.
func TestAccountOfTexts(t *testing.T) {
	a := &Account{}
	long, err := Parse("long", "{{ 'x' * 60000000 }}")
	require.NoError(t, err)
	short, err := Parse("short", "{{ 'x' * 65000 }}")
	require.NoError(t, err)
	for i := range 5 {
		for range 200 {
			_, err = short.Render(&Object{}, Options{Account: a})
			require.NoError(t, err)
		}
		_, err = long.Render(&Object{}, Options{Account: a})
		require.Equal(t, i < 4, err == nil, i)
	}
	assert.ErrorContains(t, err, "wanted at most 256 MiB together")
}

// A rendering that has much memory has it alone: while it does, another one that needs much waits, and its waiting does
// not count as its time.
func TestMuchMemoryIsHadAlone(t *testing.T) {
	parsed, err := Parse("heavy", "{{ ('x' * 9000000) | length }}")
	require.NoError(t, err)
	light, err := Parse("light", "{{ 'x' * 9000 }}")
	require.NoError(t, err)
	a := &Account{}
	a.heavy.Lock() // as another rendering
	var waiting sync.WaitGroup
	done := false
	waiting.Go(func() {
		_, err := parsed.Render(&Object{}, Options{Account: a})
		assert.NoError(t, err)
		assert.True(t, done)
	})
	_, err = light.Render(&Object{}, Options{Account: a})
	require.NoError(t, err)
	done = true
	a.heavy.Unlock()
	waiting.Wait()
	assert.True(t, a.heavy.TryLock(), "it is given back")
}
