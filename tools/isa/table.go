package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// writeTable writes a line for each kernel and family; kernels of one label that come to the same figures share a line.
func writeTable(out io.Writer, all []figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kernel\tof\tfamily\tregisters\tspilled\tscratch\tLDS\twidth\twaves\tinstructions\tloads of 4\t8\t12\t16 bytes\tmultiply-adds\t")
	for _, f := range merged(all) {
		name := strings.TrimPrefix(f.Label, "gputrain.")
		if f.alike > 0 {
			name = fmt.Sprintf("%s x%d", name, f.alike+1)
		}
		share := "-"
		if f.Share > 0 {
			share = fmt.Sprintf("%d %%", f.Share)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", name, f.Use, f.Family, f.Registers, f.Spills, f.Scratch, f.LDS,
			f.Width, f.Waves, f.Instructions, f.Loads[0], f.Loads[1], f.Loads[2], f.Loads[3], share)
	}
	return w.Flush()
}

// merged puts kernels together that differ in nothing but the use they come from, in the order of the first.
func merged(all []figures) []figures {
	var out []figures
	at := map[figures]int{}
	for _, f := range all {
		key := f
		key.Use = ""
		if i, ok := at[key]; ok {
			out[i].alike++
			continue
		}
		at[key] = len(out)
		out = append(out, f)
	}
	return out
}
