package gpu_test

import (
	"testing"

	"gputrain/gpu/gputest"
)

func TestABI(t *testing.T) { gputest.CompareABI(t, "native_abi.h") }
