package runfile

// Nearest returns the name closest to a misspelt one by edit distance, or ""
// when none is close enough to be meant.
func Nearest(word string, names []string) string {
	best, at := len(word)/3+2, ""
	for _, name := range names {
		if d := distance(word, name); d < best {
			best, at = d, name
		}
	}
	return at
}

// distance is the Levenshtein distance in bytes.
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
