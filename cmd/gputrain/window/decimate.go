package window

// decimate keeps of each column of a chart the first, the lowest, the highest and the last of the points that fall into it, in their
// order: a spike of one step is seen at any width. Points that are not finite end a run.
func decimate(points []Point, columns int, column func(step int64) int) (runs [][]Point, broken []Point) {
	var run []Point
	var bucket []Point
	flush := func() {
		if len(bucket) == 0 {
			return
		}
		low, high := 0, 0
		for i, p := range bucket {
			if p.Value < bucket[low].Value {
				low = i
			}
			if p.Value > bucket[high].Value {
				high = i
			}
		}
		kept := -1
		for _, i := range []int{0, min(low, high), max(low, high), len(bucket) - 1} {
			if i > kept {
				run, kept = append(run, bucket[i]), i
			}
		}
		bucket = bucket[:0]
	}
	at := -1
	for _, p := range points {
		c := column(p.Step)
		if !finite(p.Value) {
			flush()
			if len(run) > 0 {
				runs, run = append(runs, run), nil
			}
			if len(broken) == 0 || column(broken[len(broken)-1].Step) != c {
				broken = append(broken, p)
			}
			continue
		}
		if c < 0 || c >= columns {
			continue
		}
		if c != at {
			flush()
			at = c
		}
		bucket = append(bucket, p)
	}
	flush()
	if len(run) > 0 {
		runs = append(runs, run)
	}
	return runs, broken
}
