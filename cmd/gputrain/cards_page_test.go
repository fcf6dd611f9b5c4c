package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/internal/gputest"
)

// update writes computed tables anew: make pages.
var update = flag.Bool("update", false, "write the computed tables of docs/which-card.md and docs/benchmarks.md")

const (
	cardsPage        = "../../docs/which-card.md"
	tableBegin       = "<!-- computed -->\n"
	tableEnd         = "<!-- end -->\n"
	tunedWithAdapter = "lora.rank=16 lora.target=all-linear model.base="
)

// waysToTune are from what takes the most memory to what takes the least.
var waysToTune = []struct{ name, set string }{{"all", ""}, {"bf16", tunedWithAdapter + "bf16"}, {"nf4", tunedWithAdapter + "nf4"}}

// byUnits has products made by matrix units.
const byUnits = " train.products=f16 device.matrix=auto"

type timedRun struct {
	name, model, set string
	measured         string // what bench --card calls it
}

// timedRuns are those whose speed is computed.
var timedRuns = []timedRun{
	{"GPT-2 124M, 4 x 1,024", "GPT-2 124M", "train.batch=4", "GPT-2 124M"},
	{"Qwen3-0.6B, 1 x 1,024", "Qwen3-0.6B", "train.batch=1", "Qwen3-0.6B"},
	{"Llama 1B, adapters on nf4, 1 x 1,024", "Llama 3.2 1B", "train.batch=1 " + tunedWithAdapter + "nf4", ""},
}

// cardTables are the tables of the page: what tuning takes, then each card.
func cardTables(t *testing.T) string {
	dirs := map[string]string{}
	set := func(model, more string) []string {
		if dirs[model] == "" {
			i := slices.IndexFunc(realSizes, func(s realSize) bool { return s.name == model })
			dirs[model] = sparseModel(t, realSizes[i])
		}
		return append([]string{"model.from=" + dirs[model], "model.context=1024", "data.text=absent.txt"}, strings.Fields(more)...)
	}
	known := map[string]uint64{}
	takes := func(model, more string) (least uint64) {
		if least = known[model+more]; least > 0 {
			return least
		}
		for _, c := range plannedWith(t, "1024GiB", set(model, more)...).Choices {
			if least == 0 || c.Planned < least {
				least = c.Planned
			}
		}
		known[model+more] = least
		return least
	}
	var out strings.Builder
	tuned := []string{"Qwen3-0.6B", "Llama 3.2 1B", "Qwen3-4B", "Llama 3.1 8B"}
	fmt.Fprintf(&out, "\n| GiB | %s |\n|---%s|\n", strings.Join(tuned, " | "), strings.Repeat("|---:", len(tuned)))
	need := make([][]uint64, len(tuned))
	for _, way := range waysToTune {
		fmt.Fprintf(&out, "| %s |", way.name)
		for i, m := range tuned {
			need[i] = append(need[i], takes(m, "train.batch=1 "+way.set))
			fmt.Fprintf(&out, " %.1f |", float64(need[i][len(need[i])-1])/(1<<30))
		}
		out.WriteString("\n")
		fmt.Fprintf(&out, "| %s, f16 by units |", way.name)
		for _, m := range tuned {
			fmt.Fprintf(&out, " %.1f |", float64(takes(m, "train.batch=1 "+way.set+byUnits))/(1<<30))
		}
		out.WriteString("\n")
	}

	// rate is the tokens a second of a run on a card, with its kernels; a dash where it does not fit.
	rate := func(on card, r timedRun, more string) string {
		if takes(r.model, r.set+more) > on.room() {
			return "-"
		}
		c := planCmd{Step: true, Memory: on.Name, runFlags: runFlags{Set: set(r.model, r.set+more)}}
		cfg, err := c.load()
		require.NoError(t, err)
		p, err := c.planStep(t.Context(), cfg)
		require.NoError(t, err)
		i := slices.IndexFunc(p.Cards, func(p plannedCard) bool { return p.Name == on.Name })
		return rounded(p.Cards[i].TokensPerSecond)
	}
	head := []string{"card", "GiB"}
	for _, m := range tuned {
		_, size, _ := strings.Cut(strings.ReplaceAll(m, "-", " "), " ")
		head = append(head, strings.TrimPrefix(strings.TrimPrefix(size, "3.2 "), "3.1 "))
	}
	for _, r := range timedRuns {
		head = append(head, r.name)
	}
	fmt.Fprintf(&out, "\n| %s |\n|---%s|\n", strings.Join(head, " | "), strings.Repeat("|---:", len(head)-1))
	for _, c := range cards {
		cells := []string{c.Name, fmt.Sprint(c.memory >> 30)}
		for i := range tuned {
			fits := "-"
			for k := len(waysToTune) - 1; k >= 0; k-- {
				if need[i][k] <= c.room() {
					fits = waysToTune[k].name
				}
			}
			cells = append(cells, fits)
		}
		for _, r := range timedRuns {
			cell := rate(c, r, "")
			if c.UnitFLOPS > 0 && cell != "-" {
				cell += " / " + rate(c, r, byUnits)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	return out.String() + measuredRows(t) + "\n"
}

// measuredRows are the cards whose pages are in the folder.
func measuredRows(t *testing.T) string {
	pages, err := filepath.Glob("../../docs/cards/*.json")
	require.NoError(t, err)
	var out strings.Builder
	for _, path := range pages {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		var c bench.Card
		require.NoError(t, json.Unmarshal(raw, &c))
		if c.Scale != "full" {
			continue
		}
		cells := []string{"**measured**: " + c.Adapter.Name, "", "", "", "", ""}
		for _, r := range timedRuns {
			var both []string
			for _, name := range []string{r.measured, r.measured + ", products of f16"} {
				for _, m := range c.Models {
					if m.Name == name {
						both = append(both, rounded(m.TokensPerSecond))
					}
				}
			}
			cells = append(cells, strings.Join(both, " / "))
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	return out.String()
}

// rounded is a number of two digits.
func rounded(x float64) string {
	unit := 1.0
	for x/unit >= 100 {
		unit *= 10
	}
	return grouped(int64(x/unit+0.5) * int64(unit))
}

// docs/which-card.md has what plans come to, but for a quarter: a kernel that is made faster does not have to write it.
func TestPageOfCards(t *testing.T) {
	gputest.Long(t, "TestSizes")
	heldPage(t, cardsPage, cardTables(t))
}

// heldPage holds what is computed on a page to what it comes to now, or writes it.
func heldPage(t *testing.T, path, want string) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, begins := strings.Cut(string(page), tableBegin)
	tables, after, ends := strings.Cut(rest, tableEnd)
	require.True(t, begins && ends, "found no tables between %q and %q", tableBegin, tableEnd)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+tableBegin+want+tableEnd+after), 0o666))
		return
	}
	said, now := strings.Fields(strings.ReplaceAll(tables, ",", "")), strings.Fields(strings.ReplaceAll(want, ",", ""))
	require.Len(t, said, len(now), "make pages writes them")
	for i, word := range now {
		a, errNow := strconv.ParseFloat(word, 64)
		b, errSaid := strconv.ParseFloat(said[i], 64)
		if errNow != nil || errSaid != nil {
			require.Equal(t, word, said[i], "make pages writes them")
			continue
		}
		require.InEpsilon(t, a, b, 0.25, "found %s, make pages writes them", said[i])
	}
}

// grouped is a number with commas between thousands.
func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
