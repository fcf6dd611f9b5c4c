package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"

	"gputrain/gpu"
	"gputrain/run/train"
)

type versionCmd struct {
	JSON bool `help:"One JSON object on standard output."`
}

// versionLine is what `version --json` prints.
type versionLine struct {
	Program  string   `json:"program"`
	Adapters []string `json:"adapters"`
	Error    string   `json:"error,omitempty"` // why there are no adapters
}

// Run shows the program, as reports do, and what it finds to run on.
func (c *versionCmd) Run() error {
	line := versionLine{Program: train.Program(), Adapters: []string{}}
	adapters, err := gpu.Adapters()
	if err != nil {
		line.Error = err.Error()
	}
	for _, a := range adapters {
		line.Adapters = append(line.Adapters, fmt.Sprintf("%s, driver %s", a, a.Driver))
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(line)
	}
	fmt.Println(line.Program)
	for _, a := range line.Adapters {
		fmt.Println("adapter " + a)
	}
	if line.Error != "" {
		fmt.Println("no adapter: " + line.Error)
	}
	return nil
}

// licenses is made by tools/licenses; tests/licenses_test.go holds it to the module graph.
//
//go:embed LICENSES
var licenses string

type licensesCmd struct{}

func (*licensesCmd) Run() error {
	_, err := fmt.Print(licenses)
	return err
}
