package tuning

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/suggest"
	"gputrain/run/reward"
	"gputrain/run/runfile"
)

// rewardValues are what stands behind the colon of a reward, by kind: its name for people, and how it becomes part of a Spec.
var rewardValues = map[string]struct {
	name string
	lay  func(s *reward.Spec, value string) error
}{
	"equal":      {"COLUMN", func(s *reward.Spec, value string) error { s.Column = value; return nil }},
	"number":     {"COLUMN", func(s *reward.Spec, value string) error { s.Column = value; return nil }},
	"regex":      {"PATTERN", func(s *reward.Spec, value string) error { s.Pattern = value; return nil }},
	"tags":       {"TAG,TAG", func(s *reward.Spec, value string) error { s.Tags = strings.Split(value, ","); return nil }},
	"length":     {"BUFFER", func(s *reward.Spec, value string) error { return whole(&s.Buffer, value) }},
	"repetition": {"N", func(s *reward.Spec, value string) error { return whole(&s.NGram, value) }},
	"model":      {"DIR", func(s *reward.Spec, value string) error { s.Model = value; return nil }},
	"command":    {"PROGRAM ARGUMENTS", func(s *reward.Spec, value string) error { s.Command = strings.Fields(value); return nil }},
	"each":       {"PROGRAM ARGUMENTS", func(s *reward.Spec, value string) error { s.Command = strings.Fields(value); return nil }},
}

func whole(into *int, value string) (err error) {
	if *into, err = strconv.Atoi(value); err != nil || *into < 1 {
		return fmt.Errorf("found %q, wanted a number of tokens", value)
	}
	return nil
}

// Reward reads a reward of a command line: a kind, and perhaps a value.
func Reward(text string) (s reward.Spec, err error) {
	kind, value, has := strings.Cut(text, ":")
	of, known := rewardValues[kind]
	if !known {
		return s, fmt.Errorf("found the kind %q, wanted %s%s", kind, suggest.Or(reward.Kinds()), suggest.DidYouMean(kind, reward.Kinds()))
	}
	s.Kind = kind
	if has {
		if err := of.lay(&s, value); err != nil {
			return s, fmt.Errorf("%s: %w", text, err)
		}
	}
	if has && value == "" {
		return s, fmt.Errorf("found %q, wanted %s:%s", text, kind, of.name)
	}
	check := s
	if kind == "length" && !has {
		check.Buffer = 1 // see rewardsKey
	}
	if err := check.Validate(); err != nil {
		return s, fmt.Errorf("found %q, wanted %s:%s", text, kind, of.name)
	}
	return s, nil
}

// bufferShare is the last part of a completion over which a reward of its length falls: DAPO is published with 4,096 of 20,480 tokens.
const bufferShare = 5

// rewardsKey is a value of the run file's rewards, for completions of at most so many tokens.
func rewardsKey(all []reward.Spec, tokens int) Key {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Kind == "length" && all[i].Buffer == 0 {
			all[i].Buffer = max(1, tokens/bufferShare)
		}
	}
	return key("rewards", all)
}

// LayRewards puts rewards of a command line into a run file, as if they stood behind --set there: they are typed.
func LayRewards(run *runfile.Config, all []reward.Spec) error {
	if len(all) == 0 {
		return nil
	}
	return run.Set(RewardsSet(all, run.Rollout.Tokens))
}

// RewardsSet are rewards as --set takes them.
func RewardsSet(all []reward.Spec, tokens int) string {
	return "rewards=" + rewardsKey(all, tokens).Value
}

// answerNames are columns that mostly hold answers.
var answerNames = []string{"answer", "final_answer", "solution", "ground_truth", "target", "expected", "output", "result", "label", "response"}

var aNumber = regexp.MustCompile(`[0-9]`)

// Unrewarded is said of rows of prompts where nobody names a reward: with what the columns may be for.
func (r Row) Unrewarded() error {
	var named, others []string
	for name, raw := range r {
		text := ""
		switch {
		case slices.Contains([]string{"prompt", "id", "system", "system_prompt", "tools", "functions", "chat_template_kwargs", "messages"}, name):
			continue
		case aNumber.Match(raw) && (raw[0] != '[' && raw[0] != '{'):
			text = "--reward number:" + name
		case json.Unmarshal(raw, &text) == nil && text != "":
			text = "--reward equal:" + name
		default:
			continue
		}
		if slices.Contains(answerNames, name) {
			named = append(named, text)
		} else {
			others = append(others, text)
		}
	}
	if len(named) == 0 {
		named = others
	}
	slices.Sort(named)
	wanted := "--set 'rewards=[...]'"
	if len(named) > 0 {
		wanted = suggest.Or(append(named[:min(len(named), 3)], wanted))
	}
	return fmt.Errorf("rewards: found none, wanted some, which say what is good (docs/rewards.md): %s", wanted)
}

// rollouts says what is drawn.
func (f inForce) rollouts() string {
	if !f.facts.Method.Draws {
		return ""
	}
	r := f.run.Rollout
	text := fmt.Sprintf("%d completions a prompt, of at most %d tokens, at temperature %g, %d at once", r.Samples, r.Tokens, r.Temperature, r.Rows)
	if r.MaskTruncated {
		return text + "; nothing is learned from those that are cut"
	}
	return text + "; those that are cut count"
}

// rewards says what is good.
func (f inForce) rewards() string {
	var all []string
	for _, s := range f.run.Rewards {
		text := s.Kind
		for _, of := range []string{s.Column, s.Pattern, strings.Join(s.Tags, " "), s.Model, strings.Join(s.Command, " ")} {
			if of != "" {
				text += " " + of
			}
		}
		if s.Weight != nil {
			text += fmt.Sprintf(" x %g", *s.Weight)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
