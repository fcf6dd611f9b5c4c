package surface_test

import (
	"testing"

	"gputrain/internal/gputest"
)

func TestABI(t *testing.T) { gputest.CompareABI(t, "../../../../gpu/native_abi.h", "surface_abi.h") }
