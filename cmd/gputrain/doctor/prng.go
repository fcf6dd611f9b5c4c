package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/internal/suggest"
)

// prngCase is case.json of kind prng.
type prngCase struct {
	Entries   []prngEntry `json:"entries"`
	Table     []float32   `json:"bf16_table"`
	Tolerance struct {
		F32  tolerance `json:"normal_f32"`
		BF16 tolerance `json:"normal_bf16"`
	} `json:"tolerance"`
}

type prngEntry struct {
	Op     string          `json:"op"`
	Seed   uint64          `json:"seed"`
	Key    prng.Key        `json:"key"`
	Data   uint32          `json:"data"`
	N      int             `json:"n"`
	DType  string          `json:"dtype"`
	Tensor string          `json:"tensor"`
	Out    json.RawMessage `json:"out"`
}

// prngOps that the format has.
var prngOps = []string{"key", "fold_in", "split", "bits32", "normal"}

// runPRNG compares the generator of the host and that of the device.
func runPRNG(ctx context.Context, dev *gpu.Device, c *goldenCase) (*comparison, error) {
	var file prngCase
	if err := c.decode(&file); err != nil {
		return nil, err
	}
	if len(file.Entries) == 0 {
		return nil, fmt.Errorf("entries: found none")
	}
	seen := &comparison{}
	for i, e := range file.Entries {
		where := fmt.Sprintf("entry %d %s", i, e.Op)
		var err error
		switch e.Op {
		case "key", "fold_in", "split":
			err = seen.keys(ctx, dev, where, e)
		case "bits32":
			err = seen.bits(ctx, dev, where, e)
		case "normal":
			err = c.normals(ctx, dev, where, e, &file, seen)
		default:
			err = fmt.Errorf("op %q, want one of %s%s", e.Op, strings.Join(prngOps, ", "), suggest.DidYouMean(e.Op, prngOps))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
	}
	return seen, seen.table(ctx, dev, file)
}

// keys compares derived keys. The device draws, and does not derive by itself: a draw is the exclusive or of the two words of the key that
// is derived from the draw's index.
func (c *comparison) keys(ctx context.Context, dev *gpu.Device, where string, e prngEntry) error {
	var got, want []prng.Key
	if e.Op == "split" {
		got, want = e.Key.Split(e.N), nil
		if err := json.Unmarshal(e.Out, &want); err != nil {
			return err
		}
	} else {
		want = make([]prng.Key, 1)
		if err := json.Unmarshal(e.Out, &want[0]); err != nil {
			return err
		}
		got = []prng.Key{prng.NewKey(e.Seed)}
		if e.Op == "fold_in" {
			got[0] = e.Key.FoldIn(e.Data)
		}
	}
	if len(got) != len(want) {
		c.fail(fmt.Sprintf("%s: %d keys, want %d", where, len(got), len(want)))
		return nil
	}
	for i, w := range want {
		for word := range w {
			c.number(where+" host", float64(got[i][word]), float64(w[word]), 0)
		}
	}
	if e.Op == "key" {
		return nil
	}
	draws, err := buffers.Draws(ctx, dev, e.Key, uint64(e.Data), len(want))
	for i, d := range draws {
		c.number(where+" device", float64(d.Bits), float64(want[i][0]^want[i][1]), 0)
	}
	return err
}

func (c *comparison) bits(ctx context.Context, dev *gpu.Device, where string, e prngEntry) error {
	var want []uint32
	if err := json.Unmarshal(e.Out, &want); err != nil {
		return err
	}
	draws, err := buffers.Draws(ctx, dev, e.Key, 0, len(want))
	for i, d := range draws {
		c.number(where+" host", float64(e.Key.Bits32(uint64(i))), float64(want[i]), 0)
		c.number(where+" device", float64(d.Bits), float64(want[i]), 0)
	}
	return err
}

func (g *goldenCase) normals(ctx context.Context, dev *gpu.Device, where string, e prngEntry, file *prngCase, c *comparison) error {
	want, err := g.tensors.Float32(e.Tensor)
	if err != nil {
		return err
	}
	draws, err := buffers.Draws(ctx, dev, e.Key, 0, len(want))
	if err != nil {
		return err
	}
	host, device, tol := make([]float32, len(want)), make([]float32, len(want)), file.Tolerance.F32
	for i, d := range draws {
		host[i], device[i] = e.Key.Normal(uint64(i)), d.Normal
		if e.DType == "bfloat16" {
			host[i], device[i], tol = e.Key.NormalBF16(uint64(i)), d.BF16, file.Tolerance.BF16
		}
	}
	c.tensor(where+" host", host, want, tol)
	c.tensor(where+" device", device, want, tol)
	if e.DType == "bfloat16" && !exactBF16(slices.Concat(host, device)) {
		c.fail(where + ": not exactly bf16")
	}
	return nil
}

// table looks all values of a bf16 draw up by drawing until each has come.
func (c *comparison) table(ctx context.Context, dev *gpu.Device, file prngCase) error {
	if len(file.Table) == 0 {
		return nil
	}
	key, missing := prng.NewKey(7), map[int]bool{}
	for j := range file.Table {
		missing[j] = true
	}
	draws, err := buffers.Draws(ctx, dev, key, 0, 64*len(file.Table))
	for i, d := range draws {
		j := int(key.Bits32(uint64(i)) & 0xff >> 1)
		if j >= len(file.Table) {
			c.fail(fmt.Sprintf("bf16_table: %d values, want more than %d", len(file.Table), j))
			return nil
		}
		delete(missing, j)
		c.near("bf16_table host", float64(key.NormalBF16(uint64(i))), float64(file.Table[j]), file.Tolerance.BF16)
		c.near("bf16_table device", float64(d.BF16), float64(file.Table[j]), file.Tolerance.BF16)
	}
	if err == nil && len(missing) > 0 {
		c.fail(fmt.Sprintf("bf16_table: %d of %d values have not come", len(missing), len(file.Table)))
	}
	return err
}
