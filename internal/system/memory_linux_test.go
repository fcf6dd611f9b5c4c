package system

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAvailableMemory(t *testing.T) {
	require.Greater(t, AvailableMemory(), uint64(1<<20))
	require.Less(t, AvailableMemory(), uint64(1<<50))
	require.GreaterOrEqual(t, TotalMemory(), AvailableMemory())
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("meminfo", "MemTotal:       16000 kB\nMemAvailable:    8000 kB\n")
	require.Equal(t, uint64(8000<<10), meminfo(filepath.Join(dir, "meminfo"), "MemAvailable"))
}

// The least of a group and of those above it counts, in either version, and in a container that sees its own group alone.
func TestMemoryGroups(t *testing.T) {
	type files map[string]string
	const v1 = "30 20 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	const v2 = "40 20 0:29 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	for name, k := range map[string]struct {
		files       files
		free, limit uint64
	}{
		"none":     {files{}, math.MaxUint64, math.MaxUint64},
		"no bound": {files{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "400\n"}, math.MaxUint64, math.MaxUint64},
		"version 2, the one above is less": {files{
			"proc/self/mountinfo": v1 + v2, "proc/self/cgroup": "3:cpuset:/\n0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/b/memory.current": "100\n",
			"sys/fs/cgroup/a/memory.max": "900\n", "sys/fs/cgroup/a/memory.current": "500\n", "sys/fs/cgroup/a/memory.stat": "anon 100\ninactive_file 200\nactive_file 50\n",
		}, 650, 900},
		"version 1, nested": {files{
			"proc/self/mountinfo": v1 + v2, "proc/self/cgroup": "4:memory:/a/b\n0::/\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "700\n", "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": "300\n",
			"sys/fs/cgroup/memory/a/b/memory.stat":         "inactive_file 7\ntotal_inactive_file 50\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "300\n",
		}, 450, 700},
		"more than its limit": {files{
			"proc/self/mountinfo": v1, "proc/self/cgroup": "4:cpu,memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "700\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "800\n",
		}, 0, 700},
		"a container's own": {files{
			"proc/self/mountinfo": "30 20 0:28 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "proc/self/cgroup": "4:memory:/docker/x/job\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "700\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "100\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "500\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "100\n",
		}, 400, 500},
		"a group that is not to be seen": {files{
			"proc/self/mountinfo": "30 20 0:28 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "proc/self/cgroup": "4:memory:/other\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "700\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "100\n",
		}, 600, 700},
	} {
		t.Run(name, func(t *testing.T) {
			g := memoryGroups{t.TempDir()}
			for path, text := range k.files {
				path = filepath.Join(g.root, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			free, limit := g.available()
			require.Equal(t, k.free, free)
			require.Equal(t, k.limit, limit)
		})
	}
}
