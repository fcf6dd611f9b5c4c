package compile

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/internal/gputest"
)

func TestChecksPass(t *testing.T) {
	gputest.Checks(t, Checks())
}

// TestChecksCanFail: a kernel that computes something else than its twin must not pass.
func TestChecksCanFail(t *testing.T) {
	k := Check{Name: "wrong", Tolerance: 16, Build: func(g *graph.Graph) []*graph.Value { return []*graph.Value{g.Apply("square", x(g, "a", 8))} }}
	good := functionText["square"]
	defer func() { functionText["square"] = good }()
	functionText["square"] = "1.00001 * $a * $a"
	r, err := k.run(context.Background(), gputest.Device(t))
	require.NoError(t, err)
	require.Greater(t, r.MaxError, r.Tolerance)
}
