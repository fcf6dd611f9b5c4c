package model

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/gputest"
)

// onDevice runs a built graph once and returns its named values and its gradients by path.
func onDevice(t *testing.T, dev *gpu.Device, def Definition, built *Built, hosts []array.Host, feeds map[string]*graph.Array) (named, grads map[string][]float32) {
	t.Helper()
	tree, err := buffers.Upload(dev, "test.params", hosts, array.F32)
	require.NoError(t, err)
	defer tree.Release()
	into, err := buffers.NewTree(dev, "test.grads", tree.Layout(), array.F32)
	require.NoError(t, err)
	defer into.Release()
	var targets []compile.Target
	if built.Loss != nil {
		gradients, err := graph.Gradients(built.Graph, built.Loss, built.Params)
		require.NoError(t, err)
		targets = append(targets, compile.Target{Name: "loss", Value: built.Loss})
		for i, p := range def.Params() {
			targets = append(targets, compile.Target{Value: gradients[i], Leaf: p.Path})
		}
	}
	if built.Logits != nil {
		targets = append(targets, compile.Target{Name: "logits", Value: built.Logits})
	}
	p, err := compile.New(t.Context(), dev, built.Graph, compile.Options{Params: tree, Grads: into, Targets: targets})
	require.NoError(t, err)
	defer p.Release()
	for name, typ := range p.Inputs() {
		data := feeds[name].Data
		floats, ints, uints := make([]float32, len(data)), make([]int32, len(data)), make([]uint32, len(data))
		for i, v := range data {
			floats[i], ints[i], uints[i] = float32(v), int32(v), uint32(v)
		}
		switch typ.DType {
		case array.F32:
			require.NoError(t, p.WriteFloats(name, floats))
		case array.I32:
			require.NoError(t, p.WriteInts(name, ints))
		default:
			require.NoError(t, p.WriteUints(name, uints))
		}
	}
	rec := dev.Record("test")
	p.Record(rec)
	require.NoError(t, rec.Submit(t.Context()))
	named, grads = map[string][]float32{}, map[string][]float32{}
	for _, target := range targets {
		if target.Leaf != "" {
			continue
		}
		r := p.Output(target.Name)
		raw := make([]byte, r.Bytes)
		require.NoError(t, dev.Read(t.Context(), raw, r))
		named[target.Name] = array.Decoded(array.F32, raw)
	}
	down, err := into.Download(t.Context())
	require.NoError(t, err)
	for _, h := range down {
		grads[h.Path] = h.Data
	}
	return named, grads
}

// close32 compares f32 with float64: sums of at most a few hundred products of numbers near 1. Gemma 4's scores are not scaled: 2.5 times as much is lost.
func close32(t *testing.T, name string, got []float32, want *graph.Array) {
	t.Helper()
	require.Len(t, got, len(want.Data), name)
	largest, most := 0.0, 1e-5
	if strings.HasPrefix(name, "gemma4") {
		most = 2.5e-5
	}
	for _, w := range want.Data {
		largest = math.Max(largest, math.Abs(w))
	}
	for i, w := range want.Data {
		if diff := math.Abs(float64(got[i]) - w); !(diff <= most*largest+1e-8) {
			assert.Failf(t, "differs", "%s[%d]: got %v, want %v", name, i, got[i], w)
			return
		}
	}
}

// Every definition, in training with dropout where it has it, quantized or not, with its loss, chosen rows of its logits and all gradients, against the
// float64 evaluation of the same graph.
func TestDeviceFollowsTheReference(t *testing.T) {
	dev := gputest.Device(t)
	for _, def := range smallDefinitions(t) {
		rows := 2
		switch def.Kind() {
		case "gpt2":
			var err error
			def, err = WithDropout(def, 0.25)
			require.NoError(t, err)
		case "mlp":
			rows = 0
		}
		quantized, err := WithQuantization(def, Quantization{Mode: "affine", Bits: 3, Group: 32, Match: []string{"weight"}})
		require.NoError(t, err)
		for _, def := range []Definition{def, quantized} {
			feeds, batch, seq := stepFeeds(def, initial(def))
			feeds[InputRows] = arrayOf([]int{2}, []int32{9, 4})
			built, err := def.Build(batch, seq, Options{Loss: true, Logits: true, Rows: rows, Training: true})
			require.NoError(t, err)
			followsReference(t, dev, def, built, Init(def, 5), feeds)
		}
	}
}

// followsReference compares loss, logits and all gradients on a device with the reference evaluation.
func followsReference(t *testing.T, dev *gpu.Device, def Definition, built *Built, hosts []array.Host, feeds map[string]*graph.Array) {
	t.Helper()
	named, grads := onDevice(t, dev, def, built, hosts, feeds)
	gradients, err := graph.Gradients(built.Graph, built.Loss, built.Params)
	require.NoError(t, err)
	want, err := graph.Eval(built.Graph, feeds, append([]*graph.Value{built.Loss, built.Logits}, gradients...)...)
	require.NoError(t, err)
	close32(t, def.Kind()+" loss", named["loss"], want[0])
	close32(t, def.Kind()+" logits", named["logits"], want[1])
	for i, p := range def.Params() {
		close32(t, def.Kind()+" "+p.Path, grads[p.Path], want[2+i])
	}
}
