package graph

import (
	"fmt"
	"strings"
)

// suggest is `, did you mean "x"?` for the known name (lower case) nearest to name, empty when none is near.
func suggest(name string, known []string) string {
	best, limit := "", len(name)/3+2
	for _, k := range known {
		if d := distance(strings.ToLower(name), k); d < limit {
			best, limit = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// distance is that of Levenshtein: the least number of bytes put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
