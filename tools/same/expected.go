package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed keep.go.txt
var keepSource string

//go:embed expected.txt
var expectedText string

// expectation is a line of expected.txt: of these cases, differing lines that match are on purpose.
type expectation struct {
	name        string
	cases, line *regexp.Regexp
	reason      string
	met         bool
}

func readExpected() (all []*expectation, err error) {
	for i, text := range strings.Split(expectedText, "\n") {
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Split(text, " | ")
		if len(fields) != 3 {
			return nil, fmt.Errorf("expected.txt:%d: found %d fields, wanted cases | lines | reason", i+1, len(fields))
		}
		e := &expectation{name: fields[0], reason: fields[2]}
		if e.cases, err = regexp.Compile("^(?:" + fields[0] + ")$"); err != nil {
			return nil, fmt.Errorf("expected.txt:%d: %w", i+1, err)
		}
		if e.line, err = regexp.Compile(fields[1]); err != nil {
			return nil, fmt.Errorf("expected.txt:%d: %w", i+1, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// onPurpose are the reasons for the differences of a case, and whether each of their lines has one.
func onPurpose(expected []*expectation, name string, found []difference) (reasons []string, all bool) {
	met := map[*expectation]bool{}
	for _, d := range found {
		for _, line := range append(d.old, d.new...) {
			explained := false
			for _, e := range expected {
				if e.cases.MatchString(name) && e.line.MatchString(line) {
					explained, met[e] = true, true
					break
				}
			}
			if !explained {
				return nil, false
			}
		}
	}
	for _, e := range expected {
		if met[e] {
			e.met = true
			reasons = append(reasons, e.reason)
		}
	}
	return reasons, true
}
