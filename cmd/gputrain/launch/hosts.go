package launch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

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

// mpirun waits for all hosts when it ends a job. To one behind a link that is cut, it waits until TCP gives up, after a quarter of an hour. So ranks on
// the host of the launcher note that they end.

// endVariable names the file for the note.
const endVariable = "GPUTRAIN_LAUNCH_END"

// idVariable has a text of the launch, the same at each of its starts and on all hosts.
const idVariable = "GPUTRAIN_LAUNCH_ID"

// ID tells one launch from others; "": this process is no rank of one.
func ID() string { return os.Getenv(idVariable) }

// Rank tells whether this process is a rank that launch has started. Launch asks it to stop by SIGUSR1: a SIGTERM is mpirun's, which ends what a death
// has left of a job.
func Rank() bool { return os.Getenv(endVariable) != "" }

// Note is called by a rank that ends. The first that fails writes its code where its launcher finds it; on other hosts there is no such place.
func Note(code int) {
	path := os.Getenv(endVariable)
	if path == "" || code == 0 {
		return
	}
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		_, _ = f.WriteString(strconv.Itoa(code))
		_ = f.Close()
	}
}

// askedSuffix is behind the name of the note for that of what the launcher was told.
const askedSuffix = ".asked"

// ask notes why the ranks are asked to stop. That they cannot know is no reason not to ask them.
func ask(note string, cause error) { _ = os.WriteFile(note+askedSuffix, []byte(cause.Error()), 0o600) }

// SignalName is what a rank calls a signal: one of its launcher's has the name of what the launcher was told, where that is known.
func SignalName(s os.Signal) string {
	note := os.Getenv(endVariable)
	if note == "" || !asks(s) {
		return s.String()
	}
	if asked, err := os.ReadFile(note + askedSuffix); err == nil {
		return strings.TrimPrefix(string(asked), "signal ") + " to gputrain launch"
	}
	if _, err := os.Stat(filepath.Dir(note)); err != nil { // on another host
		return s.String() + " of gputrain launch, which was told to stop"
	}
	return s.String()
}

func readNote(path string) (code int, noted bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	code, err = strconv.Atoi(string(b))
	return code, err == nil
}

// finishPatience is how long mpirun may take to end the others after a rank has failed: by its settings they have two seconds.
var finishPatience = 20 * time.Second

// finishing is closed when a rank has noted its end, and mpirun has had its time since.
func finishing(note string, over <-chan struct{}) <-chan struct{} {
	finished := make(chan struct{})
	go func() {
		tick := time.NewTicker(finishPatience / 40)
		defer tick.Stop()
		var noted time.Time
		for noted.IsZero() || time.Since(noted) < finishPatience {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if _, there := readNote(note); there && noted.IsZero() {
				noted = time.Now()
			}
		}
		close(finished)
	}()
	return finished
}
