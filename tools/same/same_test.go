package main

import (
	"encoding/binary"
	"reflect"
	"regexp"
	"testing"
)

var here = &side{root: "/tmp/same-1/old", program: "/tmp/same-1/old.bin/gputrain"}

// What is measured goes, and all else stays.
func TestMaskText(t *testing.T) {
	for text, want := range map[string]string{
		"run directory /tmp/same-1/old/at/0001/run\n":               "run directory ROOT/at/0001/run\n",
		"time 578ms: steps 19%, other 8%\n":                         "time #\n",
		"the run takes about 0.59 s: 8 steps of 28 ms\n":            "the run takes #\n",
		"step 4: validation loss 5.5304 (perplexity 252.235)\n":     "step 4: validation loss 5.5304 (perplexity 252.235)\n",
		"2      divided    1        0.00144  7.66e-05  48.12 KiB\n": "2      divided    1  #\n",
		`"host":{"program_bytes":335544320,"available_bytes":229}`:  `"host":{"program_bytes":335544320,"available_bytes":#}`,
	} {
		if got := maskText(text, here, true); got != want {
			t.Errorf("%q: found %q, wanted %q", text, got, want)
		}
	}
	if got := maskText("takes 2.1 MiB of 8.00 GiB memory", here, false); got != "takes 2.1 MiB of 8.00 GiB memory" {
		t.Errorf("found %q: a given memory is not measured", got)
	}
}

// Losses stay to the last digit; times go, and what one asks for besides.
func TestMaskLines(t *testing.T) {
	got, err := maskLines([]byte(`{"step":1,"loss":5.530389785766602,"step_ms":60.7,"device_bytes":3,"stages":[{"transfer":1,"bytes":2}]}`+"\n"), here, allocated)
	want := `{"loss":5.530389785766602,"stages":[{"bytes":2}],"step":1}` + "\n"
	if err != nil || got != want {
		t.Errorf("found %q, %v, wanted %q", got, err, want)
	}
}

// A difference is what only one side has, by line; one outcome in common is none.
func TestDifferences(t *testing.T) {
	found := differences(outcome{"a": "1\n2\n2\n", "b": "x\n", "c": "1\n2\n", "d": "same\n"}, outcome{"a": "2\n3\n", "c": "2\n1\n", "d": "same\n"})
	want := []difference{
		{"a", []string{"1", "2"}, []string{"3"}},
		{"b", []string{"x"}, []string{"(nothing of this name)"}},
		{"c", []string{"(the same lines in another order)"}, nil},
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("found %q, wanted %q", found, want)
	}
	if found := differencesOfAll([]outcome{{"a": "1"}, {"a": "2"}}, []outcome{{"a": "3"}, {"a": "1"}}); len(found) != 0 {
		t.Errorf("found %q of outcomes that chance makes", found)
	}
	if found := differencesOfAll([]outcome{{"a": "1"}, {"a": "2"}}, []outcome{{"a": "3"}, {"a": "4"}}); len(found) != 1 {
		t.Errorf("found %q, wanted one difference", found)
	}
}

// Only a case all of whose differing lines have a reason has changed on purpose.
func TestOnPurpose(t *testing.T) {
	expected := []*expectation{{cases: regexp.MustCompile(`^plans/key/.*$`), line: regexp.MustCompile(`did you mean`), reason: "shorter"}}
	told := []difference{{"stderr", []string{"unknown key, did you mean x?"}, []string{"unknown: did you mean x?"}}}
	if reasons, all := onPurpose(expected, "plans/key/a", told); !all || !reflect.DeepEqual(reasons, []string{"shorter"}) || !expected[0].met {
		t.Errorf("found %q, %v, %v", reasons, all, expected[0].met)
	}
	if _, all := onPurpose(expected, "runs/a", told); all {
		t.Error("another case's difference is taken for one on purpose")
	}
	if _, all := onPurpose(expected, "plans/key/a", append(told, difference{"exit code", []string{"2"}, []string{"0"}})); all {
		t.Error("another exit code is taken for a change on purpose")
	}
}

// Records of events are known by their lengths.
func TestEventShape(t *testing.T) {
	record := func(n int) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(n)), make([]byte, 8+n)...)
	}
	if got := eventShape(append(record(3), record(20)...)); got != "3\n20\n" {
		t.Errorf("found %q", got)
	}
	if got := eventShape(append(record(3), record(20)[:30]...)); got != "3\ncut off\n" {
		t.Errorf("found %q", got)
	}
}

// The place where texts of shaders are kept is known by its declaration.
func TestSlotFunction(t *testing.T) {
	found := slotFunction.FindStringSubmatch("\nfunc (c *pipelineCache) slot(k *Kernel) *pipelineSlot {\n\tc.mu.Lock()\n")
	if len(found) != 2 || found[1] != "k" {
		t.Errorf("found %q", found)
	}
}
