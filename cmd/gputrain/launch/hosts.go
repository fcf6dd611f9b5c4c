package launch

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"gputrain/internal/suggest"
)

// Host is a machine and how many ranks it takes.
type Host struct {
	Name  string
	Slots int
}

// mostBytes is what a file of hosts may have: more than 10,000 of them take.
const mostBytes = 1 << 20

// mostSlots is how many ranks a host may take: what is beyond is a slip, and would start so many processes.
const mostSlots = 1024

// hostName is what mpirun takes in a list of hosts: names, IPv4 addresses, with a user before them, who is no option of ssh.
var hostName = regexp.MustCompile(`^(\w[\w.-]*@)?[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$`)

// ReadHosts reads a file of one host a line, `name` or `name slots=N`. A # begins a comment.
func ReadHosts(path string) ([]Host, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("launch: hosts: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil {
		return nil, fmt.Errorf("launch: hosts: %w", err)
	}
	if len(b) > mostBytes {
		return nil, fmt.Errorf("launch: hosts: %s: found more than %d bytes, wanted a host a line", path, mostBytes)
	}
	var hosts []Host
	at := map[string]int{} // the line of each
	for i, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		h, err := parseHost(words)
		if first := at[h.machine()]; err == nil && first > 0 {
			err = fmt.Errorf("found host %q, which is in line %d already, wanted each once, with slots=N", h.Name, first)
		}
		if err != nil {
			return nil, fmt.Errorf("launch: hosts: %s:%d: %w", path, i+1, err)
		}
		at[h.machine()] = i + 1
		hosts = append(hosts, h)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("launch: hosts: %s: found no host, wanted one a line, as `name` or `name slots=2`", path)
	}
	return hosts, nil
}

// machine is the name by which a host is known, whoever the user: names of hosts have no case.
func (h Host) machine() string {
	return strings.ToLower(h.Name[strings.Index(h.Name, "@")+1:])
}

func parseHost(words []string) (Host, error) {
	h := Host{Name: words[0]}
	if !hostName.MatchString(h.Name) {
		return h, fmt.Errorf("found %q, wanted the name of a host", h.Name)
	}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		if key != "slots" {
			return h, fmt.Errorf("found %q after the host, wanted slots=N%s", w, suggest.DidYouMean(key, []string{"slots"}))
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > mostSlots {
			return h, fmt.Errorf("found %q, wanted slots=N with N from 1 to %d", w, mostSlots)
		}
		if h.Slots > 0 {
			return h, fmt.Errorf("found slots=%d and %s, wanted one of them", h.Slots, w)
		}
		h.Slots = n
	}
	h.Slots = max(1, h.Slots) // as many as a host has where nothing is said
	return h, nil
}

// Slots is how many ranks hosts take together.
func Slots(hosts []Host) int {
	n := 0
	for _, h := range hosts {
		n += h.Slots
	}
	return n
}

// list is the hosts as mpirun's --host takes them.
func list(hosts []Host) string {
	var names []string
	for _, h := range hosts {
		names = append(names, fmt.Sprintf("%s:%d", h.Name, h.Slots))
	}
	return strings.Join(names, ",")
}
