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

// phiName is the name under which llama.cpp does what the tokenizer does.
func phiName(name string, stripsRight bool) string {
	switch {
	case !stripsRight:
		return phi3.ReplaceAllString(name, "phi_3")
	case !phi3.MatchString(name):
		return "phi-3 " + name
	}
	return name
}

// stripsRight says whether special tokens take the spaces behind them, by Phi 3's rule. llama.cpp has no other: tell is told where a tokenizer has.
func (t *tokenizerFile) stripsRight(tell func(string)) bool {
	odd, other, lacking := "", "", slices.Clone(phi3Tokens)
	for _, a := range t.Added {
		if a.Left || a.Right || a.Single {
			odd = a.Content
		}
		if a.Left || a.Single || a.Right == slices.Contains(phi3Plain, a.Content) {
			other = a.Content
		}
		lacking = slices.DeleteFunc(lacking, func(s string) bool { return s == a.Content })
	}
	if odd == "" {
		return false
	}
	byRule := other == "" && len(lacking) == 0
	if !byRule && tell != nil {
		tell(fmt.Sprintf("tokens such as %s take the spaces around them, or stand apart from words, which llama.cpp does not heed: where such a token touches spaces or words a text has other ids", odd))
	}
	return byRule
}
