package frugal

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

var sink []byte

// recorder notes that a test has failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestParse(t *testing.T) {
	for bytes, fails := range map[int]bool{0: false, Fixed: false, Fixed + 10*PerByte + 100_000: true} {
		var r recorder
		Parse(&r, 10, func() { sink = make([]byte, bytes) })
		assert.Equal(t, fails, r.failed, "%d bytes", bytes)
	}
}
