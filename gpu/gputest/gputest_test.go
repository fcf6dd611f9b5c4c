package gputest_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
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
	var seen []gpu.Adapter
	gputest.Each(t, func(t *testing.T, d *gpu.Device) { seen = append(seen, d.Adapter()) })
	assert.Len(t, seen, len(gputest.Adapters(t)))
}

// Without an adapter a device test is skipped, and fails where one is required.
func TestWithoutAnAdapter(t *testing.T) {
	if os.Getenv("GPUTEST_CHILD") == "1" {
		gputest.Device(t)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped, hides the drivers by variables of Linux's loaders")
	}
	run := func(extra ...string) string {
		cmd := exec.Command(os.Args[0], "-test.run", "TestWithoutAnAdapter", "-test.v")
		// A loader that finds no driver, and an OpenGL that is not there.
		cmd.Env = append(os.Environ(), "GPUTEST_CHILD=1", "VK_ICD_FILENAMES=/nonexistent.json", "VK_DRIVER_FILES=/nonexistent.json",
			"__EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent.json", "GPUTRAIN_ADAPTER=", "GPUTRAIN_REQUIRE_ADAPTER=")
		cmd.Env = append(cmd.Env, extra...)
		out, _ := cmd.CombinedOutput()
		return string(out[:min(len(out), 2000)])
	}
	out := run()
	assert.Contains(t, out, "--- SKIP: TestWithoutAnAdapter")
	assert.Contains(t, out, "no usable adapter: ")
	out = run("GPUTRAIN_REQUIRE_ADAPTER=1")
	assert.Contains(t, out, "--- FAIL: TestWithoutAnAdapter")
	assert.Contains(t, out, "GPUTRAIN_REQUIRE_ADAPTER=1: gpu: adapters: no usable adapter")
}
