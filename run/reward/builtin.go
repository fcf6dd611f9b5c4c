package reward

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gputrain/internal/suggest"
	"gputrain/internal/terminal"
)

// scaled are answers times scale, plus offset.
type scaled struct {
	of            Function
	scale, offset float64
}

// Rewards asks the function.
func (s *scaled) Rewards(ctx context.Context, samples []Sample) ([]float64, error) {
	answers, err := s.of.Rewards(ctx, samples)
	for i := range answers {
		answers[i] = answers[i]*s.scale + s.offset
	}
	return answers, err
}

// Timeouts counts the timeouts of the function.
func (s *scaled) Timeouts() int64 { return Rewards{{Function: s.of}}.Timeouts() }

// Close closes the function.
func (s *scaled) Close() error {
	if c, ok := s.of.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// byRow is a function of one sample at a time.
type byRow func(s Sample) (float64, error)

// Rewards asks it of each.
func (f byRow) Rewards(_ context.Context, samples []Sample) (answers []float64, err error) {
	for _, s := range samples {
		v, err := f(s)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", s.ID, err)
		}
		answers = append(answers, v)
	}
	return answers, nil
}

// share is 1 for what is so.
func share(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// column is the text in a column of a row; false: null.
func column(s Sample, name string) (text string, said bool, err error) {
	v, there := s.Columns[name]
	if !there {
		names := slices.Sorted(maps.Keys(s.Columns))
		return "", false, fmt.Errorf("found no column %q, wanted one of %q%s", name, names, suggest.DidYouMean(name, names))
	}
	switch v := v.(type) {
	case nil:
		return "", false, nil
	case string:
		return v, true, nil
	default:
		raw, err := line(v)
		return strings.TrimSpace(string(raw)), true, err
	}
}

// line is a value as a line of JSON.
func line(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}

func openEqual(s Spec, _ Env) (Function, error) {
	return byRow(func(row Sample) (float64, error) {
		want, said, err := column(row, s.Column)
		if err != nil || !said {
			return math.NaN(), err
		}
		return share(strings.TrimSpace(row.Completion) == strings.TrimSpace(want)), nil
	}), nil
}

// exact is how far from a number what is meant to be it may be, as a share of it.
const exact = 1e-6

func openNumber(s Spec, _ Env) (Function, error) {
	tolerance := or(s.Tolerance, exact)
	return byRow(func(row Sample) (float64, error) {
		text, said, err := column(row, s.Column)
		if err != nil || !said {
			return math.NaN(), err
		}
		want, err := numberIn(s.Column, text)
		if err != nil {
			return 0, err
		}
		found, ok := lastNumber(row.Completion)
		return share(ok && math.Abs(found-want) <= tolerance*math.Abs(want)), nil
	}), nil
}

// numberIn is the number that a column has.
func numberIn(column, text string) (float64, error) {
	n, ok := lastNumber(text)
	if !ok {
		return 0, fmt.Errorf("column %q: found %s, wanted a number in it, or null", column, shown(text))
	}
	return n, nil
}

func openRegex(s Spec, _ Env) (Function, error) {
	pattern := s.Pattern
	if s.Whole {
		pattern = `\A(?:` + pattern + `)\z`
	}
	re, err := regexp.Compile(pattern)
	switch {
	case err != nil:
		return nil, fmt.Errorf("pattern: found %q, wanted a regular expression: %w", s.Pattern, err)
	case s.Column == "" && s.Group > 0:
		return nil, fmt.Errorf("group: found %d, wanted none without column, which it is compared with", s.Group)
	case s.Column != "" && cmp.Or(s.Group, 1) > re.NumSubexp():
		return nil, fmt.Errorf("pattern: found %d groups in %q, wanted %d: group %d is compared with column %q",
			re.NumSubexp(), s.Pattern, cmp.Or(s.Group, 1), cmp.Or(s.Group, 1), s.Column)
	}
	return byRow(func(row Sample) (float64, error) {
		text := row.Completion
		if s.Whole {
			text = strings.TrimSpace(text)
		}
		if s.Column == "" {
			return share(re.MatchString(text)), nil
		}
		want, said, err := column(row, s.Column)
		if err != nil || !said {
			return math.NaN(), err
		}
		all := re.FindAllStringSubmatch(text, -1) // the last one counts: answers stand at the end
		return share(len(all) > 0 && strings.TrimSpace(all[len(all)-1][cmp.Or(s.Group, 1)]) == strings.TrimSpace(want)), nil
	}), nil
}

func openTags(s Spec, _ Env) (Function, error) {
	if slices.Contains(s.Tags, "") {
		return nil, fmt.Errorf("tags: found an empty one in %q, wanted texts", s.Tags)
	}
	return byRow(func(row Sample) (float64, error) {
		return float64(inOrder(row.Completion, s.Tags)) / float64(len(s.Tags)), nil
	}), nil
}

// inOrder is the greatest number of tags that occur once each and stand in their order.
func inOrder(text string, tags []string) (most int) {
	places, longest := make([]int, len(tags)), make([]int, len(tags))
	for i, tag := range tags {
		if strings.Count(text, tag) != 1 {
			continue
		}
		places[i], longest[i] = strings.Index(text, tag), 1
		for j := range i {
			if longest[j] > 0 && places[j] < places[i] {
				longest[i] = max(longest[i], longest[j]+1)
			}
		}
		most = max(most, longest[i])
	}
	return most
}

func openLength(s Spec, e Env) (Function, error) {
	limit := cmp.Or(s.Tokens, e.Tokens)
	if s.Buffer > limit {
		return nil, fmt.Errorf("buffer: found %d, wanted at most the %d tokens of a completion (tokens)", s.Buffer, limit)
	}
	return byRow(func(row Sample) (float64, error) {
		over := len(row.Tokens) - (limit - s.Buffer)
		return 0 - min(1, float64(max(0, over))/float64(s.Buffer)), nil
	}), nil
}

func openRepetition(s Spec, _ Env) (Function, error) {
	n := cmp.Or(s.NGram, 3)
	return byRow(func(row Sample) (float64, error) {
		all := len(row.Tokens) - n + 1
		if all <= 0 {
			return 0, nil
		}
		unique := map[string]bool{}
		for at := range all {
			var key []byte
			for _, id := range row.Tokens[at : at+n] {
				key = append(key, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
			}
			unique[string(key)] = true
		}
		return float64(len(unique))/float64(all) - 1, nil
	}), nil
}

func lookForModel(_ Spec, e Env) error {
	if e.Model == nil {
		return errors.New("model: found none that opens reward models, wanted one")
	}
	return nil
}

func openModel(s Spec, e Env) (Function, error) { return e.Model(s.Model) }

// mostShown is how many bytes of a text an error shows.
const mostShown = 80

// shown is a text in an error: quoted, on one line, the begin of it.
func shown(text string) string {
	if len(text) <= mostShown {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%s and %d bytes more", strconv.Quote(terminal.Visible(text[:mostShown])), len(text)-mostShown)
}

// lastNumber is the last number in a text. Commas between thousands are left out; a sign counts where no letter, digit or bracket stands before it.
func lastNumber(text string) (last float64, found bool) {
	for at := 0; at < len(text); {
		n := numberAt(text, at)
		if n == 0 {
			at++
			continue
		}
		plain := strings.ReplaceAll(text[at:at+n], ",", "")
		if v, err := strconv.ParseFloat(plain, 64); err == nil {
			if before := strings.TrimRight(text[:at], "-\u2212"); signed(before, text[len(before):at]) {
				v = -v
			}
			last, found = v, true
		} else {
			found = false // beyond all numbers
		}
		at += n
	}
	return last, found
}

// signed tells whether a minus, all that stands between what is before it and a number, is its sign.
func signed(before, minus string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	return (minus == "-" || minus == "\u2212") && !strings.ContainsRune(")]}_", last) && !unicode.IsLetter(last) && !unicode.IsDigit(last)
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// numberAt is the length of the number without a sign that begins there; 0: none does.
func numberAt(text string, at int) int {
	digits := func(from int) (to int) {
		for to = from; to < len(text) && isDigit(text[to]); to++ {
		}
		return to
	}
	end := digits(at)
	if first := end - at; 0 < first && first <= 3 {
		for end < len(text) && text[end] == ',' && digits(end+1) == end+4 {
			end += 4
		}
	}
	if end < len(text) && text[end] == '.' && (end > at || at == 0 || !isDigit(text[at-1])) {
		if to := digits(end + 1); to > end+1 {
			end = to
		}
	}
	if end == at {
		return 0
	}
	if end < len(text) && text[end]|' ' == 'e' {
		from := end + 1
		if from < len(text) && strings.IndexByte("+-", text[from]) >= 0 {
			from++
		}
		if to := digits(from); to > from {
			end = to
		}
	}
	return end - at
}
