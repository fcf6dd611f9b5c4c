// Package gputest gives tests their devices.
package gputest

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"gputrain/gpu"
)

// Patience bounds every wait of a test for a device: long enough for a slow processor that has other work and compiles all kernels first.
const Patience = 10 * time.Minute

// Option changes the device that a test gets.
type Option func(*gpu.Options)

// WithLimits enforces smaller limits than the adapter's.
func WithLimits(l gpu.Limits) Option { return func(o *gpu.Options) { o.Limits = &l } }

// WithProfile times passes.
func WithProfile() Option { return func(o *gpu.Options) { o.Profile = true } }

// WithMemoryLimit bounds the bytes of all buffers.
func WithMemoryLimit(bytes uint64) Option { return func(o *gpu.Options) { o.MemoryLimit = bytes } }

// WithTimeout bounds every wait.
func WithTimeout(t time.Duration) Option { return func(o *gpu.Options) { o.Timeout = t } }

// required is how many adapters GPUTRAIN_REQUIRE_ADAPTER wants: a test that finds fewer than it needs, and than this, fails instead of
// being skipped.
func required() int {
	n, err := strconv.Atoi(os.Getenv("GPUTRAIN_REQUIRE_ADAPTER"))
	if err != nil {
		return 0
	}
	return n
}

// adapters asks every driver once.
var adapters = sync.OnceValues(gpu.Adapters)

// Adapters are the machine's adapters, those for tests first: $GPUTRAIN_ADAPTER where it is set, software before hardware,
// Vulkan before OpenGL. Without any the test is skipped, or fails where GPUTRAIN_REQUIRE_ADAPTER is 1 or more.
func Adapters(t testing.TB) []gpu.Adapter {
	t.Helper()
	all, err := adapters()
	if err != nil {
		if n := required(); n > 0 {
			t.Fatalf("GPUTRAIN_REQUIRE_ADAPTER=%d: %v", n, err)
		}
		t.Skipf("skipped, needs an adapter: %v", err)
	}
	if os.Getenv("GPUTRAIN_ADAPTER") != "" {
		a, err := gpu.Select("")
		if err != nil {
			t.Fatal(err)
		}
		return []gpu.Adapter{a}
	}
	rank := func(a gpu.Adapter) int {
		r := 0
		if !a.Limits.Software {
			r += 2
		}
		if a.Backend == "gl" {
			r++
		}
		return r
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b gpu.Adapter) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

// Device is a device on the first of Adapters, released when the test ends.
func Device(t testing.TB, options ...Option) *gpu.Device {
	t.Helper()
	return open(t, Adapters(t)[0], options)
}

// Several are n devices of the first of Adapters, released when the test ends.
func Several(t testing.TB, n int, options ...Option) []*gpu.Device {
	t.Helper()
	first := Adapters(t)[0]
	devices := make([]*gpu.Device, n)
	for i := range devices {
		devices[i] = open(t, first, options)
	}
	return devices
}

// Mixed is a device on each of Adapters, for tests of devices that differ, released when the test ends. With fewer than two the test is
// skipped, or fails where GPUTRAIN_REQUIRE_ADAPTER is more than there are.
func Mixed(t testing.TB, options ...Option) []*gpu.Device {
	t.Helper()
	all := Adapters(t)
	if n := required(); n > 1 && len(all) < n {
		t.Fatalf("GPUTRAIN_REQUIRE_ADAPTER=%d: found %d adapters: %v", n, len(all), all)
	}
	if len(all) < 2 {
		t.Skipf("skipped, needs adapters of two kinds, found %s", all[0])
	}
	devices := make([]*gpu.Device, len(all))
	for i, a := range all {
		devices[i] = open(t, a, options)
	}
	return devices
}

// Each runs the test on every adapter, each as a subtest with a device of its own. With -short it leaves out those that are Again one it has.
func Each(t *testing.T, test func(t *testing.T, d *gpu.Device), options ...Option) {
	t.Helper()
	for _, a := range Adapters(t) {
		if testing.Short() && again(t, a) {
			continue
		}
		t.Run(a.Backend+" "+a.Name, func(t *testing.T) { test(t, open(t, a, options)) })
	}
}

// texels is which kernels read texels, $GPUTRAIN_TEXELS: where they pay, unless it says otherwise.
func texels(t testing.TB) gpu.TexelUse {
	t.Helper()
	use, err := gpu.ParseTexelUse(cmp.Or(os.Getenv("GPUTRAIN_TEXELS"), "auto"))
	if err != nil {
		t.Fatalf("GPUTRAIN_TEXELS: %v", err)
	}
	return use
}

// Checks runs the self-checks of a package on every adapter.
func Checks(t *testing.T, all []gpu.Check) {
	t.Helper()
	Each(t, func(t *testing.T, d *gpu.Device) {
		for _, c := range all {
			r, err := c.Run(t.Context(), d)
			if err != nil || !(r.MaxError <= r.Tolerance) {
				t.Errorf("%s: %v: %s: %g, allowed %g", c.Name, err, r.Worst, r.MaxError, r.Tolerance)
			}
			t.Logf("%s: %s: %.2g of %.2g", c.Name, r.Worst, r.MaxError, r.Tolerance)
		}
	})
}

// EachBackend is Each, with -short too on every adapter: for tests of what differs between backends.
func EachBackend(t *testing.T, test func(t *testing.T, d *gpu.Device), options ...Option) {
	t.Helper()
	for _, a := range Adapters(t) {
		t.Run(a.Backend+" "+a.Name, func(t *testing.T) { test(t, open(t, a, options)) })
	}
}

// Rows are every n-th of a long table with -short, the first among them, otherwise all. A table whose rows repeat after n would lose kinds: give
// it another order.
func Rows[C any](cases []C, n int) []C {
	if !testing.Short() {
		return cases
	}
	var some []C
	for i := 0; i < len(cases); i += n {
		some = append(some, cases[i])
	}
	return some
}

// Some are the cases of a long table that a test within Each goes through on this device: all, and every fifth where it is Again one that
// the test has. A table whose rows repeat after five would lose kinds: give it another order.
func Some[C any](t testing.TB, d *gpu.Device, cases []C) []C {
	t.Helper()
	if !Again(t, d) {
		return cases
	}
	var some []C
	for i := 0; i < len(cases); i += 5 {
		some = append(some, cases[i])
	}
	return some
}

// Again tells whether a device is the processor once more, by OpenGL, where Adapters have it by Vulkan. Mesa makes machine code of a
// kernel in the same way for both, which is what most of a test's time goes to.
func Again(t testing.TB, d *gpu.Device) bool {
	t.Helper()
	return again(t, d.Adapter())
}

func again(t testing.TB, a gpu.Adapter) bool {
	t.Helper()
	return a.Limits.Software && a.Backend == "gl" && slices.ContainsFunc(Adapters(t), func(b gpu.Adapter) bool {
		return b.Limits.Software && b.Backend == "vulkan"
	})
}

func open(t testing.TB, a gpu.Adapter, options []Option) *gpu.Device {
	t.Helper()
	// How fast a device is found to be must not decide what a test counts: no submit is cut for that.
	o := gpu.Options{Timeout: Patience, Texels: texels(t), Keep: true, SubmitLimit: -1}
	for _, f := range options {
		f(&o)
	}
	if required() > 0 {
		t.Logf("adapter %s, driver %s", a, a.Driver)
	}
	d, err := gpu.Open(context.Background(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Release)
	return d
}

// Long leaves a test out of the short form, and says what sees its subject there.
func Long(t testing.TB, short string) {
	t.Helper()
	if testing.Short() {
		t.Skip("without -short; in short: " + short)
	}
}
