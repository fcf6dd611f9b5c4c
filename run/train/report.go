package train

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gputrain/internal/system"
	"gputrain/internal/terminal"
	"gputrain/run/fit"
	"gputrain/run/record"
)

// Files of a run directory beside run.yaml and checkpoints.
const (
	metricsFile = "metrics.jsonl"
	samplesFile = "samples.jsonl"
	reportFile  = "report.md"
)

// facts are the lines of a report's table that are known before the first step.
type facts []fact

type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (f *facts) add(name, format string, args ...any) {
	*f = append(*f, fact{name, fmt.Sprintf(format, args...)})
}

// report is what a run knows of itself. Beside it a report has what the logs of the run directory tell.
type report struct {
	title    string
	facts    facts
	work     []work
	spans    []Span
	memory   []memory
	settings []byte // as run.yaml has them
}

// write writes report.md of a run directory and its pictures. It can be written again at any time; an older one is replaced whole.
func (r report) write(dir string) error {
	l, err := readLogs(dir, math.MaxInt64)
	if err != nil {
		return err
	}
	var pictures bytes.Buffer
	if err := l.writePictures(&pictures, dir, r.title); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, reportFile), r.text(l, pictures.String()))
}

// text is the page, with pictures below its title.
func (r report) text(l logs, pictures string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n\n%s| | |\n|---|---|\n", r.title, pictures)
	for _, f := range slices.Concat(r.facts, l.damaged, l.figures()) {
		fmt.Fprintf(&out, "| %s | %s |\n", cell(f.Name), cell(f.Value))
	}
	writeTimes(&out, r.spans)
	writeMemory(&out, r.memory)
	writeWork(&out, r.work)
	writeEvals(&out, l.evals)
	l.rolledOut.write(&out)
	if asked, samples := parted(l.samples); len(l.samples) > 0 {
		out.WriteString("\n## Samples\n")
		writeSides(&out, l.samples)
		writeAnswers(&out, asked)
		for _, s := range samples[max(0, len(samples)-3):] {
			fmt.Fprintf(&out, "\nStep %d, temperature %g, top %d%s, seed %d:\n\n%s\n", s.Step, s.Temperature, s.TopK, s.further(), s.Seed, indented(s.Prompt+s.Text))
		}
	}
	fmt.Fprintf(&out, "\n## Settings\n\n```yaml\n%s```\n", r.settings)
	return out.Bytes()
}

// logs are what a report tells from the logs of a run directory.
type logs struct {
	*history
	samples []Sample
	damaged facts
}

// readLogs reads them up to a step.
func readLogs(dir string, step int64) (l logs, err error) {
	var damaged []int
	if l.history, damaged, err = readHistory(dir, step); err != nil {
		return l, err
	}
	if len(damaged) > 0 {
		l.damaged.add("damaged", "%s", damagedText(metricsFile, damaged))
	}
	if l.samples, damaged, err = readSamples(filepath.Join(dir, samplesFile)); err != nil {
		return l, err
	}
	if len(damaged) > 0 {
		l.damaged.add("damaged", "%s", damagedText(samplesFile, damaged))
	}
	if damaged, err = l.rolledOut.read(dir, step); err != nil {
		return l, err
	}
	if len(damaged) > 0 {
		l.damaged.add("damaged", "%s", damagedText(rolloutsFile, damaged))
	}
	l.samples = slices.DeleteFunc(l.samples, func(s Sample) bool { return s.Step > step })
	return l, nil
}

// writeSides puts what the model wrote to a prompt before training beside what it writes to it last.
func writeSides(out *bytes.Buffer, samples []Sample) {
	title := "\n| prompt | before training | after |\n|---|---|---|\n"
	for i, before := range samples {
		same := func(s Sample) bool { return s.Prompt == before.Prompt }
		if before.Step > 0 || slices.ContainsFunc(samples[:i], same) {
			continue
		}
		var last Sample
		for _, s := range samples[i:] {
			if same(s) {
				last = s
			}
		}
		if last.Step > 0 {
			fmt.Fprintf(out, "%s| %s | %s | %s (step %d) |\n", title, sideCell(before.Prompt), sideCell(before.Text), sideCell(last.Text), last.Step)
			title = ""
		}
	}
}

// parted are the answers to questions of the run, and its other samples.
func parted(all []Sample) (asked, samples []Sample) {
	for _, s := range all {
		if s.Asked {
			asked = append(asked, s)
		} else {
			samples = append(samples, s)
		}
	}
	return asked, samples
}

// mostAnswers is how many answers to a question a report has: the first, and the last ones.
const mostAnswers = 12

// writeAnswers puts what the model answered to each question, step by step.
func writeAnswers(out *bytes.Buffer, asked []Sample) {
	for len(asked) > 0 {
		first := asked[0]
		other := func(s Sample) bool { return s.Prompt != first.Prompt || s.System != first.System }
		own := slices.DeleteFunc(slices.Clone(asked), other)
		asked = slices.DeleteFunc(slices.Clone(asked), func(s Sample) bool { return !other(s) })
		fmt.Fprintf(out, "\nAsked: %s\n\n| step | answer |\n|---|---|\n", sideCell(first.Prompt))
		for i, s := range own {
			if left := len(own) - mostAnswers; left <= 0 || i == 0 || i > left {
				fmt.Fprintf(out, "| %d | %s |\n", s.Step, sideCell(s.Text))
			}
		}
	}
}

// sideCell is a text that a model made, in a table, where none of it is markup.
func sideCell(s string) string {
	return strings.Join(strings.Fields(markup.ReplaceAllString(strings.Map(terminal.Shown, s), `\$0`)), " ")
}

var markup = regexp.MustCompile("[\\\\`*_\\[\\]<>|#~&!]")

// further names what else has chosen among tokens, where it did.
func (s Sample) further() (text string) {
	for _, f := range []struct {
		name  string
		value float64
	}{{"top p", s.TopP}, {"min p", s.MinP}, {"repetition penalty", s.Repetition}} {
		if f.value > 0 {
			text += fmt.Sprintf(", %s %g", f.name, f.value)
		}
	}
	return text
}

// readSamples reads samples.jsonl as readMetrics does its file, but for a line without an end, which is being written or was cut short by a kill.
func readSamples(path string) (samples []Sample, damaged []int, err error) {
	damaged, err = readLines(path, func(line []byte) error {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil
		}
		return appendLine(&samples, line)
	})
	return samples, damaged, err
}

// cell keeps a text inside its cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ").Replace(s)
}

// indented is a text as a code block, whatever is in it.
func indented(s string) string {
	s = strings.Map(terminal.Shown, s)
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// reporter writes report.md once a run has ended.
type reporter struct {
	config  Config
	team    *team
	times   *times
	facts   facts
	takes   fit.Takes
	work    []work
	decided []record.Decision // of the schedule
	resumed int64             // the step that this process went on from

	last       Metrics // the last metrics read
	checkpoint string  // the newest; "" without one
}

func (r *reporter) observe(e Event) error {
	switch e.Kind {
	case Stepped:
		r.last = e.seen.metrics
	case Saved:
		r.checkpoint = e.Checkpoint
	}
	return nil
}

// because is why a run has ended, behind how it has.
func because(why string) string {
	if why != "" {
		why = ": " + why
	}
	return why
}

// write writes the report of a run that has ended at a step, and why so, where that is not plain.
func (r *reporter) write(kind Kind, why string, step int64) error {
	known := slices.Clone(r.facts)
	known.add("ended", "%s at step %s of %s%s", kind, grouped(step), grouped(r.config.Steps), because(why))
	if r.last.Skipped+r.last.Spikes > 0 {
		known.add("left out", "%s updates that were not finite, %s beyond the usual", grouped(r.last.Skipped), grouped(r.last.Spikes))
	}
	if r.resumed > 0 {
		known.add("resumed", "from step %s", grouped(r.resumed))
	}
	for _, d := range r.decided {
		known.add("schedule", "%s", d.Text)
	}
	if r.checkpoint != "" {
		known.add("checkpoint", "%s", r.checkpoint)
	}
	var settings bytes.Buffer
	if err := record.Write(&settings, r.config.Settings); err != nil {
		return err
	}
	out := report{title: r.config.Title, facts: known, work: r.work, spans: r.times.list(), memory: r.memory(), settings: settings.Bytes()}
	return out.write(r.config.Dir)
}

// memory is what was planned for every device, what it has given, and what the process takes of the machine.
func (r *reporter) memory() (rows []memory) {
	devices, own := r.team.target.Devices(), r.team.own()
	for i, d := range own {
		m := memory{name: fmt.Sprintf("device %d: %s", i, d.Adapter())}
		if len(own) == 1 {
			m.name = fmt.Sprintf("device: %s", d.Adapter())
		}
		for stage, at := range devices {
			if at == d {
				m.planned += r.takes.Memory[stage].Total()
			}
		}
		counted := d.Counters()
		m.now, m.most = counted.LiveBytes, counted.PeakBytes
		rows = append(rows, m)
	}
	if most := system.PeakMemory(); most > 0 {
		rows = append(rows, memory{name: "process, in the machine's memory", planned: r.processBytes(), now: system.ResidentMemory(), most: most})
	}
	return rows
}

// processBytes is what was planned for the process: with the buffers of devices that share the machine's memory.
func (r *reporter) processBytes() uint64 {
	bytes := r.takes.Host.Bytes(r.config.SaveAsync)
	for stage, d := range r.team.target.Devices() {
		if !d.Dry() && d.Adapter().Shares() {
			bytes += r.takes.Memory[stage].Total()
		}
	}
	return bytes
}
