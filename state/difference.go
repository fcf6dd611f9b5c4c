package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// firstDifference compares two JSON values and names the first key, in order, in which they differ; found and wanted are JSON, "" where
// the key is absent.
func firstDifference(found, wanted []byte) (key, foundValue, wantedValue string, err error) {
	var a, b any
	if err := json.Unmarshal(found, &a); err != nil {
		return "", "", "", err
	}
	if err := json.Unmarshal(wanted, &b); err != nil {
		return "", "", "", err
	}
	key, foundValue, wantedValue = differ("", a, b)
	return key, foundValue, wantedValue, nil
}

func differ(at string, a, b any) (key, found, wanted string) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		p, q := jsonText(a), jsonText(b)
		if bytes.Equal(p, q) {
			return "", "", ""
		}
		return at, string(p), string(q)
	}
	for _, k := range unionOfKeys(x, y) {
		inner := k
		if at != "" {
			inner = at + "." + k
		}
		u, hasU := x[k]
		v, hasV := y[k]
		switch {
		case !hasU:
			return inner, "", string(jsonText(v))
		case !hasV:
			return inner, string(jsonText(u)), ""
		}
		if key, found, wanted := differ(inner, u, v); key != "" {
			return key, found, wanted
		}
	}
	return "", "", ""
}

func unionOfKeys(a, b map[string]any) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// jsonText is v in JSON; v came out of it.
func jsonText(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("state: a JSON value that cannot be written: %v", err))
	}
	return text
}
