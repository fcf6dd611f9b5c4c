// Command schema says of run files what an editor does: by a validator of JSON schemas, and by a YAML parser other than gputrain's.
// It reads a JSON object of a schema and files from standard input, and writes an array of errors, "" for a file that the schema has.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func run() error {
	var in struct {
		Schema json.RawMessage
		Files  []string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(in.Schema))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("run.schema.json", tree); err != nil {
		return err
	}
	schema, err := c.Compile("run.schema.json") // holds it to the schema of schemas
	if err != nil {
		return err
	}
	said := make([]string, len(in.Files))
	for i, file := range in.Files {
		if said[i], err = check(schema, file); err != nil {
			return fmt.Errorf("%q: %w", file, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

// check is what is said of a file; "": nothing.
func check(schema *jsonschema.Schema, file string) (said string, err error) {
	var tree any
	if err := yaml.Unmarshal([]byte(file), &tree); err != nil {
		return err.Error(), nil
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return "", err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	if err := schema.Validate(value); err != nil {
		said = err.Error()
	}
	return said, nil
}
