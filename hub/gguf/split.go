package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
)

// Keys of the parts of a model that llama-gguf-split has cut.
const (
	splitCount   = "split.count"
	splitNumber  = "split.no"
	splitTensors = "split.tensors.count"
)

// splitName is NAME-00001-of-00003.gguf.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// mostParts is more than any model has.
const mostParts = 10000

// partsOf are the files of a model, of which path is one. All must be there.
func partsOf(path string) ([]string, error) {
	found := splitName.FindStringSubmatch(path)
	if found == nil {
		return []string{path}, nil
	}
	parts, err := strconv.Atoi(found[3])
	if err != nil || parts < 1 || parts > mostParts {
		return nil, fmt.Errorf("%q: found %s parts in its name, wanted 1 to %d", path, found[3], mostParts)
	}
	names := make([]string, parts)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", found[1], i+1, parts)
		if _, err := os.Stat(names[i]); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%q: found no part %d of %d, wanted all: %w", names[i], i+1, parts, fs.ErrNotExist)
		}
	}
	return names, nil
}

// checkPart compares what a part says of itself with its place among the parts.
func (h *header) checkPart(i, parts int) error {
	said := map[string]int64{splitCount: int64(parts), splitNumber: int64(i)}
	number, count := i, parts
	for _, k := range h.keys {
		if n, ok := integer(k.Value); ok && k.Name == splitNumber {
			number = int(n)
		} else if ok && k.Name == splitCount {
			count = int(n)
		}
	}
	for _, k := range h.keys {
		want, asked := said[k.Name]
		if found, ok := integer(k.Value); asked && (!ok || found != want) && (parts > 1 || k.Name == splitCount && found > 1) {
			return fmt.Errorf("key %s: found %v, wanted %d: a part of a split model is named NAME-%05d-of-%05d.gguf and lies beside the others", k.Name, k.Value, want, number+1, count)
		}
	}
	return nil
}
