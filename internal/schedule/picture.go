package schedule

import (
	"fmt"
	"strings"
)

// Picture draws a schedule with parts that all take alike, a backward twice as long as a forward: a row a stage, a forward of microbatch
// 3 as "3" and its backward as "3'", waiting as dots; of microbatches from 10 up the last digit. Rows longer than width columns lose their
// middle, all the same columns. Each row ends in a line feed.
func (s *Schedule) Picture(width int) string {
	length := map[Kind]float64{Forward: 1, Backward: 2}
	played := s.Simulate(func(a Action) float64 { return length[a.Kind] }, nil)
	rows := make([]string, len(played.Start))
	for stage, starts := range played.Start {
		row := []byte(strings.Repeat(".", int(played.Makespan)))
		for i, at := range starts {
			a := s.Actions[stage][i]
			row[int(at)] = '0' + byte(a.Microbatch%10)
			if a.Kind == Backward {
				row[int(at)+1] = '\''
			}
		}
		rows[stage] = string(row)
	}
	const gap = " ~ "
	var b strings.Builder
	for stage, row := range rows {
		label := fmt.Sprintf("stage %*d  ", len(fmt.Sprint(s.Stages-1)), stage)
		if room := max(width-len(label), len(gap)); len(row) > room {
			head := (room - len(gap) + 1) / 2
			row = row[:head] + gap + row[len(row)-(room-len(gap)-head):]
		}
		b.WriteString(label + row + "\n")
	}
	return b.String()
}
