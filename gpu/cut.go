package gpu

import (
	"sort"
	"time"
)

// A submit that takes too long is lost: Windows resets a driver after two seconds of work that does not end (TDR), and
// a desktop stands still for as long. So what is given to Submit is cut into several submits, none of which is expected
// to take longer than Options.SubmitLimit, except for one of a single command. The commands are the same in the same
// order, so a cut changes no bit and makes nothing; where it lies may depend on a measurement.

// defaultSubmitLimit leaves a device four times the time that is expected of it.
const defaultSubmitLimit = time.Second / 2

// span is the commands of a program from one up to another.
type span struct {
	program  *Program
	from, to int
}

// piece is one of the submits that programs are cut into.
type piece struct {
	spans   []span
	seconds float64 // expected
	longest *command
	most    float64 // seconds of the longest

	dispatches, refreshes, readbacks int
	refreshed                        uint64 // bytes
}

// cut divides programs into submits: each takes commands for as long as it stays within the limit.
func (d *Device) cut(programs []*Program) []*piece {
	speed, _ := d.Speed()
	limit := d.submitLimit.Seconds()
	last := &piece{}
	pieces := []*piece{last}
	for _, p := range programs {
		from := 0
		for i := range p.commands {
			c := &p.commands[i]
			s := c.seconds(speed)
			if limit > 0 && last.seconds > 0 && last.seconds+s > limit {
				last.add(p, from, i)
				last, from = &piece{}, i
				pieces = append(pieces, last)
			}
			last.count(c, s)
		}
		last.add(p, from, len(p.commands))
	}
	return pieces
}

// seconds is how long a command is expected to take.
func (c *command) seconds(s Speed) float64 {
	if c.kind == kindGroup {
		return 0
	}
	return s.Seconds(c.work)
}

func (t *piece) count(c *command, seconds float64) {
	t.seconds += seconds
	if seconds > t.most {
		t.longest, t.most = c, seconds
	}
	switch c.kind {
	case kindDispatch:
		t.dispatches++
	case kindReadBack:
		t.readbacks++
	case kindRefresh:
		t.refreshes++
		t.refreshed += c.src.Bytes
	}
}

// add gives the piece some commands of a program, or a program that has none.
func (t *piece) add(p *Program, from, to int) {
	if from < to || len(p.commands) == 0 {
		t.spans = append(t.spans, span{p, from, to})
	}
}

// lists are the commands as the library takes them; what begins within a group begins with its name.
func (t *piece) lists() (lists []nativeList) {
	for _, s := range t.spans {
		list, group := s.program.list, s.program.groups[s.group(s.from)]
		if s.from > 0 {
			lists = append(lists, partOf(list, group, group+1))
			group = s.from + 1
		}
		lists = append(lists, partOf(list, group, s.to+1))
	}
	return lists
}

// names are the names of the groups in lists.
func (t *piece) names() (names []spanName) {
	for _, s := range t.spans {
		names = append(names, s.program.names[s.group(s.from):s.group(s.to)+1]...)
	}
	return names
}

// group is the number of the group that a command follows; the first is the program's own.
func (s span) group(command int) int {
	return sort.SearchInts(s.program.groups, command+1) - 1
}

// expected is how long the pieces are expected to take.
func expected(pieces []*piece) (sum time.Duration) {
	for _, t := range pieces {
		sum += duration(t.seconds)
	}
	return sum
}

// Planned is a submit that is to come.
type Planned struct {
	Takes        time.Duration // as expected of the device's Speed
	Cut          bool          // it is one of several
	Times        int           // how many such there are
	Dispatches   int
	Barriers     int           // between its commands
	Longest      string        // kernel or kind of its longest command
	LongestTakes time.Duration // which cannot be cut
}

// Plan tells into which submits Submit would cut programs.
func (d *Device) Plan(programs ...*Program) (out []Planned) {
	pieces := d.cut(programs)
	for _, t := range pieces {
		p := Planned{Takes: duration(t.seconds), Cut: len(pieces) > 1, Times: 1, Dispatches: t.dispatches, Barriers: t.barriers(), LongestTakes: duration(t.most)}
		if t.longest != nil {
			p.Longest = t.longest.label
		}
		out = append(out, p)
	}
	return out
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
