package stranger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"gputrain/internal/placeholder"
	"gputrain/internal/terminal"
)

// ReadJSON reads a file as Read, and what it says into a value.
func ReadJSON(path string, into any) error {
	raw, err := Read(path)
	if err != nil {
		return err
	}
	if err := JSON(raw, into); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	return nil
}

// JSON is json.Unmarshal, whose errors are in words of the file and not of Go: the key, what was found and what was wanted. It knows what people have in
// place of a file.
func JSON(raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	return Told(raw, err)
}

// Told is an error of encoding/json about raw in such words.
func Told(raw []byte, err error) error {
	if what := placeholder.What(raw); what != "" {
		return errors.New(what)
	}
	if bytes.HasPrefix(raw, []byte("\ufeff")) {
		return errors.New("begins with a byte-order mark, wanted none: save the file as UTF-8 without one")
	}
	return Words(err)
}

// Words is an error of encoding/json about a value of a wrong type in such words; any other is itself.
func Words(err error) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	found, number := strings.CutPrefix(kind.Value, "number ") // one that does not fit
	if !number && names[found] != "" {
		found = names[found]
	}
	key := ""
	if kind.Field != "" {
		key = kind.Field + ": "
	}
	return fmt.Errorf("%sfound %.80s, wanted %s", terminal.Text(key), found, wanted(kind.Type, number))
}

// names are what encoding/json calls values, in words.
var names = map[string]string{"string": "a text", "number": "a number", "bool": "true or false", "array": "a list", "object": "an object"}

// wanted is what a type is in words; with the range of numbers, where one is beyond it.
func wanted(t reflect.Type, bounds bool) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem(), bounds)
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		if bounds {
			return fmt.Sprintf("a number of at most %d bits", t.Bits())
		}
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int, reflect.Int64:
		if bounds {
			return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
		}
		return "a whole number"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint, reflect.Uint64:
		return "a whole number from 0"
	}
	return "another value"
}

// Files are those of a directory, or of what stands for one, such as a hub.Bundle.
type Files interface {
	fs.FS
	// Path is that of a file, by its name, for messages; "." is what was opened.
	Path(name string) string
}

// Has tells whether there is something of a name, whatever it is: who reads it says what is wrong with it.
func Has(files Files, name string) bool {
	_, err := fs.Stat(files, name)
	return err == nil
}

// Beside reads a file that may be missing into a value, which then stays as it is.
func Beside(files Files, name string, into any) error {
	raw, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := JSON(raw, into); err != nil {
		return fmt.Errorf("%q: %w", files.Path(name), err)
	}
	return nil
}

// IDs are tokens as files name them under eos_token_id: an id, a list of ids, or null.
type IDs []int32

// UnmarshalJSON reads any of these.
func (ids *IDs) UnmarshalJSON(raw []byte) error {
	var one int32
	if err := json.Unmarshal(raw, &one); err == nil && string(raw) != "null" {
		*ids = IDs{one}
		return nil
	}
	if err := json.Unmarshal(raw, (*[]int32)(ids)); err != nil {
		return fmt.Errorf("eos_token_id: found %.40s, wanted an id or a list of ids", raw)
	}
	return nil
}

// MarshalJSON writes the simplest that says it.
func (ids IDs) MarshalJSON() ([]byte, error) {
	switch len(ids) {
	case 0:
		return []byte("null"), nil
	case 1:
		return json.Marshal(ids[0])
	}
	return json.Marshal([]int32(ids))
}

// Ends are the tokens that end a text as a file says, such as generation_config.json, or as its text_config does; none where there is no such file.
func Ends(files Files, name string) ([]int32, error) {
	var c struct {
		Ends IDs `json:"eos_token_id"`
		Text struct {
			Ends IDs `json:"eos_token_id"`
		} `json:"text_config"`
	}
	err := Beside(files, name, &c)
	if c.Ends == nil {
		c.Ends = c.Text.Ends
	}
	return c.Ends, err
}
