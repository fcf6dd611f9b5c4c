package train

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNumberKeepsWhatWasMeasured(t *testing.T) {
	for _, v := range []float64{0, 1.5, 1e-300, -3, math.NaN(), math.Inf(1), math.Inf(-1), 0.1} {
		data, err := json.Marshal(Number(v))
		require.NoError(t, err)
		var back Number
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, math.Float64bits(v), math.Float64bits(float64(back)), "%v", v)
	}
	var n Number
	assert.Error(t, json.Unmarshal([]byte(`"much"`), &n))
}

func TestLinesAreRewound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	l, err := openLines(nil, path, 0)
	require.NoError(t, err)
	assert.EqualValues(t, -1, l.last)
	for step := int64(1); step <= 5; step++ {
		require.NoError(t, l.write(Metrics{Step: step, Loss: Number(step)}))
		if step%2 == 0 {
			require.NoError(t, l.write(EvalMetrics{Step: step, Loss: 9}))
		}
	}
	require.NoError(t, l.sync())
	require.NoError(t, l.close())
	whole := textAt(t, path)

	for keep := int64(0); keep <= 6; keep++ {
		// A kill in the middle of a line.
		torn := append(append([]byte{}, whole...), `{"step": 6, "lo`...)
		require.NoError(t, os.WriteFile(path, torn, 0o666))
		require.NoError(t, os.RemoveAll(path+cutSuffix))
		l, err := openLines(nil, path, keep)
		require.NoError(t, err)
		if keep > 0 {
			assert.Equal(t, min(keep, 5), l.last)
		}
		kept, err := l.file.Seek(0, io.SeekCurrent)
		require.NoError(t, err)
		cut := textAt(t, path+cutSuffix)
		assert.Equal(t, string(torn[kept:])+"\n", cut, "nothing is lost")
		for step := keep + 1; step <= 5; step++ {
			require.NoError(t, l.write(Metrics{Step: step, Loss: Number(step)}))
			if step%2 == 0 {
				require.NoError(t, l.write(EvalMetrics{Step: step, Loss: 9}))
			}
		}
		require.NoError(t, l.close())
		again := textAt(t, path)
		assert.Equal(t, whole, again, "kept to step %d", keep)
	}
	steps, evals, damaged, err := readMetrics(path)
	require.NoError(t, err)
	assert.Len(t, steps, 5)
	assert.Len(t, evals, 2)
	assert.Empty(t, damaged)
	steps, _, _, err = readMetrics(path + ".none")
	assert.NoError(t, err)
	assert.Empty(t, steps)
}

// A damaged line takes no other with it: neither those before it nor those behind it.
func TestDamagedLines(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, metricsFile)
	const text = `{"step":1,"loss":5}` + "\n" + `{"step":2,"lo{{{` + "\n" + `{"step":3,"loss":3}` + "\n" + `{"step":"x"}` + "\n" + `{"step":4,"loss":2}` + "\n" + "\x00\x00\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	steps, _, damaged, err := readMetrics(path)
	require.NoError(t, err)
	assert.Len(t, steps, 3)
	assert.Equal(t, []int{2, 4, 6}, damaged)
	_, _, err = ReadMetrics(dir)
	assert.ErrorContains(t, err, "metrics.jsonl: 3 lines cannot be read and are passed over, the first is line 2")

	l, err := openLines(nil, path, 3)
	require.NoError(t, err)
	require.NoError(t, l.close())
	assert.EqualValues(t, 3, l.last)
	assert.Equal(t, 1, l.damaged)
	kept := textAt(t, path)
	cut := textAt(t, path+cutSuffix)
	assert.Equal(t, text+"\n", kept+cut)
	assert.Equal(t, 3, strings.Count(kept, "\n"))
}

func TestLogThatIsRefused(t *testing.T) {
	l, err := openLines(nil, filepath.Join(t.TempDir(), metricsFile), 0)
	require.NoError(t, err)
	require.NoError(t, l.close())
	for _, err := range []error{l.write(Metrics{Step: 1}), l.sync()} {
		require.ErrorIs(t, err, os.ErrClosed)
		assert.Equal(t, kindCheckpoint, KindOf(err))
	}
}

func TestWindow(t *testing.T) {
	var w window
	assert.True(t, math.IsNaN(w.mean()))
	for i := range 40 {
		w.add(float64(i))
		w.add(math.Inf(1))
	}
	assert.Len(t, w.losses, windowSize)
	assert.InDelta(t, 23.5, w.mean(), 1e-12, "mean of 8 .. 39")
}

// Means are over the time of the steps, not over the steps.
func TestMeanOfSteps(t *testing.T) {
	line := func(ms, tokens, positions, wait, norm, clipped float64) Metrics {
		return Metrics{GradNorm: Number(norm), GradNormClipped: Number(clipped), Cost: Cost{
			StepMS: Number(ms), TokensPerSecond: Number(tokens / ms * 1000), PaddedTokensPerSecond: Number(positions / ms * 1000),
			MFU: Number(3 / ms), DataWaitMS: Number(wait),
		}}
	}
	var s Status
	s.mean([]Metrics{line(100, 50, 80, 10, 2, 1), line(300, 50, 80, 90, 0.5, 0.5), line(100, 50, 80, 0, 1, 1), line(100, 50, 80, 20, 4, 1)})
	assert.InDelta(t, 200/0.6, float64(s.TokensPerSecond), 1e-9)
	assert.InDelta(t, 320/0.6, float64(s.PaddedTokensPerSecond), 1e-9)
	assert.InDelta(t, 12./600, float64(s.MFU), 1e-12)
	assert.InDelta(t, 0.2, float64(s.DataWait), 1e-12)
	assert.InDelta(t, 0.5, float64(s.Clipped), 1e-12)
	var none Status
	none.mean(nil)
	assert.True(t, math.IsNaN(float64(none.TokensPerSecond)))
}

// Lines of earlier versions have figures under another name.
func TestFiguresOfEarlierLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), metricsFile)
	require.NoError(t, os.WriteFile(file, []byte(`{"step":1,"loss":1,"pairs":{"margin":0.5}}
{"step":1,"eval_loss":1,"eval_pairs":{"margin":2}}
{"step":2,"loss":1,"figures":{"margin":0.75}}
{"step":2,"eval_loss":1,"eval_figures":{"margin":3}}
`), 0o600))
	steps, evals, damaged, err := readMetrics(file)
	require.NoError(t, err)
	assert.Empty(t, damaged)
	for i, want := range []Number{0.5, 0.75} {
		assert.Equal(t, map[string]Number{"margin": want}, steps[i].Figures)
		assert.Equal(t, map[string]Number{"margin": Number(i + 2)}, evals[i].Figures)
	}
}

// FuzzMetricsLine: a line is read as encoding/json reads it, whatever stands in it.
func FuzzMetricsLine(f *testing.F) {
	full := Metrics{
		Step: 7, Loss: 2.5, LearningRate: 1e-3, GradNorm: 1.5, GradNormClipped: 1, Tokens: 1 << 40, Epoch: .25, Skipped: 1, Spikes: 2, LeftOut: "not finite", UpdateNorm: 3, Scale: 4,
		Figures: map[string]Number{"accuracy": .5}, Rollout: map[string]Number{"rewards/a/mean": .5},
		Routing: map[string]Number{"load_balancing": 1.25}, ExpertTokens: [][]int64{{3, 5}, {8, 0}},
		Watched: map[string]Number{"norm/params/a.b": Number(math.Inf(1))},
		Cost: Cost{
			TokensPerSecond: 4, PaddedTokensPerSecond: 5, StepMS: 6, DataWaitMS: 7, RolloutMS: 9, DeviceMS: 8, MFU: .5, DeviceBytes: 1, DevicePeakBytes: 2, HostBytes: 3,
			StageBusy: []Number{.5, .25}, Bubble: .125, Transfer: .0625,
			Cluster: &clusterCost{PassesMS: []Number{5, 6}, Slowest: 1, Transfer: .5, Hidden: .25, Bytes: 9},
		},
	}
	for i, v := 0, reflect.ValueOf(full); i < v.NumField(); i++ {
		require.NotZero(f, v.Field(i).Interface(), v.Type().Field(i).Name)
	}
	for i, v := 0, reflect.ValueOf(full.Cost); i < v.NumField(); i++ {
		require.NotZero(f, v.Field(i).Interface(), v.Type().Field(i).Name)
	}
	line, err := json.Marshal(full)
	require.NoError(f, err)
	for _, seed := range []string{string(line), `{"step":1.5}`, `{"step":1,"loss":null}`, `{"step":1,"loss":"-Infinity","watched":null,"left_out":7}`, `[]`, `{`, `null`, `{"Step":4}`, `{"tokens":null}`, `{"step":1,"figures":{"a":1},"pairs":{"b":"NaN"}}`, `{"step":1,"step":2}`} {
		f.Add([]byte(seed))
	}
	require.True(f, new(Metrics).usual(line), "what a run writes is not left to encoding/json")
	plain := []byte(`{"step":7,"loss":2.5,"learning_rate":0.001,"tokens":64,"tokens_per_second":5257.284522184714,"step_ms":12.173585,"host_bytes":188801024}`)
	require.Less(f, testing.AllocsPerRun(1000, func() { require.NoError(f, new(Metrics).read(plain)) }), 3.0, "a run has a million lines")
	f.Fuzz(func(t *testing.T, line []byte) {
		var want, got Metrics
		wrong := json.Unmarshal(line, &want)
		if err := got.read(line); wrong != nil || err != nil {
			require.Equal(t, wrong, err)
			return
		}
		a, _ := json.Marshal(want) // NaN is not itself
		b, _ := json.Marshal(got)
		require.Equal(t, string(a), string(b))
	})
}
