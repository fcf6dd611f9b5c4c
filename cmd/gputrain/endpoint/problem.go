package endpoint

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// A problem is an error in the form of the protocol.
type problem struct {
	status           int
	code, param, why string
	header, value    string // that go with it
}

func (p *problem) Error() string { return p.why }

// Codes that clients know.
const (
	codeLength    = "context_length_exceeded"
	codeKey       = "invalid_api_key"
	codeModel     = "model_not_found"
	codeBusy      = "rate_limit_exceeded"
	codeParameter = "unsupported_parameter"
	codeValue     = "invalid_value"
)

// wrong is a problem with a parameter.
func wrong(param, code, format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, code: code, param: param, why: param + ": " + fmt.Sprintf(format, args...)}
}

// MarshalJSON is its form.
func (p *problem) MarshalJSON() ([]byte, error) {
	kind := "invalid_request_error"
	switch {
	case p.status == http.StatusTooManyRequests:
		kind = "requests"
	case p.status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	or := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	return json.Marshal(map[string]any{"error": map[string]any{"message": p.why, "type": kind, "param": or(p.param), "code": or(p.code)}})
}

// later is a problem that is over soon, so that a client may ask again after some seconds.
func later(status int, code, why string) *problem {
	return &problem{status: status, code: code, why: why, header: "Retry-After", value: "2"}
}

// answer writes it.
func (p *problem) answer(w http.ResponseWriter) {
	if p.header != "" {
		w.Header().Set(p.header, p.value)
	}
	writeJSON(w, p.status, p)
}

// writeJSON writes one object. Its reader may have gone.
func writeJSON(w http.ResponseWriter, status int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(encoded(object), '\n'))
}

// encoded is an object of ours as JSON.
func encoded(object any) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err) // all of it is text, whole numbers, and numbers that are finite
	}
	return raw
}
