package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"gputrain/internal/stranger"
)

// setting is one value in force, as run.yaml records it.
type setting struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
	Origin string          `json:"origin"`
}

// parseSettings reads run.yaml as a run writes it: sections by indentation, values in JSON, origins behind "#".
func parseSettings(text []byte) ([]setting, error) {
	out, sections := []setting{}, []string{}
	for n, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimLeft(line, " ")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		depth := (len(line) - len(trimmed)) / 2
		name, rest, found := strings.Cut(trimmed, ":")
		if !found || depth > len(sections) {
			return out, fmt.Errorf("serve: %s: line %d: found %q, wanted a key of section %q", settingsFile, n+1, line, strings.Join(sections, "."))
		}
		sections = append(sections[:depth:depth], name)
		if strings.TrimSpace(rest) == "" {
			continue
		}
		d := json.NewDecoder(strings.NewReader(rest))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return out, fmt.Errorf("serve: %s: line %d: %w", settingsFile, n+1, err)
		}
		origin := strings.TrimSpace(rest[d.InputOffset():])
		out = append(out, setting{strings.Join(sections, "."), value, strings.TrimPrefix(origin, "# ")})
	}
	return out, nil
}

// readSmall reads a file that people read.
func readSmall(root *os.Root, name string) ([]byte, error) {
	const most = 4 << 20
	file, err := stranger.OpenIn(root, name)
	if err != nil {
		return nil, fmt.Errorf("serve: open: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("found more than %d bytes", most)
	}
	if err != nil {
		return nil, fmt.Errorf("serve: read %q: %w", name, err)
	}
	return text, nil
}
