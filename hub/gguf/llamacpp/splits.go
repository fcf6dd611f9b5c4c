package llamacpp

// Splits of words, as the files of published models have them.
const (
	gpt2Split  = `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	gpt2Older  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llamaSplit = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwenSplit  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	marksSplit = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt4oSplit = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}` + casesEnd
	nemoSplit = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}` + casesEnd
	casesEnd = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	digits   = "digits then " // one by one, before a split
)

// split is a way to split text into words.
type split struct {
	name, text string
	whole      bool // words that are tokens are not merged: ignore_merges
	begins     bool // a text begins with a token, unless a file says otherwise
	composed   bool // published models of this name compose letters and accents (NFC)
}

// splits are those that llama.cpp knows, by its names for them. The first of two that do the same is written.
var splits = []split{
	{name: "gpt-2", text: gpt2Split},
	{name: "llama-bpe", text: llamaSplit, whole: true, begins: true},
	{name: "llama3", text: llamaSplit, whole: true, begins: true},
	{name: "llama-v3", text: llamaSplit, whole: true, begins: true},
	{name: "lfm2", text: llamaSplit, whole: true, begins: true},
	{name: "dbrx", text: llamaSplit},
	{name: "smaug-bpe", text: llamaSplit},
	{name: "qwen2", text: qwenSplit, composed: true},
	{name: "deepseek-r1-qwen", text: qwenSplit, composed: true},
	{name: "qwen35", text: marksSplit, composed: true},
	{name: "smollm", text: digits + gpt2Split},
	{name: "refact", text: digits + gpt2Split},
	{name: "tekken", text: nemoSplit, whole: true, begins: true},
	{name: "gpt-4o", text: gpt4oSplit},
	{name: "olmo", text: gpt2Split},
	{name: "granite-docling", text: gpt2Split},
}
