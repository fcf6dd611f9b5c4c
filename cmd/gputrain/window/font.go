package window

import (
	"strings"
	"unicode/utf8"
)

// Letters are lines on a grid: capitals are 4 wide and 6 high, y grows downwards from their top, the base line is 6, descenders
// reach 8. The next letter begins 6 further.
const (
	letterAdvance = 6
	lineAdvance   = 11
)

// glyphs has the lines of each letter: points of two digits, x and y, in runs that | divides. A single point is a dot.
var glyphs = map[rune]string{
	' ': "", '!': "20 24|26", '"': "10 11|30 31", '#': "10 16|30 36|02 42|04 44", '$': "41 30 10 01 02 13 33 44 45 36 16 05|20 26",
	'%': "40 06|00 10 11 01 00|35 45 46 36 35", '&': "46 12 11 20 30 31 04 05 16 26 43", '\'': "20 21", '(': "30 21 25 36", ')': "10 21 25 16",
	'*': "21 25|02 44|42 04", '+': "03 43|21 25", ',': "26 17", '-': "03 43", '.': "26", '/': "40 06",
	'0': "10 30 41 45 36 16 05 01 10|32 14", '1': "11 20 26|16 36", '2': "01 10 30 41 42 06 46", '3': "01 10 30 41 42 33 44 45 36 16 05|13 33",
	'4': "36 30 04 44", '5': "40 00 02 32 43 45 36 16 05", '6': "40 20 02 05 16 36 45 44 33 13 04", '7': "00 40 16",
	'8': "10 30 41 42 33 13 02 01 10|13 04 05 16 36 45 44 33", '9': "06 26 44 41 30 10 01 02 13 33 42",
	':': "23|26", ';': "23|26 17", '<': "41 03 45", '=': "02 42|04 44", '>': "01 43 05", '?': "01 10 30 41 42 24|26",
	'@': "36 16 05 01 10 30 41 44 34 32 22 13 14 24 34",
	'A': "06 20 46|14 34", 'B': "00 06 36 45 44 33 03|33 42 41 30 00", 'C': "41 30 10 01 05 16 36 45", 'D': "00 06 26 44 42 20 00",
	'E': "40 00 06 46|03 33", 'F': "40 00 06|03 33", 'G': "41 30 10 01 05 16 36 45 43 23", 'H': "00 06|40 46|03 43", 'I': "10 30|20 26|16 36",
	'J': "40 45 36 16 05", 'K': "00 06|40 03 46", 'L': "00 06 46", 'M': "06 00 23 40 46", 'N': "06 00 46 40",
	'O': "10 30 41 45 36 16 05 01 10", 'P': "06 00 30 41 42 33 03", 'Q': "10 30 41 45 36 16 05 01 10|24 46",
	'R': "06 00 30 41 42 33 03|23 46", 'S': "41 30 10 01 02 13 33 44 45 36 16 05", 'T': "00 40|20 26", 'U': "00 05 16 36 45 40",
	'V': "00 26 40", 'W': "00 16 22 36 40", 'X': "00 46|40 06", 'Y': "00 23 40|23 26", 'Z': "00 40 06 46",
	'[': "30 10 16 36", '\\': "00 46", ']': "10 30 36 16", '^': "02 20 42", '_': "07 47", '`': "10 21",
	'a': "12 32 43 46|44 14 05 16 36 45", 'b': "00 06|03 12 32 43 45 36 16 05", 'c': "43 32 12 03 05 16 36 45", 'd': "40 46|43 32 12 03 05 16 36 45",
	'e': "04 44 43 32 12 03 05 16 36 45", 'f': "40 30 21 26|12 42", 'g': "43 32 12 03 05 16 36 45|42 47 38 18", 'h': "00 06|03 12 32 43 46",
	'i': "12 22 26|16 36|20", 'j': "22 32 37 28 18|30", 'k': "00 06|32 04 36", 'l': "10 20 26|16 36", 'm': "06 02|03 12 23 26|23 32 43 46",
	'n': "06 02|03 12 32 43 46", 'o': "12 32 43 45 36 16 05 03 12", 'p': "02 08|03 12 32 43 45 36 16 05", 'q': "42 48|43 32 12 03 05 16 36 45",
	'r': "02 06|04 22 32 43", 's': "43 32 12 03 14 34 45 36 16 05", 't': "10 15 26 36|02 32", 'u': "02 05 16 36 45|42 46", 'v': "02 26 42",
	'w': "02 16 23 36 42", 'x': "02 46|42 06", 'y': "02 26|42 18 08", 'z': "02 42 06 46",
	'{': "30 21 22 13 24 25 36", '|': "20 27", '}': "10 21 22 33 24 25 16", '~': "04 13 23 34 43",
	'±': "02 42|20 24|06 46", '·': "23",
}

// unknown is drawn for every letter that glyphs does not have.
const unknown = "01 41 46 06 01"

// eachStroke calls draw with the ends of every line of a letter.
func eachStroke(letter rune, draw func(x0, y0, x1, y1 float64)) {
	lines, ok := glyphs[letter]
	if !ok {
		lines = unknown
	}
	for run := range strings.SplitSeq(lines, "|") {
		points := strings.Fields(run)
		for i, p := range points {
			from := points[max(0, i-1)]
			if i > 0 || len(points) == 1 {
				draw(float64(from[0]-'0'), float64(from[1]-'0'), float64(p[0]-'0'), float64(p[1]-'0'))
			}
		}
	}
}

// tab is what a tab is drawn as.
const tab = "    "

// wrap cuts text into lines of at most so many letters. What is no UTF-8, and what moves a cursor, becomes a letter
// that no glyph is for.
func wrap(text string, columns int) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\t", tab), "\n") {
		letters := []rune(line)
		for i, r := range letters {
			if r < ' ' || r == 0x7f {
				letters[i] = utf8.RuneError
			}
		}
		for len(letters) > columns {
			lines = append(lines, string(letters[:columns]))
			letters = letters[columns:]
		}
		lines = append(lines, string(letters))
	}
	return lines
}
