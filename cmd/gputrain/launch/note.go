package launch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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
