package gpu

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccountRefusesBeyondTheMachine(t *testing.T) {
	a := &account{available: func() uint64 { return 64 << 20 }}
	require.NoError(t, a.take("fits", 64<<20))
	err := a.take("weights", 65<<20)
	require.ErrorIs(t, err, ErrOutOfMemory)
	require.EqualError(t, err, `"weights": out of memory: 68157440 bytes wanted, 67108864 live, 67108864 bytes of the machine's memory available`)
	a.free(64 << 20)
	require.Zero(t, a.live)
}

func TestAccountLimitDoesNotOverflow(t *testing.T) {
	a := &account{limit: 100}
	require.NoError(t, a.take("a", 60))
	require.ErrorIs(t, a.take("b", math.MaxUint64-10), ErrOutOfMemory)
}

func TestAvailableMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped, needs /proc")
	}
	require.Greater(t, availableMemory(), uint64(1<<20))
	require.Less(t, availableMemory(), uint64(1<<50))
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.Equal(t, uint64(math.MaxUint64), groupAvailable(dir), "no group")
	write("memory.max", "max\n")
	write("memory.current", "400\n")
	require.Equal(t, uint64(math.MaxUint64), groupAvailable(dir), "no bound")
	write("memory.max", "1000\n")
	require.Equal(t, uint64(600), groupAvailable(dir))
	write("memory.stat", "anon 100\ninactive_file 250\n")
	require.Equal(t, uint64(850), groupAvailable(dir))
	write("memory.current", "1500\n")
	require.Zero(t, groupAvailable(dir))
	write("meminfo", "MemTotal:       16000 kB\nMemAvailable:    8000 kB\n")
	require.Equal(t, uint64(8000<<10), meminfo(filepath.Join(dir, "meminfo"), "MemAvailable"))
}
