package graph

import (
	"fmt"
	"math"
)

// Sample draws a column of each row. Inputs: logits [R,V], uniforms [R], each in [0, 1), and temperatures [R]. Output: [R,2], the column, which is
// exact in f32 as V is at most 2^20, and its log-probability. It is the first column up to which, in their order, the probabilities
// softmax(logits/temperature) add up to more than the row's uniform number. With a temperature below 2^-20 it is the greatest logit's, of equals the
// first, and its log-probability that of softmax(logits).
type Sample struct{}

// coldest is the least temperature at which a Sample draws.
const coldest = 1.0 / (1 << 20)

func (Sample) Kind() string { return "sample" }

func (Sample) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	x := in[0].Shape()
	if len(x) != 2 || x[1] < 1 || x[1] > 1<<20 {
		return nil, fmt.Errorf("logits have shape %v, want [rows columns], of 1 to %d columns", x, 1<<20)
	}
	if err := wantShape("uniforms", in[1], x[0]); err != nil {
		return nil, err
	}
	return []Type{F32(x[0], 2)}, wantShape("temperatures", in[2], x[0])
}

// FLOPs is 4 a logit.
func (Sample) FLOPs(n *Node) int64 { return 4 * int64(n.Inputs[0].typ.Elements()) }

// Eval is the definition.
func (Sample) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	rows, columns := in[0].Shape[0], in[0].Shape[1]
	out := NewArray([]int{rows, 2})
	for r := range rows {
		d := newDrawing(in[0].Data[r*columns:(r+1)*columns], in[2].Data[r])
		column, sum := d.greatest, 0.0
		for i := 0; i < columns && !d.cold; i++ {
			if p := d.probability(i); p > 0 {
				column = i
				if sum += p; sum > in[1].Data[r] {
					break
				}
			}
		}
		out.Data[2*r], out.Data[2*r+1] = float64(column), d.logProbability(column)
	}
	return []*Array{out}
}

// drawing is the distribution of a row.
type drawing struct {
	logits   []float64
	scale    float64 // of a logit
	lse      float64 // of scaled logits
	greatest int
	cold     bool
}

func newDrawing(logits []float64, temperature float64) drawing {
	d := drawing{logits: logits, cold: temperature < coldest, scale: 1}
	if !d.cold {
		d.scale = 1 / temperature
	}
	scaled := make([]float64, len(logits))
	for i, x := range logits {
		scaled[i] = x * d.scale
		if x > logits[d.greatest] {
			d.greatest = i
		}
	}
	d.lse = logSumExp(scaled)
	return d
}

func (d drawing) logProbability(column int) float64 { return d.logits[column]*d.scale - d.lse }

func (d drawing) probability(column int) float64 { return math.Exp(d.logProbability(column)) }

// Off is how far a column and its log-probability are from what a row's logits ask for: the greater of the error of the log-probability, over
// 1 + its size, and of the distance of the uniform number to the interval of the column. Sums that are rounded otherwise draw the next column where
// the number is at an end of an interval, so that columns themselves are not compared. 1: a column that must not be drawn.
func (Sample) Off(logits []float64, uniform, temperature float64, column int, logProbability float64) float64 {
	d := newDrawing(logits, temperature)
	if column < 0 || column >= len(logits) || d.cold && column != d.greatest || d.probability(column) < 1e-37 {
		return 1
	}
	want := d.logProbability(column)
	off := math.Abs(logProbability-want) / (1 + math.Abs(want))
	if d.cold {
		return off
	}
	before := 0.0
	for i := range column {
		before += d.probability(i)
	}
	return max(off, before-uniform, uniform-before-d.probability(column)) // NaN stays
}
