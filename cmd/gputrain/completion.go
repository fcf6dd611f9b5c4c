package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Each shell's script has the program itself find what fits, so that nothing about a command is said twice.
var (
	//go:embed completion/bash.sh
	bashCompletion string
	//go:embed completion/zsh.sh
	zshCompletion string
	//go:embed completion/completion.fish
	fishCompletion string
	//go:embed completion/powershell.ps1
	powershellCompletion string
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// Run prints the script.
func (c *completionCmd) Run() error {
	_, err := fmt.Print(map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion, "powershell": powershellCompletion}[c.Shell])
	return err
}

// completeCmd is what the scripts call: it prints what the last of the words behind `gputrain` may become, a line each, with its help behind a tab. It
// prints nothing where a file is wanted: then the shell offers those.
type completeCmd struct {
	New   bool     `help:"The last word is a new one, which is empty."`
	Words []string `arg:"" optional:""`
}

func (c *completeCmd) Run(k *kong.Kong) error {
	words := c.Words
	if c.New || len(words) == 0 {
		words = append(words, "")
	}
	for _, line := range complete(k.Model.Node, words) {
		fmt.Println(line)
	}
	return nil
}

// complete is what the last word may become.
func complete(at *kong.Node, words []string) []string {
	last := words[len(words)-1]
	var valued *kong.Flag // whose value comes next
	places := 0           // of arguments that are taken
	for _, w := range words[:len(words)-1] {
		child := childNamed(at, w)
		switch {
		case w == "=": // bash makes it a word
		case valued != nil:
			valued = nil
		case strings.HasPrefix(w, "-"):
			if f := flagNamed(at, w); f != nil && !f.IsBool() && !strings.Contains(w, "=") {
				valued = f
			}
		case child != nil:
			at, places = child, 0
		default:
			places++
		}
	}
	name, value, inFlag := strings.Cut(last, "=")
	switch {
	case valued != nil:
		return startingWith(strings.TrimPrefix(last, "="), "", choices(valued.Value))
	case inFlag && strings.HasPrefix(last, "-"):
		if f := flagNamed(at, name); f != nil {
			return startingWith(value, name+"=", choices(f.Value))
		}
	case strings.HasPrefix(last, "-"):
		return startingWith(last, "", flagsOf(at))
	case len(at.Children) > 0:
		return startingWith(last, "", commandsOf(at))
	case places < len(at.Positional):
		return startingWith(last, "", choices(at.Positional[places]))
	}
	return nil
}

func childNamed(at *kong.Node, name string) *kong.Node {
	if i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == name }); i >= 0 {
		return at.Children[i]
	}
	return nil
}

func flagNamed(at *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, f := range slices.Concat(at.AllFlags(true)...) {
		if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
			return f
		}
	}
	return nil
}

func commandsOf(at *kong.Node) (lines []string) {
	for _, n := range at.Children {
		if !n.Hidden {
			lines = append(lines, n.Name+"\t"+n.Help)
		}
	}
	return lines
}

func flagsOf(at *kong.Node) (lines []string) {
	for _, f := range slices.Concat(at.AllFlags(true)...) {
		lines = append(lines, "--"+f.Name+"\t"+f.Help)
	}
	return lines
}

// choices are the values that a flag or an argument may have, where they are listed.
func choices(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

func startingWith(word, before string, lines []string) (found []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, word) {
			found = append(found, before+line)
		}
	}
	return found
}
