// Package suggest finds what was meant by a name that does not exist. It stands
// at the bottom of the module, since keys, optimizers, operations and shader
// flags can all be misspelt.
package suggest

import (
	"fmt"
	"strings"
)

// Nearest returns the known name closest to word by edit distance, upper
// and lower case alike, the first of several, or "" when none is close enough to be meant.
func Nearest(word string, known []string) string {
	best, nearest := len(word)/3+2, ""
	for _, name := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < best {
			best, nearest = d, name
		}
	}
	return nearest
}

// DidYouMean is `, did you mean "x"?` for the nearest known name, "" when none
// is near: the tail of an error about word.
func DidYouMean(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}

// distance is Levenshtein's: the least number of bytes put in, taken out or
// changed.
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

// Or is "a, b or c".
func Or(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
