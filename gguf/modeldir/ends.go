package modeldir

import (
	"encoding/json"
	"fmt"
)

// EndIDs are the tokens that end a text, as eos_token_id has them: an id, a list of ids, or null.
type EndIDs []int32

// UnmarshalJSON reads any of these.
func (e *EndIDs) UnmarshalJSON(raw []byte) error {
	var one int32
	if err := json.Unmarshal(raw, &one); err == nil && string(raw) != "null" {
		*e = EndIDs{one}
		return nil
	}
	if err := json.Unmarshal(raw, (*[]int32)(e)); err != nil {
		return fmt.Errorf("eos_token_id: found %.40s, wanted an id or a list of ids", raw)
	}
	return nil
}

// MarshalJSON writes the simplest that says it.
func (e EndIDs) MarshalJSON() ([]byte, error) {
	switch len(e) {
	case 0:
		return []byte("null"), nil
	case 1:
		return json.Marshal(e[0])
	}
	return json.Marshal([]int32(e))
}

// Ends are the tokens that end a text as a file of a directory says, such as generation_config.json; none where there is no such file.
func Ends(dir, name string) ([]int32, error) {
	var c struct {
		Ends EndIDs `json:"eos_token_id"`
	}
	err := Beside(dir, name, &c)
	return c.Ends, err
}
