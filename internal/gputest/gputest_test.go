package gputest_test

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestDevice(t *testing.T) {
	var opened *gpu.Device
	t.Run("open", func(t *testing.T) {
		opened = gputest.Device(t, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10, Workgroups: 100}))
		require.Equal(t, uint64(64<<10), opened.Limits().BindingBytes)
		require.Equal(t, uint32(100), opened.Limits().Workgroups)
		require.Equal(t, opened.Adapter().Limits.StorageBuffers, opened.Limits().StorageBuffers)
	})
	if opened != nil {
		require.ErrorContains(t, opened.Err(), "released", "at the end of its test")
	}
}

func TestEach(t *testing.T) {
	var each, backends []gpu.Adapter
	var again []gpu.Adapter
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		backends = append(backends, d.Adapter())
		if gputest.Again(t, d) {
			again = append(again, d.Adapter())
		}
	})
	gputest.Each(t, func(t *testing.T, d *gpu.Device) { each = append(each, d.Adapter()) })
	assert.Equal(t, gputest.Adapters(t), backends)
	if testing.Short() {
		opened := func(a gpu.Adapter) bool {
			return slices.ContainsFunc(again, func(b gpu.Adapter) bool { return a.Index == b.Index })
		}
		assert.Equal(t, slices.DeleteFunc(backends, opened), each)
	} else {
		assert.Equal(t, backends, each)
	}
}

func TestSeveral(t *testing.T) {
	devices := gputest.Several(t, 3)
	require.Len(t, devices, 3)
	first := gputest.Adapters(t)[0]
	seen := map[*gpu.Device]bool{}
	for _, d := range devices {
		seen[d] = true
		require.Equal(t, first, d.Adapter())
		require.NoError(t, d.Err())
	}
	require.Len(t, seen, 3)
}

func TestFails(t *testing.T) {
	assert.True(t, gputest.Fails(t, func(t testing.TB) { require.Equal(t, 1, 2) }))
	assert.True(t, gputest.Fails(t, func(t testing.TB) { assert.Equal(t, 1, 2) }))
	assert.False(t, gputest.Fails(t, func(t testing.TB) { require.Equal(t, 1, 1) }))
	assert.PanicsWithValue(t, "no failure", func() { gputest.Fails(t, func(testing.TB) { panic("no failure") }) })
}

// Some cases are left out on an adapter whose processor another adapter has already, and on no other.
func TestSome(t *testing.T) {
	cases := []int{0, 1, 2, 3, 4, 5, 6}
	all := gputest.Adapters(t)
	software := slices.ContainsFunc(all, func(a gpu.Adapter) bool { return a.Limits.Software && a.Backend == "vulkan" })
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		if a := d.Adapter(); software && a.Limits.Software && a.Backend == "gl" {
			require.Equal(t, []int{0, 5}, gputest.Some(t, d, cases))
			t.Setenv("GPUTRAIN_ADAPTER", strconv.Itoa(a.Index))
		}
		require.Equal(t, cases, gputest.Some(t, d, cases))
	})
}

func TestMixed(t *testing.T) {
	all := gputest.Adapters(t)
	var opened []gpu.Adapter
	t.Run("open", func(t *testing.T) {
		for _, d := range gputest.Mixed(t, gputest.WithMemoryLimit(1<<20)) {
			opened = append(opened, d.Adapter())
			bytes, _, known := d.Available()
			require.True(t, known)
			require.LessOrEqual(t, bytes, uint64(1<<20), "with the options")
		}
	})
	if len(all) > 1 {
		require.Equal(t, all, opened)
	} else {
		require.Empty(t, opened)
	}
}

// A device of a test that is found to be slow, as one of a busy machine is, submits what it would.
func TestSpeedCutsNothing(t *testing.T) {
	d := gputest.Device(t)
	p := gputest.Busy(t, d)
	before := d.Counters().Submits
	d.Measured(time.Hour, p, p)
	_, measured := d.Speed()
	require.True(t, measured)
	require.NoError(t, d.Submit(t.Context(), p, p))
	require.EqualValues(t, 1, d.Counters().Submits-before)
}

// The machine may have been ten times as busy when the program was timed.
func TestHang(t *testing.T) {
	const hung, timeout = 600 * time.Millisecond, 20 * time.Millisecond
	d := gputest.Device(t, gputest.WithTimeout(timeout))
	hang := gputest.Hang(t, d)
	require.NoError(t, d.Wait(t.Context()), "prepared, not hung")
	start := time.Now()
	hang(hung)
	require.ErrorIs(t, d.Wait(t.Context()), gpu.ErrTimeout)
	for d.Wait(t.Context()) != nil {
		require.Less(t, time.Since(start), gputest.Patience)
	}
	require.GreaterOrEqual(t, time.Since(start), hung/10)
}

// Without an adapter a device test is skipped, and fails where one is required.
func TestWithoutAnAdapter(t *testing.T) {
	switch os.Getenv("GPUTEST_CHILD") {
	case "device":
		gputest.Device(t)
		return
	case "mixed":
		gputest.Mixed(t)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped, hides the drivers by variables of Linux's loaders")
	}
	run := func(child string, env ...string) string {
		cmd := exec.Command(os.Args[0], "-test.run", "TestWithoutAnAdapter", "-test.v")
		cmd.Env = append(append(os.Environ(), "GPUTEST_CHILD="+child), env...)
		out, _ := cmd.CombinedOutput()
		return string(out[:min(len(out), 2000)])
	}
	// A loader that finds no driver, and an OpenGL that is not there.
	without := func(child, require string) string {
		return run(child, "VK_ICD_FILENAMES=/nonexistent.json", "VK_DRIVER_FILES=/nonexistent.json",
			"__EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent.json", "GPUTRAIN_ADAPTER=", "GPUTRAIN_REQUIRE_ADAPTER="+require)
	}
	out := without("device", "")
	assert.Contains(t, out, "--- SKIP: TestWithoutAnAdapter")
	assert.Contains(t, out, "no usable adapter: ")
	out = without("device", "1")
	assert.Contains(t, out, "--- FAIL: TestWithoutAnAdapter")
	assert.Contains(t, out, "GPUTRAIN_REQUIRE_ADAPTER=1: gpu: adapters: no usable adapter")
	assert.Contains(t, without("mixed", ""), "--- SKIP: TestWithoutAnAdapter")
	assert.Contains(t, without("mixed", "2"), "GPUTRAIN_REQUIRE_ADAPTER=2: gpu: adapters: no usable adapter")
	// One adapter is enough for most tests, but not for tests of several kinds.
	if _, err := gpu.Select("0"); err != nil {
		return
	}
	out = run("mixed", "GPUTRAIN_ADAPTER=0", "GPUTRAIN_REQUIRE_ADAPTER=1")
	assert.Contains(t, out, "--- SKIP: TestWithoutAnAdapter")
	assert.Contains(t, out, "needs adapters of two kinds")
	out = run("mixed", "GPUTRAIN_ADAPTER=0", "GPUTRAIN_REQUIRE_ADAPTER=2")
	assert.Contains(t, out, "--- FAIL: TestWithoutAnAdapter")
	assert.Contains(t, out, "GPUTRAIN_REQUIRE_ADAPTER=2: found 1 adapters")
}
