package reward

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nan is what says nothing.
var nan = math.NaN()

// equalAnswers compares answers, of which NaN is one.
func equalAnswers(t *testing.T, want, got []float64, of ...any) {
	t.Helper()
	require.Len(t, got, len(want), of...)
	for i := range want {
		assert.False(t, want[i] != got[i] && !(math.IsNaN(want[i]) && math.IsNaN(got[i])), "answer %d: want %v, got %v %v", i, want[i], got[i], of)
	}
}

func opened(t *testing.T, s Spec, e Env) Function {
	t.Helper()
	f, err := open(s, e)
	require.NoError(t, err)
	t.Cleanup(func() { _ = Rewards{{Function: f}}.Close() })
	return f
}

func ids(n int, of ...int32) (all []int32) {
	for i := range n {
		all = append(all, of[i%len(of)])
	}
	return all
}

func TestBuiltIn(t *testing.T) {
	text := func(completion string, wanted any) Sample {
		return Sample{Completion: completion, Columns: map[string]any{"answer": wanted}}
	}
	tokens := func(all []int32) Sample { return Sample{Tokens: all} }
	half, two, near := 0.5, 2.0, 0.01
	for name, c := range map[string]struct {
		spec    Spec
		env     Env
		samples []Sample
		want    []float64
	}{
		"equal": {
			Spec{Kind: "equal", Column: "answer"},
			Env{},
			[]Sample{text(" 42\n", "42"), text("42.", "42"), text("42", 42.0), text("42", json.Number("42")), text("true", true), text("", " "), text("x", nil), text(`["a<b"]`, []any{"a<b"})},
			[]float64{1, 0, 1, 1, 1, 1, nan, 1},
		},
		"number": {
			Spec{Kind: "number", Column: "answer"},
			Env{},
			[]Sample{
				text("3 and 4 make 7.", 7.0), text("1,234,567", "1234567"), text("It is $1,234.50.", 1234.5), text("7", "6 + 1 = 7 #### 7"), text("so -3", -3.0), text("so −3", "-3"),
				text("8-3", 3.0), text("8 - 3", -3.0), text("x-3", 3.0), text("(2)-3", 3.0), text("none", 7.0), text("", 0.0), text("0", 0.0), text("1e-9", 0.0), text("1e400", 1.0), text("5", nil),
				text("1000000.5", 1000000.0), text("1000002", 1000000.0), text("1,2,3", 3.0), text("12,34", 34.0), text("1,2345", 2345.0), text("1234,567", 567.0), text("1.2.3", 3.0), text(".5", 0.5), text("2E3", 2000.0),
				text("2em", 2.0), text("٣", 3.0), text("7 then 1e400", 7.0),
			},
			[]float64{1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, nan, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
		},
		"number, nearly": {
			Spec{Kind: "number", Column: "answer", Tolerance: &near},
			Env{},
			[]Sample{text("101", 100.0), text("99", 100.0), text("101.1", 100.0), text("-100", 100.0), text("-99.5", -100.0)},
			[]float64{1, 1, 0, 0, 1},
		},
		"regex, found": {
			Spec{Kind: "regex", Pattern: `\d\d`}, Env{}, []Sample{text("a 42 b", ""), text("4 2", "")}, []float64{1, 0},
		},
		"regex, whole": {
			Spec{Kind: "regex", Pattern: `\d|\d\d`, Whole: true}, Env{}, []Sample{text(" 42\n", ""), text("4", ""), text("42.", ""), text("a42", "")}, []float64{1, 1, 0, 0},
		},
		"regex, a group": {
			Spec{Kind: "regex", Pattern: `answer: (\w+)`, Column: "answer"},
			Env{},
			[]Sample{text("answer: no, answer: yes", "yes"), text("answer: yes, answer: no", "yes"), text("yes", "yes"), text("answer: 3", 3.0), text("answer: 3", nil)},
			[]float64{1, 0, 0, 1, nan},
		},
		"regex, second group": {
			Spec{Kind: "regex", Pattern: `(a)|(b)`, Column: "answer", Group: 2}, Env{}, []Sample{text("a b", "b"), text("b a", "b"), text("b a", "")}, []float64{1, 0, 1},
		},
		"tags": {
			Spec{Kind: "tags", Tags: []string{"<t>", "</t>", "<a>", "</a>"}},
			Env{},
			[]Sample{
				text("<t>x</t><a>y</a>", ""), text("<t>x</t>y", ""), text("<a>y</a><t>x</t>", ""), text("</t><t></a><a>", ""), text("<t><t>x</t><a>y</a>", ""), text("", ""),
				text("</t><a></a><t>", ""),
			},
			[]float64{1, 0.5, 0.5, 0.5, 0.75, 0, 0.75},
		},
		"length": {
			Spec{Kind: "length", Tokens: 10, Buffer: 4},
			Env{Tokens: 99},
			[]Sample{tokens(nil), tokens(ids(6, 1)), tokens(ids(7, 1)), tokens(ids(9, 1)), tokens(ids(10, 1)), tokens(ids(50, 1))},
			[]float64{0, 0, -0.25, -0.75, -1, -1},
		},
		"length of the run": {
			Spec{Kind: "length", Buffer: 2}, Env{Tokens: 4}, []Sample{tokens(ids(2, 1)), tokens(ids(3, 1)), tokens(ids(4, 1))}, []float64{0, -0.5, -1},
		},
		"repetition": {
			Spec{Kind: "repetition"},
			Env{},
			[]Sample{tokens(nil), tokens(ids(2, 1)), tokens(ids(3, 1)), tokens(ids(6, 1)), tokens(ids(6, 1, 2)), tokens(ids(5, 1, 2, 3, 4, 5)), tokens(ids(4, 1, 1<<24, 1<<16, 1))},
			[]float64{0, 0, 0, -0.75, -0.5, 0, 0},
		},
		"repetition of tokens": {
			Spec{Kind: "repetition", NGram: 1}, Env{}, []Sample{tokens(ids(4, 1, 2))}, []float64{-0.5},
		},
		"scale and offset": {
			Spec{Kind: "equal", Column: "answer", Scale: &two, Offset: -0.5}, Env{}, []Sample{text("a", "a"), text("a", "b"), text("a", nil)}, []float64{1.5, -0.5, nan},
		},
		"a weight is the caller's": {
			Spec{Kind: "equal", Column: "answer", Weight: &half}, Env{}, []Sample{text("a", "a")}, []float64{1},
		},
		"model": {
			Spec{Kind: "model", Model: "judge"}, Env{Model: func(directory string) (Function, error) {
				return Func(func(_ context.Context, samples []Sample) (all []float64, err error) {
					for _, s := range samples {
						all = append(all, float64(len(directory)+len(s.Completion)))
					}
					return all, nil
				}), nil
			}}, []Sample{text("abc", "")}, []float64{8},
		},
	} {
		got, err := opened(t, c.spec, c.env).Rewards(t.Context(), c.samples)
		require.NoError(t, err, name)
		equalAnswers(t, c.want, got, name)
		for _, v := range got {
			assert.False(t, v == 0 && math.Signbit(v), "%s: found -0", name)
		}
	}
}

// What cannot be meant is one line that names the field or the row, and what helps.
func TestWrongSpecs(t *testing.T) {
	infinite := math.Inf(1)
	for _, c := range []struct {
		spec Spec
		says string
	}{
		{Spec{Kind: "numbr"}, `kind: found "numbr", wanted one of equal, number, regex`},
		{Spec{Kind: "numbr"}, `did you mean "number"?`},
		{Spec{Kind: "equal"}, "column: found none, wanted one with kind equal"},
		{Spec{Kind: "equal", Column: "a", Tokens: 3}, "tokens: found 3, wanted none with kind equal, which reads column"},
		{Spec{Kind: "equal", Column: "a", Scale: &infinite}, "scale: found +Inf, wanted a finite number"},
		{Spec{Kind: "regex", Pattern: "("}, "pattern: found \"(\", wanted a regular expression"},
		{Spec{Kind: "regex", Pattern: "a", Column: "b"}, `found 0 groups in "a", wanted 1: group 1 is compared with column "b"`},
		{Spec{Kind: "regex", Pattern: "(a)", Column: "b", Group: 2}, "wanted 2"},
		{Spec{Kind: "regex", Pattern: "(a)", Group: 1}, "group: found 1, wanted none without column"},
		{Spec{Kind: "tags", Tags: []string{"a", ""}}, "found an empty one"},
		{Spec{Kind: "length", Buffer: 4}, "buffer: found 4, wanted at most the 0 tokens"},
		{Spec{Kind: "model", Model: "judge"}, "found none that opens reward models"},
		{Spec{Kind: "command", Name: "tests"}, `reward "tests": command: found none`},
		{Spec{Kind: "command", Command: []string{"gputrain-no-such-program"}}, "wanted a program that may be run, and its arguments as items of the list"},
		{Spec{Kind: "each", Command: []string{"gputrain-no-such-program"}}, "wanted a program that may be run, and its arguments as items of the list"},
		{Spec{Kind: "each", Command: []string{"a"}, Timeout: "0s"}, `timeout: found "0s", wanted a time such as 60s or 5m`},
	} {
		_, err := open(c.spec, Env{AllowCommand: true})
		require.ErrorContains(t, err, c.says)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestWrongRows(t *testing.T) {
	row := func(columns map[string]any) Sample { return Sample{ID: 7, Completion: "1", Columns: columns} }
	for says, c := range map[string]struct {
		kind string
		row  Sample
	}{
		`row 7: found no column "answer", wanted one of ["a" "answr"], did you mean "answr"?`: {"equal", row(map[string]any{"answr": "1", "a": "2"})},
		`row 7: column "answer": found "none", wanted a number in it, or null`:                {"number", row(map[string]any{"answer": "none"})},
		`and 9920 bytes more`: {"number", row(map[string]any{"answer": strings.Repeat("x", 10000)})},
	} {
		all, err := OpenAll([]Spec{{Kind: c.kind, Column: "answer", Name: "sums"}}, Env{})
		require.NoError(t, err)
		_, err = all.Of(t.Context(), []Sample{c.row})
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, `reward "sums": row 7: `)
	}
}

func TestRewardsOfARun(t *testing.T) {
	weight := 0.25
	all, err := OpenAll([]Spec{{Kind: "equal", Column: "a"}, {Kind: "repetition", Name: "again", Weight: &weight}}, Env{})
	require.NoError(t, err)
	assert.Equal(t, []any{"equal", 1.0, "again", 0.25}, []any{all[0].Name, all[0].Weight, all[1].Name, all[1].Weight})
	answers, err := all.Of(t.Context(), []Sample{{Completion: "x", Tokens: ids(6, 1), Columns: map[string]any{"a": "x"}}})
	require.NoError(t, err)
	assert.Equal(t, [][]float64{{1}, {-0.75}}, answers)
	assert.Zero(t, all.Timeouts())
	require.NoError(t, all.Close())
	_, err = OpenAll([]Spec{{Kind: "repetition"}, {Kind: "repetition"}}, Env{})
	require.ErrorContains(t, err, `rewards[1]: found "repetition" twice, wanted a name for each (name: ...)`)

	of := func(answers ...float64) Rewards {
		return Rewards{{Name: "mine", Function: Func(func(context.Context, []Sample) ([]float64, error) { return answers, nil })}}
	}
	_, err = of(1, 2).Of(t.Context(), []Sample{{}})
	require.ErrorContains(t, err, `reward "mine": found 2 answers, wanted 1, one a row`)
	_, err = of(math.Inf(-1)).Of(t.Context(), []Sample{{ID: 3}})
	require.ErrorContains(t, err, `reward "mine": row 3: found -Inf with the weight 0, wanted at most 1e+30, also of both multiplied`)
	heavy := of(1e29)
	heavy[0].Weight = 1e2
	_, err = heavy.Of(t.Context(), []Sample{{ID: 3}})
	require.ErrorContains(t, err, "row 3: found 1e+29 with the weight 100")
}

// A field that a kind does not read is named with its value, and a program by what is wrong with it.
func TestMessages(t *testing.T) {
	half := 0.5
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.sh")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o666))
	for want, s := range map[string]Spec{
		"tolerance: found 0.5, wanted none with kind equal": {Kind: "equal", Column: "a", Tolerance: &half},
		`command "./none.sh": no such file or directory: `:  {Kind: "command", Command: []string{"./none.sh"}},
		`command "./plain.sh": permission denied: `:         {Kind: "each", Command: []string{"./plain.sh"}},
	} {
		_, err := open(s, Env{AllowCommand: true, Dir: dir})
		require.ErrorContains(t, err, want)
	}
	t.Chdir(dir)
	require.NoError(t, os.Chmod(plain, 0o777))
	require.NoError(t, Check([]Spec{{Kind: "command", Command: []string{"./plain.sh"}}}, Env{AllowCommand: true}), "where the process stands")
}
