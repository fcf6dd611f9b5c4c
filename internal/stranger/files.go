package stranger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

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

// Ends are the tokens that end a text as a file says, such as generation_config.json; none where there is no such file.
func Ends(files Files, name string) ([]int32, error) {
	var c struct {
		Ends IDs `json:"eos_token_id"`
	}
	err := Beside(files, name, &c)
	return c.Ends, err
}
