package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"gputrain/hub"
	"gputrain/internal/modelcard"
	"gputrain/run/runfile"
)

// license is what the card of a model says of its licence. It is never guessed: where nothing is said it is none.
func license(b *hub.Bundle) (l modelcard.License, err error) {
	text, err := b.ReadFile(modelcard.File)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	return frontLicense(text)
}

// licenseKey begins a key of a card that tells of the licence; indentedLine goes on with the value before it.
var (
	licenseKey   = regexp.MustCompile(`^license(_name|_link)?\s*:`)
	indentedLine = regexp.MustCompile(`^(\s|-( |$))`)
)

// frontLicense reads it from the YAML at the head of a card. Of that only the lines of the licence are read: all else is not ours to understand.
func frontLicense(card []byte) (l modelcard.License, err error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(card), "\ufeff"), "\r\n", "\n")
	head, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return l, nil
	}
	var own strings.Builder
	taken := false
	for line := range strings.Lines(head) {
		bare := strings.TrimRight(line, " \t\n")
		if bare == "---" || bare == "..." {
			break
		}
		taken = licenseKey.MatchString(line) || taken && indentedLine.MatchString(line)
		if taken {
			own.WriteString(line)
		}
	}
	all, err := runfile.ReadRecord([]byte(own.String()))
	if err != nil {
		return l, err
	}
	for _, r := range all {
		var names []string
		var one string
		if json.Unmarshal(r.Value, &one) == nil && one != "" {
			names = []string{one}
		} else if json.Unmarshal(r.Value, &names) != nil {
			names = nil
		}
		switch {
		case len(names) == 0:
		case r.Key == "license":
			l.Names = names
		case r.Key == "license_name":
			l.Name = one
		case r.Key == "license_link" && isLink(one): // another one leads to a file of the base's directory
			l.Link = one
		}
	}
	if len(l.Names) == 0 {
		return modelcard.License{}, nil
	}
	return l, nil
}

func isLink(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}

// foundLicense is that of the first of the models that says one.
func foundLicense(models []*hub.Bundle, tell func(string)) modelcard.License {
	for _, b := range models {
		l, err := license(b)
		if err != nil {
			tell(fmt.Sprintf("the licence of %s is not known: %v", b.Path("."), err))
		} else if len(l.Names) > 0 {
			return l
		}
	}
	return modelcard.License{}
}
