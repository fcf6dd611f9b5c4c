package main

import (
	"fmt"
	"io"
	"strings"
)

// pageWidth is the columns of what is printed for people.
const pageWidth = 120

// wrapped cuts text at blanks into lines of at most so many letters, where words are not longer.
func wrapped(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// row writes a row of a table. Cells longer than so many columns take several lines.
func row(w io.Writer, columns int, cells ...string) {
	lines := make([][]string, len(cells))
	most := 0
	for i, cell := range cells {
		lines[i] = wrapped(cell, columns)
		most = max(most, len(lines[i]))
	}
	for n := range most {
		for i := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			if n < len(lines[i]) {
				fmt.Fprint(w, lines[i][n])
			}
		}
		fmt.Fprintln(w)
	}
}
