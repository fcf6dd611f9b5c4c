package runfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Given tells whether a layer names a key: a file, the environment, --set, or a flag of a command.
func (c *Config) Given(key string) bool { return !c.Origin(key).IsDefault() }

// GivenIn tells whether the last layer that names a key is one of some files.
func (c *Config) GivenIn(key string, files ...string) bool {
	from := string(c.Origin(key))
	return slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(from, file+":") })
}

// At is a key for a message, with the origin of its value: "train.steps (--set)". A group of keys has the origin of its first.
func (c *Config) At(key string) string {
	first, _, _ := strings.Cut(key, "[")
	if isSection(first) {
		first = firstIn(first)
	}
	return fmt.Sprintf("%s (%s)", key, c.Origin(first))
}

// Wrong is an error about the value of a key, or of a group of keys, that says where it came from.
func (c *Config) Wrong(key string, err error) error {
	return fmt.Errorf("run file: %s: %w", c.At(key), err)
}

// Invalid is the error for a value of a key, which may go on with its place in a list.
func (c *Config) Invalid(at string, found any, wanted string) error {
	return c.Wrong(at, fmt.Errorf("found %v, wanted %s", found, wanted))
}

// IsDefault tells whether a key has the value that it has whatever the others are, or one that Lay has laid as such.
func (c *Config) IsDefault(key string) bool { return c.Origin(key) == byDefault }

// changed are the keys below a section whose value is another than the default, whoever has laid it, in the order of the file.
func (c *Config) changed(section string) (keys []field) {
	kept := New()
	for _, f := range fields {
		if strings.HasPrefix(f.key, section) && !reflect.DeepEqual(c.value(f), kept.value(f)) {
			keys = append(keys, f)
		}
	}
	return keys
}

// Clone is a copy, over which values may be laid.
func (c *Config) Clone() *Config {
	out := *c
	out.origin, out.Optimizer.Parameters, out.Read = maps.Clone(c.origin), maps.Clone(c.Optimizer.Parameters), slices.Clone(c.Read)
	return &out
}
