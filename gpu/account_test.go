package gpu

import (
	"math"
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

func TestSizeText(t *testing.T) {
	for bytes, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.50 GiB"} {
		require.Equal(t, want, SizeText(bytes))
	}
}
