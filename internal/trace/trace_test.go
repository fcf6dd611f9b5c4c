package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
)

var someSpans = []gpu.Span{
	{Label: "step", Group: "forward", Operation: "products", Begin: 1000 * time.Microsecond, End: 3000 * time.Microsecond},
	{Label: "step", Group: "update", Begin: 3000 * time.Microsecond, End: 3500 * time.Microsecond},
	{Label: "step", Group: "forward", Begin: 4000 * time.Microsecond, End: 5000 * time.Microsecond},
	{Label: "sample", Begin: 6000 * time.Microsecond, End: 6500 * time.Microsecond},
	{Label: "sample", Group: "head", Operation: "products", Begin: 7000 * time.Microsecond, End: 7500 * time.Microsecond},
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Table(&out, someSpans))
	require.Equal(t, strings.TrimLeft(`
operation    passes    total ms   share     mean us    worst us
products          2       2.500   55.6%      1250.0      2000.0
forward           1       1.000   22.2%      1000.0      1000.0
sample            1       0.500   11.1%       500.0       500.0
update            1       0.500   11.1%       500.0       500.0
all               5       4.500

group      passes    total ms   share     mean us    worst us
forward         2       3.000   66.7%      1500.0      2000.0
head            1       0.500   11.1%       500.0       500.0
sample          1       0.500   11.1%       500.0       500.0
update          1       0.500   11.1%       500.0       500.0
all             5       4.500
`, "\n"), out.String())
	require.NoError(t, Table(&out, nil))
	require.ErrorIs(t, Table(brokenWriter{}, someSpans), errBroken)
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Write(&out, someSpans))
	var trace struct {
		Events []struct {
			Name, Ph string
			Ts, Dur  float64
			Pid, Tid int
			Args     struct{ Operation string }
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &trace))
	require.Len(t, trace.Events, 6)
	require.Equal(t, "M", trace.Events[0].Ph)
	forward := trace.Events[1]
	require.Equal(t, "forward", forward.Name)
	require.Equal(t, "X", forward.Ph)
	require.Equal(t, "products", forward.Args.Operation)
	require.Zero(t, forward.Ts)
	require.InDelta(t, 2000, forward.Dur, 1e-9)
	require.Equal(t, "sample", trace.Events[4].Name)
	require.InDelta(t, 5000, trace.Events[4].Ts, 1e-9)
	require.ErrorIs(t, Write(brokenWriter{}, someSpans), errBroken)
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }
