package inspect

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"gputrain/run/train"
)

// Table writes a line a parameter: the norms of its moments, and what there is to tell of its factors.
func Table(w io.Writer, leaves []Leaf) error {
	slots, kron := map[string]bool{}, false
	for _, l := range leaves {
		for slot := range l.State {
			slots[slot] = true
		}
		kron = kron || l.Kron != nil
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"PARAMETER", "SHAPE"}
	names := slices.Sorted(maps.Keys(slots))
	for _, slot := range names {
		head = append(head, strings.ToUpper(slot)+" NORM")
	}
	if kron {
		head = append(head, "FACTORS", "BLOCKS", "QL NORM", "QR NORM", "QL CONDITION", "QR CONDITION", "LL MIN/MED/MAX", "LR MIN/MED/MAX", "HEALTH")
	}
	fmt.Fprintln(out, strings.Join(head, "\t"))
	for _, l := range leaves {
		line := []string{l.Path, fmt.Sprint(l.Shape)}
		for _, slot := range names {
			a, ok := l.State[slot]
			switch {
			case !ok:
				line = append(line, "-")
			case a.NonFinite > 0:
				line = append(line, fmt.Sprintf("%d not finite", a.NonFinite))
			default:
				line = append(line, figure(a.Norm))
			}
		}
		if kron {
			line = append(line, l.Kron.cells()...)
		}
		fmt.Fprintln(out, strings.Join(line, "\t"))
	}
	if err := out.Flush(); err != nil || !kron {
		return err
	}
	_, err := fmt.Fprintf(w, "norms over all blocks; conditions (median/max over blocks): exact for diagonals, else from below by power iteration; health: blocks "+
		"never updated, not finite, and with a largest element out of %g to %g\n", extremeLow, extremeHigh)
	return err
}

// cells are those of the factors' columns.
func (f *Factors) cells() []string {
	if f == nil {
		return []string{"-", "", "", "", "", "", "", "", ""}
	}
	line := []string{f.Kind, fmt.Sprint(f.Blocks), figure(f.Left.Norm), "-", conditions(f.Left.Condition), "-", f.Left.Lipschitz.String(), "-", "ok"}
	if f.Right != nil {
		line[3], line[5], line[7] = figure(f.Right.Norm), conditions(f.Right.Condition), f.Right.Lipschitz.String()
	}
	if ills := f.ills(); len(ills) > 0 {
		line[8] = strings.Join(ills, ", ")
	}
	return line
}

// ills are what is not well.
func (f *Factors) ills() []string {
	var out []string
	for _, ill := range []struct {
		n    int
		what string
	}{{f.NeverUpdated, "never updated"}, {f.NotFinite, "not finite"}, {f.Extreme, "extreme"}} {
		if ill.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", ill.n, ill.what))
		}
	}
	return out
}

func conditions(s Spread) string { return figure(s.Median) + "/" + figure(s.Max) }

func (s Spread) String() string { return figure(s.Min) + "/" + figure(s.Median) + "/" + figure(s.Max) }

func figure(n train.Number) string {
	if math.IsNaN(float64(n)) {
		return "nan"
	}
	return fmt.Sprintf("%.3g", float64(n))
}
