package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/trace"
)

// The table of a profile adds up what layers do alike; the spans that the trace is made of stay as they are.
func TestProfileOfLayers(t *testing.T) {
	span := func(group string, ms int) gpu.Span {
		return gpu.Span{Label: "step", Group: group, End: time.Duration(ms) * time.Millisecond}
	}
	spans := []gpu.Span{span("model.layers.0.mlp.up_proj", 2), span("model.layers.11.mlp.up_proj", 3), span("h.3.ln_1", 1), span("lm_head", 4), span("", 7)}
	together := layersTogether(spans)
	assert.Equal(t, "model.layers.0.mlp.up_proj", spans[0].Group)
	var out bytes.Buffer
	require.NoError(t, trace.Table(&out, together))
	assert.Regexp(t, `(?m)^model\.layers\.\*\.mlp\.up_proj +2 +5\.000`, out.String())
	assert.Regexp(t, `(?m)^h\.\*\.ln_1 +1 +1\.000`, out.String())
	assert.Regexp(t, `(?m)^lm_head +1 +4\.000`, out.String())
	assert.NotContains(t, out.String(), "layers.0")
}
