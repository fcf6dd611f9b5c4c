package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gputrain/model"
	"gputrain/state"
)

// Status is where training is. What is a mean is one of the last steps of this process.
type Status struct {
	Step                  int64         `json:"step"`
	Steps                 int64         `json:"steps"`
	Epoch                 Number        `json:"epoch,omitempty"`
	Loss                  Number        `json:"loss"` // mean, nats a token
	LearningRate          Number        `json:"learning_rate"`
	Reward                *Number       `json:"reward,omitempty"`         // mean of the newest generation; nil where there is none
	TokensPerSecond       Number        `json:"tokens_per_second"`        // mean
	PaddedTokensPerSecond Number        `json:"padded_tokens_per_second"` // mean
	MFU                   Number        `json:"mfu,omitempty"`            // mean, see Cost
	DataWait              Number        `json:"data_wait,omitempty"`      // share of the time in which the loop waited for data, mean
	Clipped               Number        `json:"clipped,omitempty"`        // share of the last steps whose gradient was clipped
	StageBusy             []Number      `json:"stage_busy,omitempty"`     // share of the time in which each stage computed, mean; none where the model is not cut
	Counts                string        `json:"counts,omitempty"`         // what counts in the loss, and in what is called tokens here; "": tokens
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
	if s.Reward != nil {
		parts = append(parts, part{fmt.Sprintf("reward %.4f", float64(*s.Reward)), 8})
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
func (s Status) counted() string { return cmp.Or(s.Counts, "tokens") }

// named is the name of so many things.
func named(n int64, things string) string {
	if n == 1 {
		return strings.TrimSuffix(things, "s")
	}
	return things
}

// mean makes the means of lines of metrics; NaN and 0 where there are none.
func (s *Status) mean(lines []Metrics) {
	var all sums
	for _, m := range lines {
		all.add(m)
	}
	all.mean(s)
}

// sums are of lines of metrics. Rates and shares are summed by the time that each step took: one that was noticed with the step before it seems to have
// taken none, and its rate alone would be that of all.
type sums struct {
	lines, clipped                int
	ms, wait, tokens, padded, mfu float64
	figures                       map[string]Number // of the last
	stages                        float64           // lines of the sums below: those with as many stages as the last that has any
	busy                          []float64
	bubble, transfer              float64
}

func (s *sums) add(m Metrics) {
	took := float64(m.StepMS)
	s.lines, s.ms, s.wait, s.figures = s.lines+1, s.ms+took, s.wait+float64(m.DataWaitMS), m.Figures
	if m.GradNormClipped < m.GradNorm && m.GradNormClipped > 0 {
		s.clipped++
	}
	s.tokens += float64(m.TokensPerSecond) * took
	s.padded += float64(m.PaddedTokensPerSecond) * took
	s.mfu += float64(m.MFU) * took
	if len(m.StageBusy) == 0 {
		return
	}
	if len(m.StageBusy) != len(s.busy) { // the run went on with other stages
		s.stages, s.busy, s.bubble, s.transfer = 0, make([]float64, len(m.StageBusy)), 0, 0
	}
	s.stages++
	for stage, share := range m.StageBusy {
		s.busy[stage] += float64(share)
	}
	s.bubble, s.transfer = s.bubble+float64(m.Bubble), s.transfer+float64(m.Transfer)
}

func (s *sums) mean(to *Status) {
	if counts := model.Telling(s.figures).Counts; counts != "tokens" {
		to.Counts = counts
	}
	to.TokensPerSecond, to.PaddedTokensPerSecond, to.MFU = Number(s.tokens/s.ms), Number(s.padded/s.ms), Number(s.mfu/s.ms)
	to.DataWait, to.Clipped = Number(s.wait/s.ms), Number(float64(s.clipped)/float64(s.lines))
	for _, share := range s.use().Busy {
		to.StageBusy = append(to.StageBusy, Number(share))
	}
}

// use is the mean of the stages; Busy is nil where no line has any.
func (s *sums) use() (mean state.StageUse) {
	for _, busy := range s.busy {
		mean.Busy = append(mean.Busy, busy/s.stages)
	}
	if mean.Busy != nil {
		mean.Bubble, mean.Transfer = s.bubble/s.stages, s.transfer/s.stages
	}
	return mean
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
