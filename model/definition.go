package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// errNone is the error of a definition that is not there.
var errNone = errors.New("model: definition: found none, wanted one")

// Definition is a validated network. NewGPT2, NewLlama, NewMLP, New and ParseConfig make one, and so may any other package: see Register
// and NewBuilder.
type Definition interface {
	// Kind is that of its Family.
	Kind() string
	// Vocab is the number of token ids; 0 for an MLP.
	Vocab() int
	// Context is the greatest number of positions; 1 for an MLP.
	Context() int
	// Params lists the parameters, sorted by path.
	Params() []Param
	// Build makes the graph for batch sequences of seq tokens.
	Build(batch, seq int, o Options) (*Built, error)
	// Settings are the content of config.json, but for its kind and the type of its weights, in a map of its own each time: what the Family
	// reads, and what an imported file had besides.
	Settings() map[string]any
}

// dropping is what a Definition implements that has dropout, and WithDropout asks for.
type dropping interface {
	// WithDropout is the same network with dropout p, 0 <= p < 1, in training.
	WithDropout(p float64) (Definition, error)
}

// Param is one parameter and how it begins: normal with mean 0 and deviation Std, or, when
// Std is 0, Value everywhere.
type Param struct {
	Path  string
	Shape []int
	Std   float64
	Value float64
	// InOut says that a matrix is [inputs, outputs], as those of GPT-2's layers are; else it is [outputs, inputs], as Builder.Linear takes it. The
	// tables that Family.Embeddings names are [inputs, outputs] without it.
	InOut bool
	// Fixed parameters are numbers of the file that nobody trains.
	Fixed bool
	// Table says that the network reads a matrix by Builder.Tokens alone, as array.Spec has it.
	Table bool

	wide    bool    // files that round weights have it in f32
	uniform float64 // it begins uniform in [-uniform, uniform); 0: not so
	from    string  // the path of the parameter that it begins as a copy of; "" for none
	lengths bool    // it begins as the lengths of that one's rows, one for each output
	conv    bool    // the outputs of that one are its columns
	pieces  []piece // what files may have in its place, one behind the other; nil: nothing
	stacked bool    // files that are written have it, not these
	across  bool    // that is one matrix with the experts of [experts, out, rank] along its rows
}

// Options says what a graph computes. Loss or Logits is needed; both may be.
type Options struct {
	Loss bool
	// Logits makes Built.Logits, or what another head gives in their place.
	Logits bool
	// Rows restricts the logits to so many positions, which the input InputRows names. 0 is all.
	Rows int
	// Window, for Logits alone, makes a graph that goes on with sequences: the keys and values of up to so many positions are in Built.Caches,
	// and the tokens are those at InputPositions. 0: every sequence begins here.
	Window int
	// Paging, with a Window, has the tokens be of any of several rows, whose keys and values lie in blocks.
	Paging Paging
	// CachesApart, with a Window, gives layers that read another's keys and values a cache of their own: stages keep what their own layers read.
	CachesApart bool
	// Documents makes a graph for rows of documents one behind the other: a token sees its own document, and InputPositions counts from its first token.
	Documents bool
	// Training applies dropout where the definition has it; evaluation and sampling leave it out.
	Training bool
	// Objective is what Loss is of.
	Objective Objective

	tokenLosses bool         // make Built.tokenLosses
	temperature float64      // of these; 0: the objective's, or 1
	into        *graph.Graph // the graph to build in; nil: a new one
	quantized   *quantized   // the network that builds through another; nil for none
	headed      *headed      // likewise
	adapted     *adapted     // likewise
	teacher     Definition   // which a loss may read; nil for none
	referred    Definition   // the reference in the graph, see WithReference; nil: the network without its adapters is, if it has some
	prefix      string       // of the paths of parameters in the graph, of prefixed alone where these are not nil
	prefixed    map[string]bool
	ends        *headEnds // built instead of a head; nil: the head is
	// linear is told of each matrix that rows are multiplied by, conv of one that is [in, out], and head of the output head; nil: nobody is.
	linear func(path string, conv bool)
	head   func(path string)
	expert func(a adapter) // is told of each adapter that matrices of experts may have
}

// Paging is how keys and values of several rows lie in Built.Caches. A graph of it takes one batch of seq tokens: each is at InputPositions of the row
// that InputRow names, and InputTable has the blocks of each row (graph.CachedAttention). A token that is idle has row -1, and any token and
// position that there are, say 0: its logits mean nothing. The logits of a token depend on its row alone, bit by bit: not on other tokens of the
// pass, nor on where blocks are. The zero value: no rows but the one of a sequence, which is one block.
type Paging struct {
	Rows   int // of the table
	Blocks int // of all rows together
	Size   int // positions of a block, a power of two
	// Storage is array.F32, or array.BF16 for keys and values that are rounded to it, of heads of whole vec4s.
	Storage array.DType
}

// entries is how many blocks a row has at most.
func (p Paging) entries(window int) int { return (window + p.Size - 1) / p.Size }

func (p Paging) check(batch, window int) error {
	if p != (Paging{}) && (window < 1 || batch != 1 || p.Rows < 1 || p.Blocks < 1 || p.Size < 1 || p.Size&(p.Size-1) != 0) {
		return fmt.Errorf("paging %+v, batch %d, window %d: want rows, blocks, a size that is a power of two, a batch of 1 and a window", p, batch, window)
	}
	return nil
}

// Names of the inputs of a graph. Which of them there are follows from Options; an Objective may have more of its own.
const (
	InputTokens     = "tokens"      // i32 [batch, seq]
	InputLabels     = "labels"      // i32 [batch*seq], graph.IgnoreLabel does not count; with Loss
	InputLossScale  = "loss_scale"  // f32 []: 1 over Counts.Of of a whole update; with Loss
	InputDropoutKey = "dropout_key" // u32 [2], another for each batch; when Training and dropout > 0
	InputRows       = "rows"        // i32 [Rows], indices into batch*seq; with Rows > 0; with scores, and vectors of last tokens, [batch], of these
	InputPositions  = "positions"   // i32 [batch, seq], each below Window and no two of a sequence the same; with Documents from 0 on in each; with either
	InputTable      = "blocks"      // i32 [Paging.Rows, Window/Paging.Size rounded up]: which block a row's positions are in; those that it has not reached may be any
	InputThere      = "there"       // f32 [batch*seq]: 1 for a token, 0 for what a row lacks; where routers are told of
	InputBalance    = "balance"     // f32 []: the scale of the loss over the microbatches of a whole update; where experts are balanced
	InputRow        = "row"         // i32 [batch, seq], which row of InputTable a token is of; -1: none, it is idle; with Paging, and with a Window where the network keeps states (Recurrent)
	inputFeatures   = "features"    // f32 [batch, in]; MLP, instead of tokens
	inputTargets    = "targets"     // f32 [batch, out]; MLP with mean squared error, instead of labels
	// InputLabelScale is f32 []: Counts.LabelScale of a whole update, for a loss that has a mean over labels in it.
	InputLabelScale = "learned_scale"
)

// Built is a graph and its ends.
type Built struct {
	Graph *graph.Graph
	// LossSum [] is the sum of the losses of what counts, Loss [] is LossSum times InputLossScale. Learned is what parameters follow the gradient of: Loss, and
	// what balances experts where they are balanced.
	LossSum, Loss, Learned *graph.Value
	// Routed tells how tokens go to experts, see Routing; nil where a network has none.
	Routed *graph.Value
	// Sums are those of an objective's Loss.Sums, over what counts; nil where it has none. Figures are what it finds.
	Sums    *graph.Value
	Figures []figure
	// Rows are the log-probabilities of the completions, [batch], where a loss reads those of a reference that is given; else nil.
	Rows *graph.Value
	// Logits is [batch*seq, vocab], or [Rows, vocab]; of another head its scores [batch, labels] or vectors [batch, width].
	Logits *graph.Value
	// Caches are inputs [batch, Window, width], or of Paging [Blocks, Size, width], one for each attention, and [rows, ...], one for each convolution and state: an input that the graph changes in place, so that it finds there what
	// it left (graph.CachedAttention).
	Caches []*graph.Value
	// Params are the parameters, in the order of Definition.Params.
	Params []*graph.Value

	tokenLosses *graph.Value // [batch*seq], of each label
	entropies   *graph.Value // [batch*seq], of the softmax whose loss that is; nil where the objective reads none
}

// figure is what a loss finds of each of Loss.Counts in a batch, [batch/Loss.Group], of each row [batch, ..] or label [batch*seq], or a number [].
type figure struct {
	Name  string
	Value *graph.Value
}

// Specs are the parameters of def as a layout and an optimizer take them, in the order of a tree with a level for each part of a path, as JAX goes
// through it.
func Specs(def Definition) []array.Spec {
	var specs []array.Spec
	for _, p := range laidOut(def) {
		specs = append(specs, array.Spec{Path: p.Path, Shape: p.Shape, OutIn: p.outIn(), InOut: len(p.Shape) == 2 && p.InOut, Table: p.Table})
	}
	slices.SortFunc(specs, func(a, b array.Spec) int { return byLevel(a.Path, b.Path) })
	return specs
}

// byLevel compares paths part by part: numbers by their size, words by code points.
func byLevel(a, b string) int {
	for a != b {
		var left, right string
		left, a, _ = strings.Cut(a, ".")
		right, b, _ = strings.Cut(b, ".")
		m, notLeft := strconv.Atoi(left)
		n, notRight := strconv.Atoi(right)
		order := strings.Compare(left, right)
		if notLeft == nil && notRight == nil {
			order = cmp.Compare(m, n)
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

// laidOut are the parameters of def, with what its family says of how matrices lie.
func laidOut(def Definition) []Param {
	params := slices.Clone(def.Params())
	for i, p := range params {
		params[i].InOut = p.InOut || slices.Contains(families[def.Kind()].Embeddings, p.Path)
	}
	return params
}

// Fixed are the paths of the parameters of def that are never trained.
func Fixed(def Definition) (paths []string) {
	for _, p := range def.Params() {
		if p.Fixed {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

func (p Param) outIn() bool { return len(p.Shape) == 2 && !p.InOut }

// Parameters is the number of elements of all parameters.
func Parameters(def Definition) int64 {
	total := int64(0)
	for _, p := range def.Params() {
		total += elements(p.Shape)
	}
	return total
}

// FLOPsPerToken is the work of forward and backward pass for one token of a sequence of
// seq: three times the forward pass, whose attention is counted for the positions
// that see each other. For an MLP, seq is 1 and a token is an example.
func FLOPsPerToken(def Definition, seq int) (float64, error) {
	built, err := def.Build(1, seq, plain(def))
	if err != nil {
		return 0, err
	}
	end := built.Loss
	if end == nil {
		end = built.Logits
	}
	return 3 * float64(built.Graph.FLOPs(end)) / float64(seq), nil
}

// WithDropout is def with dropout p, 0 <= p < 1, in training: for GPT-2 after the embeddings
// and after each residual projection, none inside attention. Llama and MLP have none
// and take only 0.
func WithDropout(def Definition, p float64) (Definition, error) {
	if !(p >= 0 && p < 1) {
		return nil, fmt.Errorf("model: dropout: %v, want a probability in [0, 1)", p)
	}
	if def == nil {
		return nil, errNone
	}
	if d, ok := def.(dropping); ok {
		return d.WithDropout(p)
	}
	if p > 0 {
		return nil, fmt.Errorf("model: %s: dropout: %v, want 0: it has none", def.Kind(), p)
	}
	return def, nil
}

// sortParams puts parameters into the canonical order.
func sortParams(params []Param) []Param {
	slices.SortFunc(params, byPath)
	return params
}

func byPath(a, b Param) int { return cmp.Compare(a.Path, b.Path) }

func elements(shape []int) int64 { return int64(array.Elements(shape)) }

// largest bounds every size in a configuration, so that the elements of all parameters fit an int64.
const largest = 1 << 20

// sizes checks named sizes: each from 1 to largest.
func sizes(model string, named ...any) error {
	for i := 0; i < len(named); i += 2 {
		if v := named[i+1].(int); v < 1 || v > largest {
			return fmt.Errorf("model: %s: %s: %d, want 1 to %d", model, named[i], v, largest)
		}
	}
	return nil
}

// deepest bounds the layers of a configuration that came from a stranger.
const deepest = 10000

func depth(model string, layers int) error {
	if layers > deepest {
		return fmt.Errorf("model: %s: layers: %d, want at most %d", model, layers, deepest)
	}
	return nil
}

func dividesBy(model, what string, a int, by string, b int) error {
	if a%b != 0 {
		return fmt.Errorf("model: %s: %s: %d, want a multiple of %s %d", model, what, a, by, b)
	}
	return nil
}

func probability(model, what string, p float64) error {
	if !(p >= 0 && p < 1) {
		return fmt.Errorf("model: %s: %s: %v, want a probability in [0, 1)", model, what, p)
	}
	return nil
}

func positive(model, what string, v float64) error {
	if !(v > 0 && v < 1e30) {
		return fmt.Errorf("model: %s: %s: %v, want a number above 0 and below 1e30", model, what, v)
	}
	return nil
}

var errNothing = errors.New("options: neither loss nor logits, want one of them or both")
