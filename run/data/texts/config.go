package texts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gputrain/internal/formats"
	"gputrain/internal/suggest"
	"gputrain/run/data"
	"gputrain/text/tokenizer"
)

// kinds are the values of Config.Tokens.
var kinds = []string{"bytes", "u16", "u32", "tokenizer"}

// Config says which tokens to read. Of Text, JSONL and Mixture one is set, or none for the built-in corpus, the Go source of the
// toolchain at hand.
type Config struct {
	// Text are file names or patterns (see [Open]).
	Text []string
	// JSONL are those of files of rows, each a document: a JSON object a line, an array of them, or Parquet (rows.go). Names that end with .gz are
	// compressed.
	JSONL []string
	// Held are files of rows as JSONL has them, which are kept for validation, in the place of a share of the rows; none of their rows may be among the others.
	Held []string
	// Mixture are several of both, with weights.
	Mixture []Part
	// MixtureEnd is when an epoch of the mixture is over: one of data.Ends; "" is the first of them.
	MixtureEnd string
	// Tokens is how files become tokens: "bytes" (also ""), one a byte, vocabulary 256;
	// "u16", "u32", files of little-endian tokens, bare or after the header of bin.go; "tokenizer", text that Tokenizer encodes.
	Tokens string
	// Tokenizer makes tokens of text. Around a document stands what it puts around a text, and behind it the end token. Files of text are encoded one by
	// one, and between two of them stand the same tokens, but for an end token below 0 (Layout.End); before the first and behind the last there is nothing.
	Tokenizer *tokenizer.Tokenizer
	// Invalid is what becomes of text that is not UTF-8 where it has to be, for a tokenizer or in JSON: an error ("error", also ""), or U+FFFD in its
	// place ("replace").
	Invalid string
	// Replacing is how the user asks for "replace", as errors say it; default data.invalid=replace.
	Replacing string
	// Cache is a directory that keeps what has been made of files (tokenfile.go): tokens of text and of rows, by content and by how they are encoded, windows
	// of documents, and hashes of contents. "": it is made in temporary files each time, and every file is read as a whole.
	Cache string
	// Vocab is the vocabulary of bare tokens and of lists of tokens: every id is below it. 0 is 65536 for
	// u16, an error for u32, 256 for lists. Text and files with a header know their own.
	Vocab  int
	Fields data.Fields // of JSONL
	Layout data.Layout // of JSONL
	// Format is what the rows of JSONL are: "auto", told by the keys of each row; "fields", documents in Fields; "messages", "conversations", "prompt_completion",
	// "alpaca" or "text"; or of the form of an objective (model.Loss.Form), such as "pairs". "" is "auto". Where fields are named, rows are documents in these.
	Format string
	// PerWindow packs the documents of rows of an objective into windows of at most so many, those of a row in one (model.Objective.PerWindow). Up to 1: each is a
	// window.
	PerWindow int
	Chats     Chats // of rows that are conversations
	// Labels is how many classes rows have, where they have classes, and Names what they may be called too; nil: they have numbers alone. Group is how many
	// windows a row of queries is: one for its query, one for its positive, the others for negatives.
	Labels int
	Names  []string
	Group  int
	// Validation is the share of the tokens, or of the documents, kept for validation, in [0, 1).
	Validation float64
	// Context is the length of a window; both parts must hold one and a token more.
	Context int

	// Dir is where relative patterns begin; "": the working directory.
	Dir string
	// Timeout is how long a read may take until Open fails with a *TimeoutError; 0: as long as it takes.
	Timeout time.Duration
	// Progress, where there is one, is called several times a second while Open reads.
	Progress func(Progress)
}

// Progress is how far Open is.
type Progress struct {
	Phase     string // "reading", "tokenizing" or "packing"
	Bytes, Of int64  // of files in this phase; Of is 0 where nobody knows
	OfRows    bool   // files have rows
	Rows      int64  // that have become tokens
	Took      time.Duration
}

// Part is one source of a mixture: Text or JSONL as in Config.
type Part struct {
	Text, JSONL []string
	Fields      data.Fields
	// Weight is the share of windows that come from here, beside the weights of the others.
	Weight float64
}

// Validate reports the first value that cannot be meant.
func (c Config) Validate() error {
	kind := c.kind()
	given := 0
	for _, list := range []int{len(c.Text), len(c.JSONL), len(c.Mixture)} {
		if list > 0 {
			given++
		}
	}
	switch {
	case c.Timeout < 0:
		return fmt.Errorf("data: timeout: %v, want at least 0", c.Timeout)
	case given > 1:
		return fmt.Errorf("data: text, jsonl, mixture: %d of them given, want one: a mixture has both", given)
	case !slices.Contains(kinds, kind):
		return fmt.Errorf("data: tokens: %q, want one of %q", c.Tokens, kinds)
	case c.tokenizes() != (c.Tokenizer != nil):
		return fmt.Errorf("data: tokens: %q, tokenizer: %v: want both or none", kind, c.Tokenizer != nil)
	case c.Invalid != "" && !slices.Contains(invalids, c.Invalid):
		return fmt.Errorf("data: invalid: %q, want one of %q", c.Invalid, invalids)
	case c.MixtureEnd != "" && !slices.Contains(data.Ends, c.MixtureEnd):
		return fmt.Errorf("data: mixture end: %q, want one of %q", c.MixtureEnd, data.Ends)
	case c.Format == formats.Prompts && len(c.JSONL) == 0:
		return fmt.Errorf("data: prompts: found none, want files of rows (data.jsonl)")
	case c.Format != "" && c.Format != formats.Prompts && groups[c.Format].read == nil && !slices.Contains(formats.Rows, c.Format):
		return fmt.Errorf("data: format: %q, want one of %q%s", c.Format, formats.Rows, suggest.DidYouMean(c.Format, formats.Rows))
	case len(c.Held) > 0 && (len(c.JSONL) == 0 || c.Validation > 0):
		return fmt.Errorf("data: held: found files, jsonl %q and validation %v, want jsonl, and no share besides", c.JSONL, c.Validation)
	case !(c.Validation >= 0 && c.Validation < 1):
		return fmt.Errorf("data: validation: %v, want a share in [0, 1)", c.Validation)
	case c.Context < 1:
		return fmt.Errorf("data: context: %d, want at least 1", c.Context)
	case c.Vocab < 0 || c.Vocab > 1<<31-1 || kind == "u16" && c.Vocab > 1<<16:
		return fmt.Errorf("data: vocab: %d: does not suit tokens %q", c.Vocab, kind)
	case given == 0 && (kind == "u16" || kind == "u32"):
		return fmt.Errorf("data: text: none, want the files of the %q tokens", kind)
	}
	for i, p := range c.Mixture {
		if (len(p.Text) > 0) == (len(p.JSONL) > 0) {
			return fmt.Errorf("data: mixture: source %d: text %q, jsonl %q: want one of them", i, p.Text, p.JSONL)
		}
		if err := p.Fields.Validate(); err != nil {
			return fmt.Errorf("data: mixture: source %d: %w", i, err)
		}
	}
	if err := c.Fields.Validate(); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return c.Layout.Validate()
}

func (c Config) kind() string { return cmp.Or(c.Tokens, "bytes") }
