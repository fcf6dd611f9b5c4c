package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
)

// Facts are what ranks must have in common to train one model, and what they train on.
type Facts struct {
	Program  string // its version
	Settings []Fact // in one order
	Data     string // fingerprint
	Adapters []Adapter
}

// Fact is a setting and its value.
type Fact struct{ Key, Value string }

// Adapter is one that a rank trains on.
type Adapter struct {
	Index int // on its host
	Name  string
}

// Joined is what the ranks have told each other.
type Joined struct {
	Adapters []string // of each rank
	// Notes are what the user is to know: ranks that share an adapter, ranks on different ones.
	Notes []string
}

// Adapter names the adapters of all ranks, each kind once.
func (j Joined) Adapter() string {
	var kinds []string
	for _, name := range j.Adapters {
		kinds = append(kinds, strings.Split(name, "; ")...)
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), "; ")
}

// Join compares what this rank has with what all have, and ends the run on all of them where it differs. The error names the first rank that differs from rank
// 0, in what, what it has and what was wanted.
func Join(ctx context.Context, m *mesh.Mesh, own Facts) (Joined, error) {
	program, err := executable()
	if err != nil {
		return Joined{}, fmt.Errorf("cluster: %s: program: %w", m.Name(m.Rank()), err)
	}
	own.Program += program
	facts, err := mesh.Tell(ctx, m, "settings", own)
	if err != nil {
		return Joined{}, err
	}
	for rank, f := range facts {
		if what, found, wanted := f.difference(facts[0]); what != "" {
			err := &DifferentError{Rank: rank, Host: m.Host(rank), What: what, Found: found, Wanted: wanted, First: m.Host(0)}
			m.EndWith(err)
			return Joined{}, err
		}
	}
	return joined(m, facts), nil
}

// DifferentError says that a rank is not of the same run as rank 0.
type DifferentError struct {
	Rank                int
	Host                string
	What, Found, Wanted string
	First               string // the host of rank 0
}

// Error names both ranks.
func (e *DifferentError) Error() string {
	return fmt.Sprintf("cluster: %s: %s: found %s, wanted that of %s, %s", transport.Name(e.Rank, e.Host), e.What, e.Found, transport.Name(0, e.First), e.Wanted)
}

// difference is the first thing in which f is not as other.
func (f Facts) difference(other Facts) (what, found, wanted string) {
	if f.Program != other.Program {
		return "program", f.Program, other.Program
	}
	for i, s := range f.Settings {
		switch {
		case i >= len(other.Settings):
			return s.Key, s.Value, "none"
		case s.Key != other.Settings[i].Key:
			return "settings", s.Key, other.Settings[i].Key
		case s != other.Settings[i]:
			return s.Key, s.Value, other.Settings[i].Value
		}
	}
	if n := len(f.Settings); n < len(other.Settings) {
		return other.Settings[n].Key, "none", other.Settings[n].Value
	}
	if f.Data != other.Data {
		return "data (fingerprint of the text)", f.Data, other.Data
	}
	return "", "", ""
}

// joined finds what is worth telling.
func joined(m *mesh.Mesh, facts []Facts) (j Joined) {
	type place struct {
		host  string
		index int
	}
	at, places := map[place][]string{}, []place(nil)
	of := map[string][]string{}
	for rank, f := range facts {
		var names []string
		for _, a := range f.Adapters {
			names = append(names, a.Name)
			p := place{m.Host(rank), a.Index}
			if at[p] == nil {
				places = append(places, p)
			}
			at[p] = append(at[p], fmt.Sprint(rank))
		}
		slices.Sort(names)
		name := strings.Join(slices.Compact(names), "; ")
		j.Adapters = append(j.Adapters, name)
		of[name] = append(of[name], fmt.Sprint(rank))
	}
	for _, p := range places {
		if ranks := slices.Compact(at[p]); len(ranks) > 1 {
			j.Notes = append(j.Notes, fmt.Sprintf("ranks %s share adapter %d on host %s", strings.Join(ranks, ", "), p.index, p.host))
		}
	}
	if len(of) > 1 {
		var parts []string
		for rank, name := range j.Adapters {
			if !slices.Contains(j.Adapters[:rank], name) {
				parts = append(parts, fmt.Sprintf("%s on rank %s", name, strings.Join(of[name], ", ")))
			}
		}
		j.Notes = append(j.Notes, fmt.Sprintf("warning: adapters differ: %s: the bits are those of these ranks on these adapters alone", strings.Join(parts, "; ")))
	}
	return j
}

// executable tells this program from others of its version, by its bytes.
var executable = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf(", sha256 %.6x", sum.Sum(nil)), nil
})
