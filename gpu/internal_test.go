package gpu

import (
	"os"
	"testing"
)

// anyAdapter is what gputest does for tests inside the package: the adapter at hand, a skip without one, a failure where one
// is required.
func anyAdapter(t *testing.T) Adapter {
	t.Helper()
	a, err := Select("")
	if n := os.Getenv("GPUTRAIN_REQUIRE_ADAPTER"); err != nil && n != "" && n != "0" {
		t.Fatalf("GPUTRAIN_REQUIRE_ADAPTER=%s: %v", n, err)
	}
	if err != nil {
		t.Skipf("skipped, needs an adapter: %v", err)
	}
	return a
}
