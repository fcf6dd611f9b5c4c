package endpoint

import (
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"gputrain/internal/formats"
	"gputrain/internal/suggest"
	"gputrain/run/rollout"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// asked is a request that was read.
type asked struct {
	*form
	model    *Model
	prompts  [][]int32
	n        int // completions of each prompt
	draw     rollout.Request
	stop     []string
	seeded   bool
	logProbs bool
	stream   bool
	usage    bool // a stream ends with it

	given map[string]any
}

// A parameter is a key of requests. What reads it is told values that are not null, which counts as not given.
type parameter struct {
	read func(a *asked, name string, value any) *problem
	of   *form // nil: of both
}

// Bounds of what a request may ask for. Those of stops, choices and the likeliest tokens are OpenAI's.
const (
	mostStops, longestStop = 4, 256
	mostChoices            = 128
	mostTop, mostTopOfText = 20, 5
	mostTemperature        = 2
	textTokens             = 16 // of a text where it does not say
)

// parameters are all that are known.
var parameters = map[string]parameter{
	"model":                 {read: keep},
	"messages":              {read: keep, of: chatForm},
	"chat_template_kwargs":  {read: keep, of: chatForm},
	"prompt":                {read: keep, of: textForm},
	"max_tokens":            {read: whole(1, math.MaxInt32, func(a *asked, n int64) { a.draw.Tokens = int(n) })},
	"max_completion_tokens": {read: whole(1, math.MaxInt32, func(a *asked, n int64) { a.draw.Tokens = int(n) }), of: chatForm},
	"temperature":           {read: number(0, mostTemperature, func(a *asked, x float64) { a.draw.Temperature = x })},
	"top_p":                 {read: number(0, 1, func(a *asked, x float64) { a.draw.TopP = max(x, math.SmallestNonzeroFloat64) })},
	"min_p":                 {read: number(0, 1, func(a *asked, x float64) { a.draw.MinP = x })},
	"top_k":                 {read: whole(-1, math.MaxInt32, func(a *asked, n int64) { a.draw.TopK = max(int(n), 0) })},
	"seed":                  {read: whole(math.MinInt64, math.MaxInt64, func(a *asked, n int64) { a.draw.Seed, a.seeded = uint64(n), true })},
	"n":                     {read: whole(1, mostChoices, func(a *asked, n int64) { a.n = int(n) })},
	"stop":                  {read: readStop},
	"stream":                {read: truth(func(a *asked, yes bool) { a.stream = yes })},
	"stream_options":        {read: readStreamOptions},
	"top_logprobs":          {read: whole(0, mostTop, func(a *asked, n int64) { a.draw.Top = int(n) }), of: chatForm},
	"logprobs":              {read: readLogProbs},

	"user": {}, "metadata": {}, "store": {}, "service_tier": {}, "parallel_tool_calls": {}, "safety_identifier": {}, "prompt_cache_key": {}, "prompt_cache_retention": {},

	"frequency_penalty": {read: only(isNumber(0))}, "presence_penalty": {read: only(isNumber(0))}, "repetition_penalty": {read: only(isNumber(1))},
	"logit_bias": {read: only(empty)}, "tools": {read: only(empty)}, "functions": {read: only(empty)}, "suffix": {read: only(empty)},
	"tool_choice": {read: only(noTools)}, "function_call": {read: only(noTools)}, "response_format": {read: only(isText)},
	"modalities": {read: only(textAlone)}, "echo": {read: only(isFalse)}, "best_of": {read: keep, of: textForm},
	"audio": {read: only(never)}, "prediction": {read: only(never)}, "reasoning_effort": {read: only(never)}, "verbosity": {read: only(never)},
	"web_search_options": {read: only(never)},
}

func isNumber(n float64) func(value any) bool {
	return func(value any) bool {
		x, ok := numberOf(value)
		return ok && x == n
	}
}

func empty(value any) bool {
	switch v := value.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case *template.Object:
		return v.Len() == 0
	}
	return false
}

func noTools(value any) bool { return value == "none" || value == "auto" }
func isFalse(value any) bool { return value == false }
func never(any) bool         { return false }

func isText(value any) bool {
	o, ok := value.(*template.Object)
	if !ok {
		return false
	}
	kind, _ := o.Get("type")
	return kind == "text" && o.Len() == 1
}

func textAlone(value any) bool {
	list, ok := value.([]any)
	return ok && len(list) == 1 && list[0] == "text"
}

// only accepts a parameter that is not followed where it changes nothing.
func only(without func(value any) bool) func(*asked, string, any) *problem {
	return func(_ *asked, name string, value any) *problem {
		if without(value) {
			return nil
		}
		return wrong(name, codeParameter, "found a value that would change what is drawn, wanted none: this endpoint does not follow it")
	}
}

func keep(a *asked, name string, value any) *problem {
	a.given[name] = value
	return nil
}

func numberOf(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func number(least, most float64, set func(a *asked, x float64)) func(*asked, string, any) *problem {
	return func(a *asked, name string, value any) *problem {
		x, ok := numberOf(value)
		switch {
		case !ok:
			return wrong(name, codeValue, "found %s, wanted a number", template.Kind(value))
		case !(x >= least && x <= most):
			return wrong(name, codeValue, "found %v, wanted %v to %v", x, least, most)
		}
		set(a, x)
		return nil
	}
}

func whole(least, most int64, set func(a *asked, n int64)) func(*asked, string, any) *problem {
	return func(a *asked, name string, value any) *problem {
		n, ok := value.(int64)
		switch {
		case !ok:
			return wrong(name, codeValue, "found %s, wanted a whole number", template.Kind(value))
		case n < least || n > most:
			return wrong(name, codeValue, "found %d, wanted %d to %d", n, least, most)
		}
		set(a, n)
		return nil
	}
}

func truth(set func(a *asked, yes bool)) func(*asked, string, any) *problem {
	return func(a *asked, name string, value any) *problem {
		yes, ok := value.(bool)
		if !ok {
			return wrong(name, codeValue, "found %s, wanted true or false", template.Kind(value))
		}
		set(a, yes)
		return nil
	}
}

func readStop(a *asked, name string, value any) *problem {
	list, several := value.([]any)
	if !several {
		list = []any{value}
	}
	if len(list) > mostStops {
		return wrong(name, codeValue, "found %d texts, wanted at most %d", len(list), mostStops)
	}
	for _, one := range list {
		text, ok := one.(string)
		if !ok || text == "" || len(text) > longestStop {
			return wrong(name, codeValue, "found %s, wanted texts of 1 to %d bytes", template.Kind(one), longestStop)
		}
		a.stop = append(a.stop, text)
	}
	return nil
}

func readStreamOptions(a *asked, name string, value any) *problem {
	o, ok := value.(*template.Object)
	if !ok {
		return wrong(name, codeValue, "found %s, wanted an object", template.Kind(value))
	}
	for _, key := range o.Keys() {
		switch value, _ := o.Get(key); key {
		case "include_usage":
			if p := truth(func(a *asked, yes bool) { a.usage = yes })(a, name+"."+key, value); p != nil {
				return p
			}
		case "include_obfuscation": // pads events where others may measure them
		default:
			return wrong(name, codeParameter, "found %q, wanted include_usage", key)
		}
	}
	return nil
}

// readLogProbs reads a truth of a chat, of a text how many of the likeliest tokens are told.
func readLogProbs(a *asked, name string, value any) *problem {
	if a.form == chatForm {
		return truth(func(a *asked, yes bool) { a.logProbs = yes })(a, name, value)
	}
	return whole(0, mostTopOfText, func(a *asked, n int64) { a.logProbs, a.draw.Top = true, int(n) })(a, name, value)
}

// read reads a request.
func (s *Server) read(f *form, raw []byte) (*asked, *problem) {
	value, err := template.Decode(raw)
	body, ok := value.(*template.Object)
	if err == nil && !utf8.Valid(raw) {
		err = errors.New("found bytes that are not UTF-8")
	}
	switch {
	case err != nil:
		return nil, &problem{status: http.StatusBadRequest, why: "the body is not JSON: " + err.Error()}
	case !ok:
		return nil, &problem{status: http.StatusBadRequest, why: "the body: found " + template.Kind(value) + ", wanted an object"}
	}
	name, _ := body.Get("model")
	a := &asked{form: f, n: 1, given: map[string]any{}}
	var p *problem
	if a.model, p = s.named(name); p != nil {
		return nil, p
	}
	a.draw = a.model.Draw
	a.draw.Tokens = 0 // as it says
	for _, key := range body.Keys() {
		value, _ := body.Get(key)
		of, known := parameters[key]
		switch {
		case !known || of.of != nil && of.of != f:
			names := slices.DeleteFunc(slices.Sorted(maps.Keys(parameters)), func(name string) bool { of := parameters[name].of; return of != nil && of != f })
			return nil, wrong(key, "unknown_parameter", "found a parameter that is not known here%s", suggest.DidYouMean(key, names))
		case value == nil || of.read == nil:
		default:
			if p := of.read(a, key, value); p != nil {
				return nil, p
			}
		}
	}
	if p := a.fit(s); p != nil {
		return nil, p
	}
	return a, nil
}

// fit looks at what parameters mean together, and makes tokens of the prompts.
func (a *asked) fit(s *Server) (p *problem) {
	if best, ok := a.given["best_of"]; ok && best != int64(a.n) {
		return wrong("best_of", codeParameter, "found a value other than n, wanted as many: every completion that is drawn is answered")
	}
	if a.draw.Top > 0 && !a.logProbs {
		return wrong("top_logprobs", codeValue, "found a number of tokens without logprobs, wanted it true")
	}
	if a.prompts, p = a.form.prompts(a); p != nil {
		return p
	}
	if found, most := a.n*len(a.prompts), min(mostChoices, a.model.Rows+s.Waiting); found > most {
		return wrong("n", codeValue, "found %d completions of %d prompts, wanted at most %d in all", a.n, len(a.prompts), most)
	}
	for i, prompt := range a.prompts {
		switch window := a.model.Window; {
		case len(prompt) == 0:
			return wrong(a.form.subject, codeValue, "found no tokens (prompt %d), wanted some to go on with", i)
		case len(prompt) >= window:
			return wrong(a.form.subject, codeLength, "found %d tokens (prompt %d), wanted at most %d: this model's maximum context length is %d tokens, and one is to be drawn",
				len(prompt), i, window-1, window)
		}
	}
	if a.draw.Tokens == 0 {
		a.draw.Tokens = a.form.tokens
	}
	if a.draw.Tokens = min(a.draw.Tokens, a.model.Tokens); a.draw.Tokens == 0 {
		a.draw.Tokens = a.model.Tokens
	}
	if !a.seeded {
		a.draw.Seed += s.unseeded.Add(1) - 1
	}
	if len(a.stop) > 0 {
		a.draw.Ends = a.model.Ends(a.stop)
	}
	return nil
}

// named is a model by its name.
func (s *Server) named(name any) (*Model, *problem) {
	text, ok := name.(string)
	if !ok || text == "" {
		return nil, wrong("model", codeValue, "found none, wanted one of %s", s.names())
	}
	i := slices.IndexFunc(s.Models, func(m *Model) bool { return m.Name == text })
	if i < 0 {
		p := wrong("model", codeModel, "found %.100q, wanted one of %s", text, s.names())
		p.status = http.StatusNotFound
		return nil, p
	}
	return s.Models[i], nil
}

func (s *Server) names() string {
	var all []string
	for _, m := range s.Models {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
}

// conversation is the prompt of a chat, by the model's template.
func conversation(a *asked) ([][]int32, *problem) {
	const subject = "messages"
	if a.model.Chat == nil {
		return nil, wrong("model", codeModel, "%v; /v1/completions continues texts", a.model.NoChat)
	}
	row := &template.Object{}
	for _, key := range []string{subject, "chat_template_kwargs"} {
		if value, ok := a.given[key]; ok {
			row.Set(key, value)
		}
	}
	talk, err := chat.FromRow(row, formats.Messages)
	var ids []int32
	if err == nil {
		ids, err = a.model.Chat.Prompt(talk)
	}
	if err != nil {
		return nil, wrong(subject, codeValue, "%v", err)
	}
	for _, key := range talk.Variables.Keys() {
		if slices.Contains(talk.Unread, key) {
			return nil, wrong("chat_template_kwargs", codeParameter, "found %.100q, which the model's template does not read", key)
		}
	}
	a.draw.Stop = append(slices.Clone(a.draw.Stop), a.model.Chat.Ends()...)
	return [][]int32{ids}, nil
}

// texts are the prompts of a text: one or several, as texts or as tokens.
func texts(a *asked) (all [][]int32, p *problem) {
	value := a.given["prompt"]
	list, several := value.([]any)
	if !several || len(list) > 0 && isWhole(list[0]) {
		list = []any{value}
	}
	if len(list) == 0 || len(list) > mostChoices {
		return nil, wrong("prompt", codeValue, "found %d prompts, wanted 1 to %d", len(list), mostChoices)
	}
	for i, one := range list {
		prompt, err := a.model.prompt(one)
		if err != nil {
			return nil, wrong("prompt", codeValue, "prompt %d: %v", i, err)
		}
		all = append(all, prompt)
	}
	return all, nil
}

func isWhole(value any) bool { _, ok := value.(int64); return ok }

// prompt is the tokens of one.
func (m *Model) prompt(value any) (prompt []int32, err error) {
	switch v := value.(type) {
	case string:
		return m.Text.Encode(v)
	case []any:
		for _, one := range v {
			id, ok := one.(int64)
			if !ok || id < 0 || id >= int64(m.Vocab) {
				return nil, errors.New("found a list with something that is no token of the model, wanted a text or a list of tokens")
			}
			prompt = append(prompt, int32(id))
		}
		return prompt, nil
	}
	return nil, errors.New("found " + template.Kind(value) + ", wanted a text or a list of tokens")
}
