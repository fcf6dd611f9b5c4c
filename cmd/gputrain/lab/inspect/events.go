package inspect

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"gputrain/internal/terminal"
	"gputrain/train"
	"gputrain/train/tensorboard"
)

// Series is what event files hold of a tag.
type Series struct {
	Tag    string `json:"tag"`
	Kind   string `json:"kind"` // scalar, histogram, text or other
	Points int    `json:"points"`
	First  int64  `json:"first_step"`
	Last   int64  `json:"last_step"`

	// The last value: of a scalar, of a histogram, or text.
	Value     *train.Number `json:"value,omitempty"`
	Mean      *train.Number `json:"mean,omitempty"`
	Deviation *train.Number `json:"std,omitempty"`
	Min       *train.Number `json:"min,omitempty"`
	Max       *train.Number `json:"max,omitempty"`
	Text      string        `json:"text,omitempty"`
}

// Events are the series of a log, sorted by tag.
func Events(log *tensorboard.Log) (out []Series) {
	for _, tag := range slices.Sorted(maps.Keys(log.Series)) {
		points := log.Series[tag]
		last := points[len(points)-1]
		s := Series{Tag: tag, Kind: "other", Points: len(points), First: points[0].Step, Last: last.Step}
		number := func(v float64) *train.Number { n := train.Number(v); return &n }
		switch v := last.Value; v.Kind {
		case tensorboard.Scalar:
			s.Kind, s.Value = "scalar", number(float64(v.Scalar))
		case tensorboard.Distribution:
			h := v.Histogram
			mean := h.Sum / h.Count
			s.Kind, s.Mean, s.Min, s.Max = "histogram", number(mean), number(h.Min), number(h.Max)
			s.Deviation = number(math.Sqrt(math.Max(0, h.SumOfSquares/h.Count-mean*mean)))
		case tensorboard.Text:
			s.Kind, s.Text = "text", v.Text
		}
		out = append(out, s)
	}
	return out
}

// EventTable writes where the files were begun and where they end, and a line a series.
func EventTable(w io.Writer, files []string, log *tensorboard.Log, series []Series) error {
	var starts []string
	for _, step := range log.Starts {
		starts = append(starts, fmt.Sprint(step))
	}
	fmt.Fprintf(w, "event files: %d; processes began at step %s\n", len(files), strings.Join(starts, ", "))
	for _, name := range log.Cut {
		fmt.Fprintf(w, "%s ends within a record: its process was killed, or is writing\n", name)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TAG\tKIND\tPOINTS\tFIRST STEP\tLAST STEP\tLAST VALUE")
	for _, s := range series {
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%d\t%s\n", terminal.Name(s.Tag), s.Kind, s.Points, s.First, s.Last, s.value())
	}
	return out.Flush()
}

// value is the last one in a few words.
func (s Series) value() string {
	switch {
	case s.Value != nil:
		return figure(*s.Value)
	case s.Mean != nil:
		return fmt.Sprintf("%s ± %s, from %s to %s", figure(*s.Mean), figure(*s.Deviation), figure(*s.Min), figure(*s.Max))
	case s.Text != "":
		const most = 40
		text := []rune(fmt.Sprintf("%q", strings.TrimSpace(s.Text)))
		if len(text) > most {
			text = append(text[:most], '…')
		}
		return string(text)
	}
	return "-"
}
