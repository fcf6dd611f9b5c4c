package window

import "gputrain/cmd/gputrain/follow"

// decimate keeps of each column of a chart the extremes of the points that fall into it. A point that is not finite ends a run of them;
// broken are the first of each column.
func decimate(points []point, column func(step int64) int) (runs [][]point, broken []point) {
	var run []point
	flush := func() {
		if len(run) > 0 {
			runs, run = append(runs, run), nil
		}
	}
	in := func(i int) float64 { return float64(column(points[i].Step)) }
	for kept, bad := range follow.Extremes(0, len(points), in, func(i int) float64 { return points[i].Value }) {
		if bad >= 0 {
			broken = append(broken, points[bad])
		}
		for _, i := range kept {
			if i > bad && bad >= 0 {
				flush()
				bad = -1
			}
			run = append(run, points[i])
		}
		if bad >= 0 {
			flush()
		}
	}
	flush()
	return runs, broken
}
