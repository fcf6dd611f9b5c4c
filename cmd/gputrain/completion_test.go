package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a word may become follows from the commands themselves: names, options, listed values; for a file there is nothing, so that the shell offers those.
func TestComplete(t *testing.T) {
	var c cli
	parser, err := kong.New(&c, kong.Name("gputrain"), kong.NamedMapper("path", kong.MapperFunc(somePath)), kong.NamedMapper("model", kong.MapperFunc(someModel)))
	require.NoError(t, err)
	for line, want := range map[string][]string{
		"tra":                        {"train"},
		"train --progress ":          {"auto", "bar", "plain", "json", "none"},
		"train --progress p":         {"plain"},
		"train --progress=j":         {"--progress=json"},
		"train --progress = n":       {"none"},
		"train --reschedule --prog":  {"--progress"},
		"train --run-dir --progress": nil,
		"tune m d --dr":              {"--dry-run"},
		"tune m d --serve :0 --ho":   {"--host"},
		"--log-level WARN tra":       {"train"},
		"config te":                  {"template"},
		"completion ":                {"bash", "zsh", "fish", "powershell"},
		"completion zsh ":            nil,
		"train run":                  nil,
		"comp":                       {"compare", "completion"},
		"train run.yaml --set train.steps=3 --fr": {"--fresh"},
		"no such command":                         nil,
	} {
		var got []string
		for _, l := range complete(parser.Model.Node, strings.Split(line, " ")) {
			value, _, _ := strings.Cut(l, "\t")
			got = append(got, value)
		}
		assert.Equal(t, want, got, line)
	}
	assert.Contains(t, complete(parser.Model.Node, []string{"devi"}), "devices\tList the adapters.")
}
