package runfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"gputrain/internal/stranger"
)

// RecordFile is the record of a run in its directory: every value in force and where it came from, as package train writes it.
const RecordFile = "run.yaml"

// Recorded is a value of a record, in JSON.
type Recorded struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
	Origin string          `json:"origin"`
}

// ReadRecord reads the values of a record in their order. An error begins with the line.
func ReadRecord(text []byte) ([]Recorded, error) {
	file, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", lineOf(err, 1), err)
	}
	all, lines := []Recorded{}, bytes.Split(text, []byte("\n"))
	var below func(section string, body ast.Node) error
	below = func(section string, body ast.Node) error {
		pairs, ok := mapping(body)
		if !ok {
			return fmt.Errorf("line %d: found %s, wanted keys with values", line(body), shown(body))
		}
		for _, kv := range pairs {
			r := Recorded{Key: section + kv.Key.GetToken().Value}
			if m, ok := kv.Value.(*ast.MappingNode); ok && !m.IsFlowStyle || kv.Value.Type() == ast.MappingValueType {
				if err := below(r.Key+".", kv.Value); err != nil {
					return err
				}
				continue
			}
			// A run writes JSON, with the origin after it; what somebody else has written is YAML.
			_, rest, _ := bytes.Cut(lines[line(kv.Key)-1], []byte(":"))
			if d := json.NewDecoder(bytes.NewReader(rest)); d.Decode(&r.Value) == nil {
				r.Origin = strings.TrimPrefix(strings.TrimSpace(string(rest[d.InputOffset():])), "# ")
			} else if v, err := decode(kv.Value); err != nil {
				return fmt.Errorf("line %d: %s: %w", line(kv.Key), r.Key, err)
			} else if r.Value, err = json.Marshal(v); err != nil {
				return fmt.Errorf("line %d: %s: %w", line(kv.Key), r.Key, err)
			}
			all = append(all, r)
		}
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.NullType && doc.Body.Type() != ast.CommentType {
			err = below("", doc.Body)
		}
	}
	return all, err
}

// OfRun is the run file of the run in a directory, as its record has it.
func OfRun(dir string) (*Config, error) {
	c := New()
	return c, c.Record(filepath.Join(dir, RecordFile))
}

// Record is File of a record, which may be anybody's. Values that were defaults then have that origin.
func (c *Config) Record(path string) error {
	text, err := stranger.Read(path)
	if err != nil {
		return fmt.Errorf("run file: %w", err)
	}
	if err := c.Take(Text{path, text}); err != nil {
		return err
	}
	all, err := ReadRecord(text)
	for _, r := range all {
		if from := Origin(r.Origin); from.IsDefault() {
			c.origin[r.Key] = from
		}
	}
	return err
}
