package jsonline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzMembers compares with encoding/json, all the way down.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{"step":1,"a":[1,-2.5e3,"x\"]",{"b":[ ]}],"\u0041\n":null, "" : {}}`, ` [ true , false ]`, `7`, `"s"`, `{}`, "\t{\"a\":\"\xff\",\"\xff\":1}", "[1\t,2\r,{\"a\":3\n}]",
		`{"a":1`, `{"a":1,}`, `{"a":1}}`, `{"a" 1}`, `{"a":nul}`, `[01]`, `[-]`, `[1.]`, `[-0.5e+7,1E-9,0]`, `[1e]`, `[.5]`, `{"a":"\q"}`, "{\"a\":\"\x00\"}", `{"a":[1}`, `{"a":{"b":}}`, `{"step":5,"lo{"step":6}`, `{"step":5{"step":6}`, `[,]`, `{`, `[1`, `{"a":1]`, "[]\f",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) { compare(t, text) })
}

func compare(t *testing.T, text []byte) {
	var object map[string]json.RawMessage
	var array []json.RawMessage
	ok := json.Unmarshal(text, &object) == nil && object != nil || json.Unmarshal(text, &array) == nil && array != nil
	got, n := map[string]string{}, 0
	taken := Members(text, func(key, value []byte) {
		if object != nil {
			got[string(key)] = string(value)
		} else if ok {
			require.Less(t, n, len(array))
			assert.Nil(t, key)
			assert.Equal(t, string(array[n]), string(value))
			n++
		}
		if ok {
			compare(t, value)
		}
	})
	require.Equal(t, ok, taken, "%q", text)
	if ok {
		require.Len(t, got, len(object))
		assert.Len(t, array, n)
	}
	for key, value := range object {
		assert.Equal(t, string(value), got[key])
	}
}
