package llamacpp

import (
	"fmt"
	"regexp"
	"slices"
)

// phi3 is in the names of models for which llama.cpp has a rule of its own: their special tokens take the spaces behind them, all but phi3Plain. It cannot load
// a model of such a name that lacks one of phi3Tokens.
var (
	phi3       = regexp.MustCompile(`(?i)phi-?3`)
	phi3Plain  = []string{"<unk>", "<s>", "<|endoftext|>"}
	phi3Tokens = append([]string{"</s>"}, phi3Plain...)
)

// named is the name under which llama.cpp does what the tokenizer does.
func named(name string, stripsRight bool) string {
	switch {
	case !stripsRight:
		return phi3.ReplaceAllString(name, "phi_3")
	case !phi3.MatchString(name):
		return "phi-3 " + name
	}
	return name
}

// stripsRight says whether special tokens take the spaces behind them, by Phi 3's rule. llama.cpp has no other.
func (t *tokenizerFile) stripsRight() (bool, error) {
	wrong := func(i int) error {
		a := t.Added[i]
		return fmt.Errorf("added token %q: found lstrip %v, rstrip %v, single_word %v, wanted none of these: llama.cpp finds such a token wherever it stands", a.Content, a.Left, a.Right, a.Single)
	}
	some, lacking := -1, slices.Clone(phi3Tokens)
	for i, a := range t.Added {
		if a.Left || a.Single {
			return false, wrong(i)
		}
		if a.Right {
			some = i
		}
		lacking = slices.DeleteFunc(lacking, func(s string) bool { return s == a.Content })
	}
	if some < 0 {
		return false, nil
	}
	for i, a := range t.Added {
		if len(lacking) > 0 || a.Right == slices.Contains(phi3Plain, a.Content) {
			return false, wrong(max(some, i))
		}
	}
	return true, nil
}
