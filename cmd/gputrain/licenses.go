package main

import (
	_ "embed"
	"fmt"
)

// licenses is made by tools/licenses; tests/licenses_test.go holds it to the module graph.
//
//go:embed LICENSES
var licenses string

type licensesCmd struct{}

func (*licensesCmd) Run() error {
	_, err := fmt.Print(licenses)
	return err
}
