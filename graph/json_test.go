package graph

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// TestJSONRoundTrip takes every gradient case, backward pass included, through JSON: the graph is the same in text, in JSON
// and in all its numbers.
func TestJSONRoundTrip(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(gradientCases)) {
		t.Run(name, func(t *testing.T) {
			p := newProblem()
			loss := gradientCases[name](p)
			if len(loss.Shape()) > 0 {
				loss = p.weighted(loss)
			}
			grads, err := Gradients(p.Graph, loss, p.wrt)
			require.NoError(t, err)
			data, err := json.Marshal(p.Graph)
			require.NoError(t, err)

			var back Graph
			require.NoError(t, json.Unmarshal(data, &back))
			assert.Equal(t, p.String(), back.String())
			again, err := json.Marshal(&back)
			require.NoError(t, err)
			assert.Equal(t, string(data), string(again))

			want, err := Eval(p.Graph, p.feeds, append(grads, loss)...)
			require.NoError(t, err)
			values := make([]*Value, 0, len(grads)+1)
			for _, v := range append(grads, loss) {
				values = append(values, back.Nodes()[v.Node().ID].Outputs[v.Index()])
			}
			got, err := Eval(&back, p.feeds, values...)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestJSONForm(t *testing.T) {
	g := New()
	w := g.Param("h.0.fc.weight", 5, 4)
	g.MatMul(g.Input("x", F32(3, 4)), w, false, true)
	data, err := json.Marshal(g)
	require.NoError(t, err)
	assert.JSONEq(t, `{"version":1,"nodes":[
		{"kind":"param","label":"h.0.fc.weight","attr":{"path":"h.0.fc.weight","shape":[5,4]}},
		{"kind":"input","label":"x","attr":{"name":"x","type":{"shape":[3,4],"dtype":"f32"}}},
		{"kind":"matmul","label":"h.0.fc","attr":{"trans_b":true},"inputs":[[1,0],[0,0]]}]}`, string(data))
}

func TestJSONErrors(t *testing.T) {
	x := `{"kind":"input","attr":{"name":"x","type":{"shape":[3,4],"dtype":"f32"}}}`
	for text, want := range map[string]string{
		`{"version":2,"nodes":[]}`:                                                                             `graph: decode: version 2, want 1`,
		`{"version":1,"node":[]}`:                                                                              `graph: decode: unknown key "node", did you mean "nodes"?`,
		`{"version":1,"nodes":[{"kin":"input"}]}`:                                                              `graph: decode: node 0: unknown key "kin", did you mean "kind"?`,
		`{"version":1,"nodes":[{"kind":"matmull"}]}`:                                                           `graph: decode: node 0: unknown kind "matmull", did you mean "matmul"?`,
		`{"version":1,"nodes":[{"kind":"zzzzzz"}]}`:                                                            `graph: decode: node 0: unknown kind "zzzzzz"`,
		`{"version":1,"nodes":[{"kind":"matmul","attr":{"transB":1}}]}`:                                        `graph: decode: node 0: matmul: unknown key "transB", did you mean "trans_b"?`,
		`{"version":1,"nodes":[{"kind":"matmul","attr":{"Trans_B":true}}]}`:                                    `graph: decode: node 0: matmul: unknown key "Trans_B", did you mean "trans_b"?`,
		`{"version":1,"nodes":[` + x + `,{"kind":"softmax","inputs":[[1,0]]}]}`:                                `graph: decode: node 1: softmax: input 0 is node 1, want an earlier one`,
		`{"version":1,"nodes":[` + x + `,{"kind":"softmax","inputs":[[0,1]]}]}`:                                `graph: decode: node 1: softmax: input 0 is output 1 of node 0, which has 1`,
		`{"version":1,"nodes":[` + x + `,` + x + `]}`:                                                          `graph: decode: node 1: input "x" appears twice`,
		`{"version":1,"nodes":[` + x + `,{"kind":"reduce","attr":{"fn":"summ","axes":[0]},"inputs":[[0,0]]}]}`: `graph: decode: node 1: graph: reduce #1: unknown function "summ", did you mean "sum"?`,
		`{"version":1,"nodes":[{"kind":"input","attr":{"name":"x","type":{"shape":[1],"dtype":"f33"}}}]}`:      `graph: decode: node 0: input: array: parse dtype: "f33", want f32, bf16, i32 or u32`,
	} {
		var g Graph
		assert.EqualError(t, g.UnmarshalJSON([]byte(text)), want, text)
		assert.Empty(t, g.Nodes())
	}
}

// FuzzJSON: what decodes, encodes to the same graph; nothing panics.
func FuzzJSON(f *testing.F) {
	for _, name := range []string{"attention grouped", "head loss", "layer norm", "slices", "dropout", "mean keep"} {
		p := newProblem()
		gradientCases[name](p)
		data, err := json.Marshal(p.Graph)
		require.NoError(f, err)
		f.Add(string(data))
		f.Add(strings.ReplaceAll(string(data), "2", "-9223372036854775808"))
		f.Add(strings.ReplaceAll(string(data), "3", "9223372036854775807"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		frugal.Parse(t, len(text), func() {
			var g, back Graph
			if json.Unmarshal([]byte(text), &g) != nil {
				return
			}
			data, err := json.Marshal(&g)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &back))
			assert.Equal(t, g.String(), back.String())
		})
	})
}
