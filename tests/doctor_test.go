package tests

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu/gputest"
)

// golden is one of the cases that the program carries with it.
const golden = "../cmd/gputrain/doctor/cases/adamw_basic"

// verdicts are the lines of doctor --json by case.
func verdicts(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	by := map[string]map[string]any{}
	for _, l := range objects(t, text) {
		name := l["case"].(string)
		require.NotContains(t, by, name, "one line a case")
		by[name] = l
	}
	return by
}

// doctor passes a golden case and every kernel, and fails, with exit code 1 and the place, once a single number of the case is changed.
func TestDoctor(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("cases", "adamw_basic"), os.DirFS(golden)))
	r := p.command("doctor", "--cases", "cases", "--json").run(t)
	require.Zero(t, r.code, r.err)
	all := verdicts(t, r.out)
	require.Contains(t, all, "adamw_basic")
	a := gputest.Adapters(t)[0]
	kernels := 0
	for name, v := range all {
		assert.Equal(t, true, v["pass"], name)
		assert.Equal(t, a.Name+" "+a.Backend, v["adapter"])
		assert.LessOrEqual(t, v["max_error"], v["tolerance"], name)
		assert.Contains(t, v, "worst")
		if name[:7] == "kernel/" {
			kernels++
		}
	}
	assert.Greater(t, kernels, 20)
	assert.Positive(t, all["adamw_basic"]["tolerance"])
	assert.Positive(t, all["adamw_basic"]["max_error"], "it has computed something")

	// One case, broken by a change of a thousandth to one expected number.
	p.change(t, "cases/adamw_basic/tensors.safetensors", "expect/5/params/w", 3, 1e-3)
	r = p.command("doctor", "--cases", "cases/adamw_basic", "--json").run(t)
	require.Equal(t, 1, r.code, r.err)
	assert.Contains(t, r.err, "gputrain: doctor: 1 cases failed")
	broken := verdicts(t, r.out)
	assert.Len(t, broken, len(all))
	for name, v := range broken {
		assert.Equal(t, name != "adamw_basic", v["pass"], name)
	}
	assert.InDelta(t, 1e-3, broken["adamw_basic"]["max_error"], 1e-5)
	assert.Greater(t, broken["adamw_basic"]["max_error"], broken["adamw_basic"]["tolerance"])
	assert.Equal(t, "step 5 params/w", broken["adamw_basic"]["worst"])
}

// change adds to one element of an F32 tensor in a safetensors file.
func (p *place) change(t *testing.T, file, tensor string, element int, by float32) {
	t.Helper()
	raw := []byte(read(t, p.path(file)))
	end := 8 + binary.LittleEndian.Uint64(raw)
	var header map[string]struct {
		DType   string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}
	require.NoError(t, json.Unmarshal(raw[8:end], &header))
	require.NotEmpty(t, header[tensor].DType, "no tensor %s", tensor)
	require.Equal(t, "F32", header[tensor].DType)
	at := raw[int(end)+header[tensor].Offsets[0]+4*element:]
	binary.LittleEndian.PutUint32(at, math.Float32bits(math.Float32frombits(binary.LittleEndian.Uint32(at))+by))
	p.write(t, file, string(raw))
}

// A case that cannot be set up fails, says why, and keeps no other from being run.
func TestDoctorOnDamagedCases(t *testing.T) {
	p := newPlace(t)
	sound := read(t, filepath.Join(golden, "case.json"))
	damaged := map[string][2]string{ // what lies in the folder, and what is said of it
		"a kind":    {`{"format_version": 1, "name": "x", "kind": "optimiser"}`, `kind "optimiser", want one of`},
		"a version": {`{"format_version": 2, "name": "x", "kind": "clip"}`, "format_version 2, want 1"},
		"no JSON":   {`{`, "case.json: unexpected end"},
		"tensors":   {`{"format_version": 1, "name": "x", "kind": "clip"}`, "open tensors.safetensors"}, // without tensors
		"z config":  {strings.Replace(sound, `"b1": 0.9`, `"b1": 1.9`, 1), "b1: found 1.9"},
	}
	require.NotEqual(t, sound, damaged["z config"][0])
	for _, name := range []string{"adamw_basic", "zz"} { // before and behind them
		require.NoError(t, os.CopyFS(p.path("cases", name), os.DirFS(golden)))
	}
	require.NoError(t, os.CopyFS(p.path("cases", "z config"), os.DirFS(golden)))
	for name, c := range damaged {
		p.write(t, fmt.Sprintf("cases/%s/case.json", name), c[0])
	}
	r := p.command("doctor", "--cases", "cases", "--json").run(t)
	assert.Equal(t, 1, r.code, r.err)
	assert.Contains(t, r.err, "gputrain: doctor: 5 cases failed")
	kernels := 0
	for name, v := range verdicts(t, r.out) {
		why, broken := damaged[name]
		assert.Equal(t, !broken, v["pass"], name)
		if broken {
			assert.Contains(t, v["error"], why[1])
		} else {
			assert.NotContains(t, v, "error", name)
		}
		if strings.HasPrefix(name, "kernel/") {
			kernels++
		}
		delete(damaged, name)
	}
	assert.Empty(t, damaged, "each has a line")
	assert.Greater(t, kernels, 20)

	r = p.command("doctor", "--cases", "cases/a kind").run(t)
	assert.Equal(t, 1, r.code, r.err)
	assert.Regexp(t, `(?m)^FAIL  a kind +kind "optimiser", want one of`, r.out)
	assert.Regexp(t, `(?m)^  ok  kernel/`, r.out)
	assert.Regexp(t, `(?m)^\d+ passed, 1 failed$`, r.out)
}
