package bitsandbytes

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/internal/dynamic8"
	"gputrain/internal/nf4"
	"gputrain/tests/frugal"
)

// stored is a matrix in the tensors of a file, before they are written.
type stored struct {
	tensors map[string]safetensors.Tensor
	state   map[string]any
}

func (s stored) bytes(name, dtype string, raw []byte, shape ...int) {
	s.tensors[name] = safetensors.Tensor{Name: name, DType: dtype, Shape: shape, Data: func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}}
}

func (s stored) floats(name string, values ...float32) {
	s.tensors[name] = safetensors.Float32s(name, []int{len(values)}, values)
}

// file writes the tensors, with the state as text.
func (s stored) file(t testing.TB) []byte {
	if s.state != nil {
		text, err := json.Marshal(s.state)
		require.NoError(t, err)
		s.bytes("w.weight.quant_state.bitsandbytes__nf4", "U8", text, len(text))
	}
	var all []safetensors.Tensor
	for _, tensor := range s.tensors {
		all = append(all, tensor)
	}
	var out bytes.Buffer
	require.NoError(t, safetensors.Write(&out, all, nil))
	return out.Bytes()
}

// store quantizes x with blocks of some length, which are made of equal ones here, nested or not.
func store(x []float32, block int, dtype string, double bool, shape ...int) (s stored, maxima []float32) {
	s = stored{tensors: map[string]safetensors.Tensor{}, state: map[string]any{"quant_type": "nf4", "blocksize": block, "dtype": dtype, "shape": shape}}
	codes := make([]byte, (len(x)+1)/2)
	for from := 0; from < len(x); from += block {
		part := x[from:min(len(x), from+block)]
		top := float32(0)
		for _, v := range part {
			top = max(top, float32(math.Abs(float64(v))))
		}
		maxima = append(maxima, top)
		one, own := make([]byte, 1), make([]float32, 1)
		for i, v := range part { // by the pair (v, top), whose first code is v's
			nf4.Quantize(one, own, []float32{v, top})
			codes[(from+i)/2] |= one[0] >> 4 << (4 * (1 - (from+i)%2))
		}
	}
	s.bytes("w.weight", "U8", codes, len(codes), 1)
	s.floats("w.weight.quant_map", nf4.Levels[:]...)
	if !double {
		s.floats("w.weight.absmax", maxima...)
		return s, maxima
	}
	nested := dynamic8.Nest(maxima)
	for i := range maxima {
		maxima[i] = nested.Maximum(i)
	}
	s.bytes("w.weight.absmax", "U8", nested.Codes, len(nested.Codes))
	s.floats("w.weight.nested_absmax", nested.Tops...)
	s.floats("w.weight.nested_quant_map", dynamic8.Map[:]...)
	s.state["nested_blocksize"], s.state["nested_dtype"], s.state["nested_offset"] = 256, "float32", nested.Offset
	return s, maxima
}

func open(t testing.TB, raw []byte) (*Matrix, error) {
	f, err := safetensors.Parse(raw)
	require.NoError(t, err)
	return Open(finder(f), "w.weight")
}

func finder(f *safetensors.File) func(string) *safetensors.File {
	return func(name string) *safetensors.File {
		if _, _, ok := f.Info(name); !ok {
			return nil
		}
		return f
	}
}

func normal(n int) []float32 {
	rng, x := rand.New(rand.NewPCG(5, 6)), make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// Each number is the level of its code times the maximum of its block, rounded to the dtype, wherever reading begins.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		shape  []int
		block  int
		dtype  string
		double bool
	}{
		{[]int{24, 64}, 64, "float32", false},
		{[]int{40, 80}, 64, "bfloat16", true},
		{[]int{7, 33}, 64, "float16", false}, // an odd end, blocks across rows
		{[]int{300, 77}, 128, "bfloat16", true},
		{[]int{3, 5000}, 4096, "float32", true},
		{[]int{1, 1}, 32, "float32", false},
		{[]int{600, 300}, 64, "float32", true}, // longer than what is read at once
	} {
		n := 1
		for _, d := range c.shape {
			n *= d
		}
		x := normal(n)
		s, maxima := store(x, c.block, c.dtype, c.double, c.shape...)
		m, err := open(t, s.file(t))
		require.NoError(t, err)
		require.Equal(t, c.shape, m.Shape)
		short := make([]float32, nf4.Blocks(n))
		if err := m.ReadMaxima(short, 0); c.block < nf4.Block {
			require.ErrorContains(t, err, "blocks of 32 elements, wanted the usual levels and blocks of 64 or more")
		} else {
			require.NoError(t, err)
			for i, v := range short {
				require.Equal(t, maxima[i*nf4.Block/c.block], v)
			}
			require.NoError(t, m.ReadMaxima(short[len(short)-1:], len(short)-1))
			require.Equal(t, maxima[len(maxima)-1], short[len(short)-1])
		}
		nested, err := m.Nested()
		switch {
		case !c.double:
			require.Nil(t, nested)
		case c.block*256%(dynamic8.Group*nf4.Block) == 0:
			require.NoError(t, err)
			for i := range short {
				require.Equal(t, maxima[i*nf4.Block/c.block], nested.Maximum(i), "%v block %d", c.shape, i)
			}
		}
		for _, first := range []int{0, 1, n / 2, n - 1} {
			got := make([]float32, n-first)
			require.NoError(t, m.Read(got, first))
			for i, v := range got {
				at := first + i
				top := float64(maxima[at/c.block])
				level := math.Inf(1)
				for _, l := range nf4.Levels { // of the largest magnitude before nesting, as quantized: within half of the widest step
					if d := math.Abs(float64(l)*top - float64(v)); d < math.Abs(level*top-float64(v)) {
						level = float64(l)
					}
				}
				ulp := map[string]float64{"float32": 0, "bfloat16": 0x1p-8, "float16": 0x1p-11}[c.dtype]
				require.InDelta(t, level*top, float64(v), 1e-7*top+ulp*math.Abs(level*top), "%v element %d", c.shape, at)
				require.InDelta(t, float64(x[at]), float64(v), 0.2*top+0.01, "%v element %d", c.shape, at)
			}
		}
	}
}

// Nested maxima that nf4 has no place for are refused, not nested again.
func TestNestedOfItsOwn(t *testing.T) {
	for want, change := range map[string]func(s stored){
		"in groups of 128 blocks of 64": func(s stored) {
			s.state["nested_blocksize"] = 128
			s.floats("w.weight.nested_absmax", 1, 2)
		},
		"nested with levels of their own": func(s stored) { s.floats("w.weight.nested_quant_map", make([]float32, 256)...) },
		"groups of 256 blocks of 32": func(s stored) {
			s.state["blocksize"] = 32
			s.bytes("w.weight.absmax", "U8", make([]byte, 400), 400)
			s.floats("w.weight.nested_absmax", 1, 2)
		},
	} {
		s, _ := store(normal(200*64), 64, "float32", true, 200, 64)
		change(s)
		m, err := open(t, s.file(t))
		require.NoError(t, err)
		_, err = m.Nested()
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "model.base nf4 takes it")
	}
}

func TestRoundHalf(t *testing.T) {
	for _, c := range [][2]float64{
		{1, 1},
		{1 + 0x1p-11, 1},
		{1 + 3*0x1p-11, 1 + 0x1p-9},
		{-0.1, -0.0999755859375},
		{0x1p-25, 0},
		{3 * 0x1p-25, 0x1p-23},
		{0x1p-14 - 0x1p-25, 0x1p-14},
		{65519, 65504},
		{65520, math.Inf(1)},
		{0, 0},
	} {
		assert.Equal(t, float32(c[1]), Round("float16", float32(c[0])), "%g", c[0])
	}
}

// What a stranger's file says wrongly is an error that names it.
func TestOpenRefuses(t *testing.T) {
	x := normal(200)
	for want, change := range map[string]func(s stored){
		`found it quantized to fp4, wanted nf4`:                      func(s stored) { s.bytes("w.weight.quant_state.bitsandbytes__fp4", "U8", []byte("{}"), 2) },
		`found it quantized to 8 bits, wanted nf4`:                   func(s stored) { s.floats("w.SCB", 1) },
		`quant_type: found "fp4", wanted nf4`:                        func(s stored) { s.state["quant_type"] = "fp4" },
		`blocksize: found 96, wanted a power of two from 32 to 4096`: func(s stored) { s.state["blocksize"] = 96 },
		`blocksize: found 0`:                                         func(s stored) { s.state["blocksize"] = 0 },
		`dtype: found "bfloat", wanted one of float32, bfloat16`:     func(s stored) { s.state["dtype"] = "bfloat" },
		`shape: found none`:                                          func(s stored) { delete(s.state, "shape") },
		`shape: found [-4 50]`:                                       func(s stored) { s.state["shape"] = []int{-4, 50} },
		`shape: found [2147483647 2147483647 2147483647]`:            func(s stored) { s.state["shape"] = []int{math.MaxInt32, math.MaxInt32, math.MaxInt32} },
		`wanted 5000 elements of U8`:                                 func(s stored) { s.state["shape"] = []int{100, 100} },
		`"w.weight.absmax": found U8 of shape [4], wanted 4 elements`: func(s stored) {
			delete(s.state, "nested_offset")
			delete(s.state, "nested_blocksize")
			delete(s.state, "nested_dtype")
		},
		`nested_offset: found none`:                         func(s stored) { delete(s.state, "nested_offset") },
		`nested_blocksize: found 3`:                         func(s stored) { s.state["nested_blocksize"] = 3 },
		`nested_dtype: found "float16"`:                     func(s stored) { s.state["nested_dtype"] = "float16" },
		`found no "w.weight.nested_quant_map"`:              func(s stored) { delete(s.tensors, "w.weight.nested_quant_map") },
		`found no "w.weight.quant_state.bitsandbytes__nf4"`: func(s stored) { clear(s.state); delete(s.tensors, "w.weight.quant_map"); s.state["x"] = 1 },
	} {
		s, _ := store(x, 64, "float32", true, 4, 50)
		change(s)
		if _, only := s.state["x"]; only {
			s.state = nil
		}
		_, err := open(t, s.file(t))
		assert.ErrorContains(t, err, want)
	}
}

// FuzzOpen opens files of strangers and reads what opens.
func FuzzOpen(f *testing.F) {
	for _, double := range []bool{false, true} {
		s, _ := store(normal(150), 64, "bfloat16", double, 3, 50)
		f.Add(s.file(f))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		frugal.Parse(t, len(raw), func() {
			file, err := safetensors.Parse(raw)
			if err != nil {
				return
			}
			m, err := Open(finder(file), "w.weight")
			if err != nil {
				return
			}
			if err := m.Read(make([]float32, min(m.Elements(), 1000)), 0); err != nil {
				t.Errorf("%v: opened, and not readable: %v", m.Shape, err)
			}
			if n, err := m.Nested(); err == nil && n != nil {
				n.Maximum(nf4.Blocks(m.Elements()) - 1)
			}
		})
	})
}
