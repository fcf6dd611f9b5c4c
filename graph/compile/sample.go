package compile

import (
	"fmt"
	"math"
	"strconv"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.Sample{}, Lowering{Lower: lowerSample, Checks: sampleChecks})
}

// sampleParams is Params of sample_sums.wgsl and sample_column.wgsl.
type sampleParams struct{ Columns, Stride, Chunks, Unused uint32 }

// checkedSamples are the temperatures, which rows take in turn, and the rows of columns, of a check: with uniforms at both ends, equal logits, all mass at the first and the
// last column, and logits that are none.
var checkedSamples = struct {
	temperatures []float64
	columns      []int
	uniforms     []float64
}{[]float64{1, 0, 0.3}, []int{1, 70, 4099, 9000}, []float64{0, 1 - 1.0/(1<<24), 0.5, 0.25, 0.73, 0.1, 0.9}}

var sampleChecks = []Check{{
	Name: "sample", Tolerance: 256, Given: givenSamples(), Judge: judgeSamples,
	Build: func(g *graph.Graph) (values []*graph.Value) {
		s := checkedSamples
		uniforms := checkedInput(g, "uniforms", len(s.uniforms))
		for i := range s.temperatures {
			for _, columns := range s.columns {
				logits := checkedInput(g, fmt.Sprint("logits", columns), len(s.uniforms), columns)
				values = append(values, g.Append(graph.Sample{}, logits, uniforms, checkedInput(g, fmt.Sprint("temperatures", i), len(s.uniforms))).Outputs[0])
			}
		}
		return values
	},
}}

func givenSamples() map[string][]float64 {
	s := checkedSamples
	given := map[string][]float64{"uniforms": s.uniforms}
	for i := range s.temperatures {
		for row := range s.uniforms {
			name := fmt.Sprint("temperatures", i)
			given[name] = append(given[name], checkedTemperature(i, row))
		}
	}
	for _, columns := range s.columns {
		logits := make([]float64, len(s.uniforms)*columns)
		for i := range logits {
			row, column := i/columns, i%columns
			logits[i] = float64(float32(4 * math.Sin(float64(7*i))))
			switch {
			case row == 3: // all alike
				logits[i] = 2
			case row == 4 && column < columns-1 || row == 5 && column > 0: // the last alone, the first alone
				logits[i] = math.Inf(-1)
			case row == 6: // two of all mass, of large logits
				logits[i] = -1e9
				if column == columns/3 || column == columns/2 {
					logits[i] = 1e4
				}
			}
		}
		given[fmt.Sprint("logits", columns)] = logits
	}
	return given
}

// checkedTemperature is that of a row of the i-th.
func checkedTemperature(i, row int) float64 {
	all := checkedSamples.temperatures
	return float64(float32(all[(i+row)%len(all)]))
}

func judgeSamples(feeds map[string]*graph.Array, value, element int, got []float32) float64 {
	s := checkedSamples
	columns, row := s.columns[value%len(s.columns)], element/2
	logits := feeds[fmt.Sprint("logits", columns)].Data[row*columns : (row+1)*columns]
	return graph.Sample{}.Off(logits, s.uniforms[row], checkedTemperature(value/len(s.columns), row), int(got[2*row]), float64(got[2*row+1]))
}

// lowerSample makes two passes: the sums of chunks of a row, and the column that they lead to.
func lowerSample(c *Compiler, n *graph.Node) {
	logits, rows, columns := n.Inputs[0], n.Inputs[0].Shape()[0], n.Inputs[0].Shape()[1]
	if rows == 0 {
		return
	}
	kind, stride := rowElement(columns)
	lanes, steps := 64, 16 // a chunk of 4096 columns is read once, and once more from a cache
	if c.limits.Software {
		lanes, steps = 8, 32
	}
	chunks := (columns + 4*lanes*steps - 1) / (4 * lanes * steps)
	flags := map[string]bool{"SCALAR": kind == "f32"}
	constants := map[string]string{"ELEMENT": kind, "LANES": strconv.Itoa(lanes), "STEPS": strconv.Itoa(steps)}
	p := sampleParams{Columns: uint32(columns), Stride: uint32(stride), Chunks: uint32(chunks)}
	in, temperatures := c.One(c.In(logits), "logits"), c.One(c.In(n.Inputs[2]), "temperatures")
	sums := c.One(c.workspace("chunks", rows, chunks, 2), "chunks")
	k := c.kernel("sample_sums", "", shaders.Variant{Flags: flags, Constants: constants})
	c.Dispatch(k, gpu.Grid{X: uint32(chunks), Y: uint32(rows), Z: 1}, p, in, temperatures, sums)
	constants["CHUNKS"], constants["QUADS"] = strconv.Itoa(chunks), strconv.Itoa(lanes*steps)
	k = c.kernel("sample_column", "", shaders.Variant{Flags: flags, Constants: constants})
	c.Dispatch(k, gpu.Grid{X: uint32(rows), Y: 1, Z: 1}, p, in, c.One(c.In(n.Inputs[1]), "uniforms"), temperatures, sums, c.One(c.Out(n.Outputs[0]), "drawn"))
}
