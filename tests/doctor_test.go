package tests

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
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

// doctor passes a golden case and every kernel, each on a line, and its exit code says so.
func TestDoctor(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "the checks of the packages go through every kernel, TestDoctorOnTokenizers sees the lines and the code")
	p := newPlace(t)
	require.NoError(t, os.CopyFS(p.path("cases", "adamw_basic"), os.DirFS(golden)))
	r := p.command("doctor", "--cases", "cases").run(t)
	require.Zero(t, r.code, "%s%s", r.err, r.out)
	assert.Regexp(t, `(?m)^  ok  adamw_basic +\S`, r.out)
	kernels := len(regexp.MustCompile(`(?m)^  ok  kernel/`).FindAllString(r.out, -1))
	assert.Greater(t, kernels, 20)
	assert.NotContains(t, r.out, "FAIL")
	passed := regexp.MustCompile(`(?m)^(\d+) passed, 0 failed$`).FindStringSubmatch(r.out)
	require.NotNil(t, passed, r.out)
	assert.Greater(t, number(t, passed[1]), float64(kernels))
	assert.Equal(t, 2, p.command("doctor", "--only", "nothing is called so").run(t).code)
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

// doctor fails, with exit code 1 and the place, once a single number of a case is changed. A case that cannot be set up fails and says why. None
// keeps another from being run.
func TestDoctorOnDamagedCases(t *testing.T) {
	t.Parallel()
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
	for _, name := range []string{"adamw_basic", "changed", "z config", "zz"} { // before and after them
		require.NoError(t, os.CopyFS(p.path("cases", name), os.DirFS(golden)))
	}
	for name, c := range damaged {
		p.write(t, fmt.Sprintf("cases/%s/case.json", name), c[0])
	}
	p.change(t, "cases/changed/tensors.safetensors", "expect/5/params/w", 3, 1e-3)     // a change of a thousandth to one expected number
	r := p.command("doctor", "--cases", "cases", "--only", "^[^/]*$", "--json").run(t) // no kernels
	assert.Equal(t, 1, r.code, r.err)
	assert.Contains(t, r.err, "gputrain: doctor: 6 cases failed")
	a := gputest.Adapters(t)[0]
	all := verdicts(t, r.out)
	for name, v := range all {
		why, broken := damaged[name]
		if broken {
			assert.Equal(t, false, v["pass"], name)
			assert.Contains(t, v["error"], why[1])
			delete(damaged, name)
			continue
		}
		assert.NotContains(t, v, "error", name)
		assert.Equal(t, name != "changed", v["pass"], name)
		assert.Equal(t, a.Name+" "+a.Backend, v["adapter"])
		assert.Equal(t, name != "changed", v["max_error"].(float64) <= v["tolerance"].(float64), name)
		assert.Contains(t, v, "worst")
	}
	assert.Empty(t, damaged, "each has a line")
	assert.Len(t, all, 8, "and nothing else")
	require.Contains(t, all, "zz")
	assert.Positive(t, all["zz"]["tolerance"])
	assert.Positive(t, all["zz"]["max_error"], "it has computed something")
	assert.InDelta(t, 1e-3, all["changed"]["max_error"], 1e-5)
	assert.Equal(t, "step 5 params/w", all["changed"]["worst"])
}
