package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/suggest"
)

// plainName is a module's name or the end of one; anything else is a regular expression.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// usualTargets are what PEFT adapts where nothing is said.
var usualTargets = []string{"q_proj", "v_proj", "qkv_proj", "c_attn", "in_proj_qkv", "in_proj"}

// target chooses among modules those that have an adapter: names are all modules of the network that could.
func (l LoRA) target(names []string, head string) ([]string, error) {
	for _, layer := range l.Layers {
		if !slices.ContainsFunc(names, func(name string) bool { return layerNumber(name) == layer }) {
			return nil, fmt.Errorf("model: lora: layers: found %d, wanted numbers of layers that the model has, 0 to %d", layer, lastLayer(names))
		}
	}
	targets := l.Target
	switch {
	case len(targets) == 0:
		targets = usualTargets
		if found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !l.isTarget(name, targets) }); len(found) == 0 {
			return nil, fmt.Errorf("model: lora: target: found none, wanted some of %q", lastNames(names))
		}
	case slices.Contains(targets, AllLinear):
		if len(targets) > 1 {
			return nil, fmt.Errorf("model: lora: target: found %q among others, wanted it alone", AllLinear)
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == head })
	case len(targets) == 1 && !plainName.MatchString(targets[0]):
		return l.matching(names)
	default:
		for _, t := range targets {
			if !plainName.MatchString(t) {
				return nil, fmt.Errorf("model: lora: target: found %q among others, wanted names, or one regular expression alone", t)
			}
			if !slices.ContainsFunc(names, func(name string) bool { return l.isTarget(name, []string{t}) }) {
				return nil, noTarget(t, names)
			}
		}
	}
	var found []string
	for _, name := range names {
		if (slices.Contains(targets, AllLinear) || l.isTarget(name, targets)) && l.inLayers(name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("model: lora: layers: found %v, wanted numbers of layers that have %q", l.Layers, targets)
	}
	return found, nil
}

func (l LoRA) inLayers(name string) bool {
	return len(l.Layers) == 0 || slices.Contains(l.Layers, layerNumber(name))
}

// says tells whether a module's name matches, as it is called here or where the network is the text part of a larger one.
func (l LoRA) says(name string, matches func(name string) bool) bool {
	return matches(name) || l.wraps && matches(wrappedName(name, wrappedRoot))
}

// matching are the modules whose whole names a regular expression matches.
func (l LoRA) matching(names []string) ([]string, error) {
	pattern, err := compileName(l.Target[0])
	if err != nil {
		return nil, fmt.Errorf("model: lora: target: %w", err)
	}
	var found []string
	for _, name := range names {
		if l.says(name, pattern.MatchString) && l.inLayers(name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil, noTarget(l.Target[0], names)
	}
	return found, nil
}

func noTarget(target string, names []string) error {
	known := lastNames(names)
	return fmt.Errorf("model: lora: target: %q matches no matrix of a linear layer, wanted one of %q%s", target, known, suggest.DidYouMean(target, known))
}

// inWrapping are l and its modules where these have the names of a network within a larger one alone.
func (l LoRA) inWrapping(modules []adapter) (LoRA, []adapter, error) {
	modules = slices.Clone(modules)
	var names []string
	ranks, alphas := map[string]int{}, map[string]float64{}
	for i, a := range modules {
		modules[i].module = wrappedName(a.module, wrappedRoot)
		names = append(names, modules[i].names()...)
		ranks[modules[i].module] = a.rank
		alpha, err := patternOf(LoRA{wraps: true}, "alpha_pattern", a.names()[0], l.AlphaPattern, l.alphaOrder, l.Alpha)
		if err != nil {
			return l, nil, err
		}
		alphas[modules[i].module] = alpha
	}
	l.wraps = false
	if len(l.Target) == 1 && !plainName.MatchString(l.Target[0]) {
		if found, err := l.matching(names); err != nil || len(found) < len(names) {
			l.Target = names
		}
	} else {
		l.Target = slices.Clone(l.Target)
		for i, t := range l.Target {
			l.Target[i] = wrappedName(t, wrappedRoot)
		}
	}
	l.RankPattern, l.AlphaPattern = unusual(l.RankPattern, ranks, l.Rank), unusual(l.AlphaPattern, alphas, l.Alpha)
	return l, modules, nil
}

// unusual are the values of modules that are not the usual one; where no pattern was, there are none.
func unusual[T comparable](pattern, of map[string]T, usual T) map[string]T {
	maps.DeleteFunc(of, func(_ string, value T) bool { return len(pattern) == 0 || value == usual })
	return of
}

// isTarget tells whether name is one of targets, or ends in one.
func (l LoRA) isTarget(name string, targets []string) bool {
	return l.says(name, func(name string) bool {
		return slices.ContainsFunc(targets, func(t string) bool { return name == t || strings.HasSuffix(name, "."+t) })
	})
}

// lastNames are the last parts of names, each once.
func lastNames(names []string) []string {
	var last []string
	for _, name := range names {
		last = append(last, name[strings.LastIndexByte(name, '.')+1:])
	}
	return slices.Compact(slices.Sorted(slices.Values(last)))
}

// layerNumber is the first number in a module's name; -1 for none.
func layerNumber(name string) int {
	for part := range strings.SplitSeq(name, ".") {
		if n, err := strconv.Atoi(part); err == nil {
			return n
		}
	}
	return -1
}

// lastLayer is the highest of the layers' numbers.
func lastLayer(names []string) int {
	last := -1
	for _, name := range names {
		last = max(last, layerNumber(name))
	}
	return last
}

// compileName compiles an expression that has to match the whole of a name.
func compileName(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > longestMatch {
		return nil, fmt.Errorf("an expression of %d bytes, want at most %d", len(pattern), longestMatch)
	}
	return regexp.Compile("^(?:" + pattern + ")$")
}

// of chooses for a module the value of a pattern's key, as PEFT matches it: (.*\.)?(key)$. The first key of order counts; where no order is known, all that
// match have to say the same.
func patternOf[T comparable](l LoRA, what, module string, pattern map[string]T, order []string, absent T) (T, error) {
	known := len(order) > 0
	if !known {
		order = slices.Sorted(maps.Keys(pattern))
	}
	value, by := absent, ""
	for _, key := range order {
		matches, err := compileName(`(?:.*\.)?(?:` + key + `)`)
		if err != nil {
			return value, fmt.Errorf("model: lora: %s: %q: %w", what, key, err)
		}
		if !l.says(module, matches.MatchString) {
			continue
		}
		if known {
			return pattern[key], nil
		}
		if by != "" && value != pattern[key] {
			return value, fmt.Errorf("model: lora: %s: %q: found %v by %q and %v by %q, wanted keys that agree", what, module, value, by, pattern[key], key)
		}
		value, by = pattern[key], key
	}
	return value, nil
}

// unmatched names a key that matches none of modules.
func unmatched[T any](l LoRA, what string, pattern map[string]T, modules []string) error {
	for _, key := range slices.Sorted(maps.Keys(pattern)) {
		matches, err := compileName(`(?:.*\.)?(?:` + key + `)`)
		if err != nil {
			return fmt.Errorf("model: lora: %s: %q: %w", what, key, err)
		}
		if !slices.ContainsFunc(modules, func(name string) bool { return l.says(name, matches.MatchString) }) {
			known := lastNames(modules)
			return fmt.Errorf("model: lora: %s: %q matches no module with an adapter, wanted one of %q%s", what, key, known, suggest.DidYouMean(key, known))
		}
	}
	return nil
}

// LoRA says which matrices of a network have an adapter, and of which kind (Hu et al. 2021, arXiv:2106.09685; Liu et al. 2024, arXiv:2402.09353), in
// PEFT's terms. A matrix W [out, in] with an adapter gives W x + scale B (A x), with A [rank, in] and B [out, rank]. The tags are those of package
// train/runfile.
type LoRA struct {
	Rank         int                `yaml:"rank" range:"0..1000000" doc:"rank of the adapters; 0: no adapters"`
	Alpha        float64            `yaml:"alpha" range:"0..1e30" doc:"an adapter's product is multiplied by alpha / rank; 0: 2 x rank"`
	RSLoRA       bool               `yaml:"rslora" doc:"multiply by alpha / sqrt(rank) instead"`
	DoRA         bool               `yaml:"dora" doc:"DoRA: train the length of each row of a matrix apart from its direction"`
	Dropout      float64            `yaml:"dropout" range:"0..0.999" doc:"probability of dropping an element of an adapter's input in training"`
	Target       []string           `yaml:"target" doc:"modules with an adapter: names or ends of names (q_proj), one regular expression of whole names, or all-linear; empty: as PEFT, the queries and values"`
	RankPattern  map[string]int     `yaml:"rank_pattern" doc:"ranks of some modules, by the end of their names or a regular expression of it"`
	AlphaPattern map[string]float64 `yaml:"alpha_pattern" doc:"alphas of some modules, in the same way"`
	Layers       []int              `yaml:"layers" range:"0.." doc:"layers with adapters, counted from 0; empty: all"`
	Save         []string           `yaml:"save" doc:"ends of names of modules that are trained whole, such as lm_head or embed_tokens"`

	rankOrder, alphaOrder []string       // the keys of the patterns in the order of a file, where the first that matches counts
	parameters            []string       // ends of names of matrices of experts that have an adapter, as a file's target_parameters
	exclude               *regexp.Regexp // of modules without any, which are not to be the network's; nil for none
	wraps                 bool           // names may be those of a network within a larger one, too
}

// AllLinear is the Target of every matrix but that of the output head.
const AllLinear = "all-linear"

// or fills in the defaults.
func (l LoRA) or() LoRA {
	l.Rank = cmp.Or(l.Rank, 8)
	l.Alpha = cmp.Or(l.Alpha, 2*float64(l.Rank))
	return l
}

func (l LoRA) validate() error {
	wrong := func(key string, found any, wanted string) error {
		return fmt.Errorf("model: lora: %s: found %v, wanted %s", key, found, wanted)
	}
	switch {
	case l.Rank < 1 || l.Rank > largest:
		return wrong("rank", l.Rank, fmt.Sprintf("1 to %d", largest))
	case !(l.Alpha > 0 && l.Alpha < 1e30):
		return wrong("alpha", l.Alpha, "a number above 0 and below 1e30")
	case !(l.Dropout >= 0 && l.Dropout < 1):
		return wrong("dropout", l.Dropout, "a probability in [0, 1)")
	case slices.ContainsFunc(l.Layers, func(i int) bool { return i < 0 }):
		return wrong("layers", l.Layers, "numbers from 0")
	}
	for key, rank := range l.RankPattern {
		if rank < 1 || rank > largest {
			return wrong(fmt.Sprintf("rank_pattern: %q", key), rank, fmt.Sprintf("1 to %d", largest))
		}
	}
	for key, alpha := range l.AlphaPattern {
		if !(alpha > 0 && alpha < 1e30) {
			return wrong(fmt.Sprintf("alpha_pattern: %q", key), alpha, "a number above 0 and below 1e30")
		}
	}
	return nil
}

// scale is what the product B A x is multiplied by.
func (l LoRA) scale(rank int, alpha float64) float64 {
	if l.RSLoRA {
		return alpha / math.Sqrt(float64(rank))
	}
	return alpha / float64(rank)
}
