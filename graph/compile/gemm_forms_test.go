package compile

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/shaders"
)

// productForms are ways to make a tile of a product; the first of a size is what the others are compared with.
var productForms = []struct {
	name string
	form shaders.ProductTile
}{
	{"128: K 16", shaders.ProductTile{Rows: 128, Step: 16}},
	{"128: K 16, prefetch", shaders.ProductTile{Rows: 128, Step: 16, Prefetch: true}},
	{"128: K 16, prefetch, two buffers", shaders.ProductTile{Rows: 128, Step: 16, Prefetch: true, Double: true}},
	{"128: K 8, prefetch", shaders.ProductTile{Rows: 128, Step: 8, Prefetch: true}},
	{"128: K 8, prefetch, two buffers", shaders.ProductTile{Rows: 128, Step: 8, Prefetch: true, Double: true}},
	{"64: K 16", shaders.ProductTile{Rows: 64, Step: 16}},
	{"64: K 16, prefetch", shaders.ProductTile{Rows: 64, Step: 16, Prefetch: true}},
	{"64: K 8, prefetch", shaders.ProductTile{Rows: 64, Step: 8, Prefetch: true}},
	{"64: K 8, prefetch, two buffers", shaders.ProductTile{Rows: 64, Step: 8, Prefetch: true, Double: true}},
}

// TestProductForms has the bits of every form of a tile equal those of the first of its size, and on cards says how fast each is.
func TestProductForms(t *testing.T) {
	d, began := gputest.Device(t), time.Now()
	software := d.Limits().Software
	shapes := [][3]int{{4096, 2304, 768}, {4096, 768, 768}, {768, 3072, 4096}, {4096, 4096, 4096}, {1024, 1024, 1024}}
	elements, slice := 4096*4096, 12*time.Millisecond
	if software {
		shapes, elements, slice = [][3]int{{132, 260, 44}, {128, 64, 8}, {96, 136, 100}}, 1<<16, 0
	}
	ctx, rng := context.Background(), rand.New(rand.NewPCG(3, 4))
	raw := make([]byte, 4*elements)
	var places [3]gpu.Range
	for i, name := range []string{"a", "b", "c"} {
		b, err := d.NewBuffer("gputrain.test."+name, uint64(len(raw)))
		require.NoError(t, err)
		defer b.Release()
		places[i] = b.Range(0, uint64(len(raw)))
		for j := 0; j < len(raw); j += 4 {
			binary.LittleEndian.PutUint32(raw[j:], math.Float32bits(float32(rng.Uint32())/(1<<31)-1))
		}
		require.NoError(t, d.Write(places[i], raw))
	}
	clear, crc := make([]byte, len(raw)), crc32.MakeTable(crc32.Castagnoli)
	for _, letters := range forms {
		first := map[string]uint32{} // by size and shape
		var table strings.Builder
		for _, f := range productForms {
			size, _, _ := strings.Cut(f.name, ":")
			v := tiled(f.form.Rows)
			v.as = &f.form
			fmt.Fprintf(&table, "%s  %-34s", formName(letters), f.name)
			for _, s := range shapes {
				r := newFormRun(t, d, v, letters, s, places)
				if r == nil {
					fmt.Fprintf(&table, "%11s", "-")
					continue
				}
				part := raw[:4*s[0]*s[1]]
				of := places[2].Buffer.Range(0, uint64(len(part)))
				require.NoError(t, d.Write(of, clear[:len(part)])) // or what another form has left there would do
				r(1)
				require.NoError(t, d.Read(ctx, part, of))
				key, sum := fmt.Sprint(size, s), crc32.Checksum(part, crc)
				if want, ok := first[key]; ok {
					require.Equal(t, want, sum, "%s %s %v", formName(letters), f.name, s)
				} else {
					first[key] = sum
				}
				flops, best := 2*float64(s[0])*float64(s[1])*float64(s[2]), 0.0
				n := max(1, int(slice.Seconds()*30e12/flops))
				for range 2 {
					best = max(best, flops*float64(n)/r(n).Seconds())
				}
				fmt.Fprintf(&table, "%11.2f", best/1e12)
			}
			table.WriteByte('\n')
		}
		t.Logf("%s, TFLOP/s on %s, M N K %v:\n%s", time.Since(began).Round(time.Second), d.Adapter().Name, shapes, table.String())
	}
}

// newFormRun returns what makes a product so many times and waits; nil where the device does not have the memory for the form.
func newFormRun(t *testing.T, d *gpu.Device, v gemmVariant, letters [2]bool, s [3]int, places [3]gpu.Range) func(n int) time.Duration {
	if v.as.Bytes() > d.Limits().WorkgroupBytes {
		return nil
	}
	m, n, k := s[0], s[1], s[2]
	c, err := newCompiler(graph.New(), nil, limitsAs(d, false))
	require.NoError(t, err)
	place := func(label string, rows, cols int) operand {
		st := c.newStorage(outputStorage, label, uint64(4*rows*cols))
		return operand{span: Span{st: st, Bytes: st.bytes}, row: cols}
	}
	g := gemm{m: m, n: n, k: k, count: 1, transA: letters[0], transB: letters[1], a: place("a", m, k), b: place("b", k, n), c: place("c", m, n)}
	if g.transA {
		g.a.row = m
	}
	if g.transB {
		g.b.row = k
	}
	kernel, _ := v.kernel(c, g)
	grid := gpu.Grid{X: tiles(n, v.tileN), Y: tiles(m, v.tileM), Z: 1}
	params := gemmParams{
		M: uint32(m), N: uint32(n), K: uint32(k), Depth: uint32(k),
		LDA: uint32(g.a.row / 4), LDB: uint32(g.b.row / 4), LDC: uint32(n / 4),
	}
	ranges := []gpu.Range{places[0], places[1], places[2]}
	for i, o := range []operand{g.a, g.b, g.c} {
		ranges[i] = places[i].Buffer.Range(0, o.span.Bytes)
	}
	return func(times int) time.Duration {
		ctx, rec := context.Background(), d.Record("forms")
		for range times {
			rec.Dispatch(kernel, grid, params, ranges...)
		}
		p, err := rec.Program(ctx)
		require.NoError(t, err)
		defer p.Release()
		start := time.Now()
		require.NoError(t, p.Submit(ctx))
		require.NoError(t, d.Wait(ctx))
		return time.Since(start)
	}
}
