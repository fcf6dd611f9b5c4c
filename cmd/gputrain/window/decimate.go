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
	var extremes follow.Extremes[point]
	var kept []follow.Point[point]
	for i := 0; i < len(points); {
		for k := column(points[i].Step); i < len(points) && column(points[i].Step) == k; i++ {
			extremes.Add(points[i], points[i].Value)
		}
		kept = extremes.Take(kept[:0])
		for _, p := range kept {
			if p.Finite() {
				run = append(run, p.At)
				continue
			}
			broken = append(broken, p.At)
			flush()
		}
	}
	flush()
	return runs, broken
}
