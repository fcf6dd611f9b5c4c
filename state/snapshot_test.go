package state

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// parts is a training state whose leaves lie in several trees, dealt out in turn, so that the rows of the dense stack are interleaved.
type parts struct {
	t             *testing.T
	dev           *gpu.Device
	tx            optim.Transform
	params, grads []*buffers.Tree
	states        []*optim.State
}

// newParts makes the first parts of n, and all of them where most is n.
func newParts(t *testing.T, dev *gpu.Device, c Config, hosts []buffers.Host, n, most int) *parts {
	t.Helper()
	p := &parts{t: t, dev: dev}
	var err error
	p.tx, err = Job{c}.Transform()
	require.NoError(t, err)
	whole := make([]buffers.Spec, len(hosts))
	for i, h := range hosts {
		whole[i] = buffers.Spec{Path: h.Path, Shape: h.Shape}
	}
	for part := range most {
		var own []buffers.Host
		for i, h := range hosts {
			if i%n == part {
				own = append(own, h)
			}
		}
		params, err := buffers.Upload(dev, "params", own, buffers.F32)
		require.NoError(t, err)
		t.Cleanup(params.Release)
		grads, err := buffers.NewTree(dev, "grads", params.Layout(), buffers.F32)
		require.NoError(t, err)
		t.Cleanup(grads.Release)
		s, err := p.tx.InitStage(params, whole)
		require.NoError(t, err)
		t.Cleanup(s.Release)
		p.params, p.grads, p.states = append(p.params, params), append(p.grads, grads), append(p.states, s)
	}
	return p
}

func (p *parts) snapshot(of snapshot) snapshot {
	of.Params, of.Grads, of.States = p.params, p.grads, p.states
	return of
}

// partOptimizers are those with every kind of state: trees in f32, bf16 and eight bits, factors of leaves, the dense stack with blocks of several
// sizes in f32 and bf16, rows and columns, none.
var partOptimizers = map[string]string{
	"adamw":     `{"mu_dtype":"bf16"}`,
	"mars":      `{"state_dtype":"8bit"}`,
	"quad":      `{"block_size":20,"max_size_dense":40}`,
	"skew":      `{"block_size":12,"dtype":"bf16","refresh":{"every":2}}`,
	"muon":      `{}`,
	"adafactor": `{"min_dim_size_to_factor":16,"momentum":0.9}`,
}

// partConfig trains with one of them.
func partConfig(t testing.TB, name string) Config {
	t.Helper()
	c := tinyConfig(t)
	if name == "mars" {
		c.Definition = wideModel(t)
	}
	c.Optimizer.Name, c.Optimizer.Parameters = name, json.RawMessage(partOptimizers[name])
	return c
}

// Tensors that are missing, that nobody asked for, or that are of other blocks are refused over all states together.
func TestRestoreIntoTheWrongParts(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	c.Optimizer.Name, c.Optimizer.Parameters = "quad", json.RawMessage(`{"block_size":12}`)
	s := create(t, dev, c)
	train(t, s, 1)
	dir := filepath.Join(t.TempDir(), checkpoint.DirName(1))
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
	saved, err := ReadCheckpoint(c, dir)
	require.NoError(t, err)

	some := newParts(t, dev, c, saved.Params, 3, 2)
	err = saved.Restore(some.states...)
	require.ErrorIs(t, err, checkpoint.Err)
	require.ErrorContains(t, err, `tensor "dense/Ll": row `)
	require.ErrorContains(t, err, "is missing")

	adam := c
	adam.Optimizer = tinyOptimizer()
	other := newParts(t, dev, adam, saved.Params, 3, 3)
	require.ErrorIs(t, saved.Restore(other.states...), checkpoint.ErrMismatch)
	require.ErrorContains(t, saved.Restore(other.states...), `tensor "nu/h.0.attn.c_attn.bias": missing`)

	blocks := c
	blocks.Optimizer.Parameters = json.RawMessage(`{"block_size":13}`)
	smaller := newParts(t, dev, blocks, saved.Params, 3, 3)
	require.ErrorIs(t, saved.Restore(smaller.states...), checkpoint.ErrMismatch)
	require.ErrorContains(t, saved.Restore(smaller.states...), `tensor "dense/Ll": F32 [`)

	sgd := c
	sgd.Optimizer.Name, sgd.Optimizer.Parameters = "sgd", nil
	none := newParts(t, dev, sgd, saved.Params, 3, 3)
	require.ErrorIs(t, saved.Restore(none.states...), checkpoint.ErrMismatch)
	require.ErrorContains(t, saved.Restore(none.states...), `is not one of this optimizer's`)
}

// What does not belong together is not saved as if it did.
func TestSnapshotsThatAreNotOneState(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	s := create(t, dev, c)
	p := newParts(t, dev, c, mustHosts(t, s), 3, 3)
	path := filepath.Join(t.TempDir(), checkpoint.DirName(0))
	good := p.snapshot(s.snapshot())
	for want, edit := range map[string]func(*snapshot){
		`params: "h.0.attn.c_attn.weight" is missing`:       func(s *snapshot) { s.Params = s.Params[:1] },
		`params: "h.0.attn.c_attn.bias" is in two trees`:    func(s *snapshot) { s.Params = append(s.Params[:3:3], s.Params...) },
		`optimizer: no state`:                               func(s *snapshot) { s.States = nil },
		`tensor "mu/h.0.attn.c_attn.bias": given more than`: func(s *snapshot) { s.States = append(s.States[:3:3], s.States...) },
	} {
		bad := good
		edit(&bad)
		var save *checkpoint.SaveError
		err := bad.Save(t.Context(), path, checkpoint.Run{})
		require.ErrorAs(t, err, &save, want)
		assert.ErrorContains(t, err, want)
	}
	_, err := p.states[2].Prepare()
	require.NoError(t, err)
	err = good.Save(t.Context(), path, checkpoint.Run{})
	require.ErrorIs(t, err, checkpoint.Err)
	require.ErrorContains(t, err, "in state 2: they are not of one step")
	require.NoDirExists(t, path)
}

func mustHosts(t *testing.T, s *TrainState) []buffers.Host {
	t.Helper()
	hosts, err := s.Params().Download(t.Context())
	require.NoError(t, err)
	return hosts
}

// The first tensor that is not finite, the refusal to save it and the room that a checkpoint takes are those of the whole.
func TestSnapshotOfPartsIsScannedAndMeasuredAsTheWhole(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	c.FS = disk{checkpoint.OS, 1}
	s := create(t, dev, c)
	p := newParts(t, dev, c, mustHosts(t, s), 3, 3)
	got := p.snapshot(s.snapshot())
	var whole, divided *checkpoint.SpaceError
	_, _, err := s.CheckSpace(t.Context(), t.TempDir(), 1)
	require.ErrorAs(t, err, &whole)
	_, _, err = got.CheckSpace(t.Context(), t.TempDir(), 1)
	require.ErrorAs(t, err, &divided)
	assert.Equal(t, whole, divided)

	first := func() string {
		t.Helper()
		name, err := got.FirstNonFinite(t.Context())
		require.NoError(t, err)
		return name
	}
	assert.Empty(t, first())
	nan := float32(math.NaN())
	poison := func(trees []*buffers.Tree, path string) {
		t.Helper()
		for _, tree := range trees {
			if leaf, ok := tree.Layout().Leaf(path); ok {
				data := make([]float32, leaf.Elements())
				data[len(data)-1] = nan
				require.NoError(t, tree.Write(path, data))
				return
			}
		}
		t.Fatalf("no leaf %q", path)
	}
	for _, tensor := range p.states[1].Tensors() {
		if strings.HasPrefix(tensor.Name, "nu/") {
			raw, err := tensor.Read(t.Context())
			require.NoError(t, err)
			copy(raw[len(raw)-4:], []byte{0, 0, 0x80, 0x7f})
			require.NoError(t, tensor.Write(raw))
			assert.Equal(t, tensor.Name, first())
			break
		}
	}
	got.FS = nil
	require.ErrorIs(t, got.Save(context.Background(), filepath.Join(t.TempDir(), checkpoint.DirName(0)), checkpoint.Run{}), checkpoint.ErrNonFinite)
	poison(p.grads, "wte.weight")
	assert.Equal(t, "grads/wte.weight", first())
	poison(p.grads, "h.1.mlp.c_proj.weight")
	assert.Equal(t, "grads/h.1.mlp.c_proj.weight", first(), "in the order of the paths, in whatever part they are")
	poison(p.params, "ln_f.bias")
	assert.Equal(t, "params/ln_f.bias", first())
}
