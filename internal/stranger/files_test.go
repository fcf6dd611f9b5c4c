package stranger

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is wrong with a file is said in words of the file.
func TestJSON(t *testing.T) {
	type inner struct {
		Size *int32 `json:"size"`
	}
	type of struct {
		Share float64           `json:"share"`
		Name  string            `json:"name"`
		Whole bool              `json:"whole"`
		Count uint              `json:"count"`
		List  []int             `json:"list"`
		Map   map[string]string `json:"map"`
		Inner inner             `json:"inner"`
	}
	for text, says := range map[string]string{
		`{"share": "x"}`:           "share: found a text, wanted a number",
		`{"share": 1e999}`:         "share: found 1e999, wanted a number of at most 64 bits",
		`{"name": 1}`:              "name: found a number, wanted a text",
		`{"whole": []}`:            "whole: found a list, wanted true or false",
		`{"count": -1}`:            "count: found -1, wanted a whole number from 0",
		`{"list": {}}`:             "list: found an object, wanted a list",
		`{"map": true}`:            "map: found true or false, wanted an object",
		`{"inner": {"size": 1.5}}`: "inner.size: found 1.5, wanted a whole number of at most 32 bits",
		`[]`:                       "found a list, wanted an object",
		`{`:                        "unexpected end of JSON input",
		"\ufeff{}":                 "begins with a byte-order mark, wanted none: save the file as UTF-8 without one",
		"<html>":                   "found a web page, wanted the file: download it anew, signed in where the model asks for that",
	} {
		assert.EqualError(t, JSON([]byte(text), &of{}), says)
	}
	require.NoError(t, JSON([]byte(`{"name": "x"}`), &of{}))
}
