package endpoint

import "strings"

// A form is one of the two ways to ask.
type form struct {
	path, id    string
	whole, part string // names of objects
	subject     string // the parameter that is gone on with
	tokens      int    // where a request does not say; 0: as many as may be
	prompts     func(a *asked) ([][]int32, *problem)
	says        func(text string, whole, first bool) (key string, value any)
	logProbs    func(all []entry) any
	begins      bool // a stream begins each choice before its text
}

var chatForm = &form{
	path: "/v1/chat/completions", id: "chatcmpl-", whole: "chat.completion", part: "chat.completion.chunk", subject: "messages", begins: true,
	prompts: conversation,
	says: func(text string, whole, first bool) (string, any) {
		if whole {
			return "message", map[string]any{"role": "assistant", "content": text, "refusal": nil}
		}
		delta := map[string]any{}
		if first {
			delta["role"] = "assistant"
		}
		if first || text != "" {
			delta["content"] = text
		}
		return "delta", delta
	},
	logProbs: func(all []entry) any {
		content := []any{}
		for _, e := range all {
			one, top := e.object(), []any{}
			for _, l := range e.top {
				top = append(top, l.object())
			}
			one["top_logprobs"] = top
			content = append(content, one)
		}
		return map[string]any{"content": content, "refusal": nil}
	},
}

var textForm = &form{
	path: "/v1/completions", id: "cmpl-", whole: "text_completion", part: "text_completion", subject: "prompt", tokens: textTokens,
	prompts: texts,
	says:    func(text string, _, _ bool) (string, any) { return "text", text },
	logProbs: func(all []entry) any {
		tokens, logProbs, offsets, tops := []string{}, []float32{}, []int{}, []any{}
		for _, e := range all {
			var top any
			if len(e.top) > 0 {
				of := map[string]float32{e.text: e.logProb}
				for _, l := range e.top {
					if _, there := of[l.text]; !there { // of equal texts the likeliest
						of[l.text] = l.logProb
					}
				}
				top = of
			}
			tokens, logProbs, offsets, tops = append(tokens, e.text), append(logProbs, e.logProb), append(offsets, e.characters), append(tops, top)
		}
		return map[string]any{"tokens": tokens, "token_logprobs": logProbs, "text_offset": offsets, "top_logprobs": tops}
	},
}

// object is a token with its bytes, where its text has them all.
func (l likely) object() map[string]any {
	var bytes any
	if !strings.Contains(l.text, unknown) {
		all := make([]int, len(l.text))
		for i := range all {
			all[i] = int(l.text[i])
		}
		bytes = all
	}
	return map[string]any{"token": l.text, "logprob": l.logProb, "bytes": bytes}
}

// choice is one of the completions, or what there is of one.
func (f *form) choice(number int, text string, whole, first bool, logProbs []entry, told bool, why any) map[string]any {
	key, says := f.says(text, whole, first)
	c := map[string]any{"index": number, key: says, "logprobs": nil, "finish_reason": why}
	if told {
		c["logprobs"] = f.logProbs(logProbs)
	}
	return c
}
