package surface_test

import (
	"testing"

	"gputrain/gpu/gputest"
)

func TestABI(t *testing.T) { gputest.CompareABI(t, "../../../../gpu/native_abi.h", "surface_abi.h") }
