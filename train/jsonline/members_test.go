package jsonline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzMembers compares with encoding/json, all the way down.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{"step":1,"a":[1,-2.5e3,"x\"]",{"b":[ ]}],"\u0041\n":null, "" : {}}`, ` [ true , false ]`, `7`, `"s"`, `{}`, "\t{\"a\":\"\xff\",\"\xff\":1}", "[1\t,2\r,{\"a\":3\n}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if json.Valid(text) {
			compare(t, text)
		}
	})
}

func compare(t *testing.T, text []byte) {
	var object map[string]json.RawMessage
	var array []json.RawMessage
	got := map[string]string{}
	if json.Unmarshal(text, &object) == nil && object != nil {
		for key, value := range Members(text) {
			got[string(key)] = string(value)
			compare(t, value)
		}
		require.Len(t, got, len(object))
		for key, value := range object {
			assert.Equal(t, string(value), got[key])
		}
		return
	}
	_ = json.Unmarshal(text, &array)
	n := 0
	for key, value := range Members(text) {
		require.Less(t, n, len(array))
		assert.Nil(t, key)
		assert.Equal(t, string(array[n]), string(value))
		compare(t, value)
		n++
	}
	assert.Len(t, array, n)
}

func TestMembersEndsWhenItIsTold(t *testing.T) {
	for key := range Members([]byte(`{"a":1,"b":2}`)) {
		assert.Equal(t, "a", string(key))
		break
	}
}
