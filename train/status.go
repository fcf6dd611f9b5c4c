package train

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Status is where training is. What is a mean is one of the last steps of this process.
type Status struct {
	Step                  int64         `json:"step"`
	Steps                 int64         `json:"steps"`
	Epoch                 Number        `json:"epoch,omitempty"`
	Loss                  Number        `json:"loss"` // mean, nats a token
	LearningRate          Number        `json:"learning_rate"`
	TokensPerSecond       Number        `json:"tokens_per_second"`        // mean
	PaddedTokensPerSecond Number        `json:"padded_tokens_per_second"` // mean
	MFU                   Number        `json:"mfu,omitempty"`            // mean, see Cost
	DataWait              Number        `json:"data_wait,omitempty"`      // share of the time in which the loop waited for data, mean
	Clipped               Number        `json:"clipped,omitempty"`        // share of the last steps whose gradient was clipped
	StageBusy             []Number      `json:"stage_busy,omitempty"`     // share of the time in which each stage computed, mean; none where the model is not cut
	Pairs                 bool          `json:"pairs,omitempty"`          // what counts in the loss, here as tokens, are pairs
	Left                  time.Duration `json:"-"`                        // negative when not known
}

// worthTelling is the share from which on a line has waits for data and clips: what is less is as it should be.
const worthTelling = 0.05

// text is the status in one line.
func (s Status) text() string { return s.fit(math.MaxInt) }

// fit is the status in at most width letters, as far as that is possible: what matters least is left out first.
func (s Status) fit(width int) string {
	type part struct {
		text   string
		weight int // parts of the lowest weight go first
	}
	parts := []part{
		{fmt.Sprintf("step %d/%d", s.Step, s.Steps), 9},
		{fmt.Sprintf("loss %.4f", float64(s.Loss)), 8},
		{fmt.Sprintf("lr %.3g", float64(s.LearningRate)), 4},
		{rate(float64(s.TokensPerSecond)) + " " + s.counted() + "/s", 6},
	}
	if len(s.StageBusy) > 0 {
		parts = append(parts, part{"stages " + busyText(s.StageBusy), 2})
	}
	if s.MFU > 0 {
		parts = append(parts, part{"mfu " + percent(float64(s.MFU)), 3})
	}
	if s.DataWait >= worthTelling {
		parts = append(parts, part{"data wait " + percent(float64(s.DataWait)), 5})
	}
	if s.Clipped >= worthTelling {
		parts = append(parts, part{"clipped " + percent(float64(s.Clipped)), 1})
	}
	parts = append(parts, part{leftText(s.Left) + " left", 7})
	for {
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.text)
		}
		text := strings.Join(texts, "  ")
		if len(text) <= width || len(parts) == 1 {
			return text
		}
		least := slices.MinFunc(parts, func(a, b part) int { return a.weight - b.weight })
		parts = slices.DeleteFunc(parts, func(p part) bool { return p == least })
	}
}

// counted names what counts in the loss.
func (s Status) counted() string { return countedName(s.Pairs) }

func countedName(pairs bool) string {
	if pairs {
		return "pairs"
	}
	return "tokens"
}

// mean makes the means of lines of metrics; NaN and 0 where there are none.
func (s *Status) mean(lines []Metrics) {
	ms, wait, clipped := 0.0, 0.0, 0.0
	for _, m := range lines {
		ms, wait, s.Pairs = ms+float64(m.StepMS), wait+float64(m.DataWaitMS), m.Pairs != nil
		if m.GradNormClipped < m.GradNorm && m.GradNormClipped > 0 {
			clipped++
		}
	}
	s.TokensPerSecond = byTime(lines, func(m Metrics) Number { return m.TokensPerSecond })
	s.PaddedTokensPerSecond = byTime(lines, func(m Metrics) Number { return m.PaddedTokensPerSecond })
	s.MFU = byTime(lines, func(m Metrics) Number { return m.MFU })
	s.DataWait, s.Clipped = Number(wait/ms), Number(clipped/float64(len(lines)))
	for _, share := range meanUse(lines).Busy {
		s.StageBusy = append(s.StageBusy, Number(share))
	}
}

// byTime is the mean of a rate or share over steps, each by the time it took: one that was noticed with the step before it seems to have taken
// none, and its rate alone would be that of all.
func byTime(lines []Metrics, of func(m Metrics) Number) Number {
	sum, took := 0.0, 0.0
	for _, m := range lines {
		sum, took = sum+float64(of(m))*float64(m.StepMS), took+float64(m.StepMS)
	}
	return Number(sum / took)
}

func rate(v float64) string {
	if v != v || v < 0 {
		return "-"
	}
	return grouped(int64(v + .5))
}

// grouped writes n with commas between thousands.
func grouped(n int64) string {
	digits := fmt.Sprint(n)
	var out []string
	for len(digits) > 3 {
		out = append(out, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	out = append(out, digits)
	slices.Reverse(out)
	return strings.Join(out, ",")
}

func leftText(d time.Duration) string {
	if d < 0 {
		return "?"
	}
	d = d.Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
