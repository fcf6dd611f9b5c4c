package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gputrain/checkpoint"
	"gputrain/internal/stranger"
	"gputrain/internal/svg"
)

// ProfileFile is the trace that a profiled run leaves in its directory.
const ProfileFile = "profile.json"

// temporaryFile is what a file is called until it is whole: a run directory has one process.
const temporaryFile = ".gputrain.tmp"

// cutSuffix is behind the name of a log for that of what was cut off from it.
const cutSuffix = ".cut"

// written are the names that a run writes in its directory beside the marker, the lock and checkpoints, with what tells a file of ours from
// another of that name.
var written = []struct {
	name string
	log  bool // goes on, and is cut only with a copy
	ours func(text []byte) bool
}{
	{runFile, false, isRecord},
	{metricsFile, true, isLog(`"step"`, `"loss"`, `"grad_norm"`)},
	{"metrics.columns", false, func(text []byte) bool { return bytes.HasPrefix(text, []byte("gputrain columns ")) }}, // an index that runs had
	{samplesFile, true, isLog(`"step"`, `"prompt"`, `"text"`)},
	{histogramsFile, true, isLog(`"step"`, `"name"`, `"counts"`)},
	{sessionsFile, true, isLog(`"step"`, `"time"`, `"adapter"`)},
	{metricsFile + cutSuffix, true, isLog(`"step"`)},
	{samplesFile + cutSuffix, true, isLog(`"step"`)},
	{histogramsFile + cutSuffix, true, isLog(`"step"`)},
	{reportFile, false, func(text []byte) bool { return bytes.Contains(text, []byte(recordHead)) }},
	{lossPicture, false, isChart},
	{gradientPicture, false, isChart},
	{speedPicture, false, isChart},
	{usePicture, false, isChart},
	{ProfileFile, false, func(text []byte) bool { return bytes.HasPrefix(text, []byte(`{"traceEvents":`)) }},
}

// contents is what lies in a directory under names that a run writes: paths in it, and whether they are a run's.
type contents []content

type content struct {
	name      string
	ours, log bool
}

// ours are the files of a run, but for checkpoints.
func (c contents) ours() (names []string) {
	for _, f := range c {
		if f.ours && f.name != checkpointsDir {
			names = append(names, f.name)
		}
	}
	return names
}

// record tells whether a record of settings is among them.
func (c contents) record() bool {
	return slices.ContainsFunc(c, func(f content) bool { return f.name == runFile && f.ours })
}

// theirs are the files that are not a run's; logs are left out where they only go on, as a run does behind what has become of them.
func (c contents) theirs(logs bool) (names []string) {
	for _, f := range c {
		if !f.ours && (logs || !f.log) {
			names = append(names, f.name)
		}
	}
	return names
}

// names are all of them.
func (c contents) names() (names []string) {
	for _, f := range c {
		names = append(names, f.name)
	}
	return names
}

// inspectDir finds what a directory has under names that a run writes.
func inspectDir(dir string) (found contents, err error) {
	for _, w := range written {
		text, err := beginning(filepath.Join(dir, w.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		ours := err == nil && (len(text) == 0 || w.ours(text))
		found = append(found, content{name: w.name, ours: ours, log: w.log})
	}
	for _, inspect := range []func(dir string) (contents, error){inspectGiven, inspectEvents, inspectCheckpoints} {
		more, err := inspect(dir)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// inspectEvents finds what is in the directory of event files.
func inspectEvents(dir string) (found contents, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, TensorBoardDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name := filepath.Join(TensorBoardDir, e.Name())
		text, err := beginning(filepath.Join(dir, name))
		found = append(found, content{name: name, ours: err == nil && isEventFile(e.Name(), text)})
	}
	return found, err
}

// inspectCheckpoints finds what is in the directory of checkpoints: that as one, and each thing that is of none.
func inspectCheckpoints(dir string) (found contents, err error) {
	store := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(dir, checkpointsDir)}
	others, err := store.Others()
	if err != nil {
		return nil, err
	}
	for _, path := range others {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return nil, err
		}
		found = append(found, content{name: name})
	}
	if steps, err := store.Steps(); err != nil || len(steps) == 0 {
		return found, err
	}
	return append(found, content{name: checkpointsDir, ours: true}), nil
}

// beginning is what a regular file begins with, which is enough to know it by. A link is none: no run writes one.
func beginning(path string) ([]byte, error) {
	f, err := stranger.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// recordForm is how run.yaml begins: what was decided, then its head.
var recordForm = regexp.MustCompile(`\A(# .*\n)*` + regexp.QuoteMeta(recordHead))

func isRecord(text []byte) bool { return recordForm.Match(text) }

func isChart(text []byte) bool { return bytes.Contains(text, []byte(svg.Style)) }

// isLog knows a log by a line that is an object with all of these keys; lines that are damaged, and the last, tell nothing.
func isLog(keys ...string) func(text []byte) bool {
	return func(text []byte) bool {
		for line := range bytes.Lines(text) {
			all := json.Valid(line)
			for _, k := range keys {
				all = all && bytes.Contains(line, []byte(k+":"))
			}
			if all || bytes.Contains(line, []byte(`"eval_loss":`)) && json.Valid(line) {
				return true
			}
		}
		return false
	}
}

var eventName = regexp.MustCompile(`^events\.out\.tfevents\.\d{10,}\..+\.\d+$`)

// sessionStart is how the second event ends: package tensorboard says there where a process began, as other programs do not.
var sessionStart = []byte{7<<3 | 2, 2, 1 << 3, 1}

// isEventFile knows an event file by its name and its first two records: a length of 8 bytes, 4 of a checksum, the event, 4 more.
func isEventFile(name string, text []byte) bool {
	if !eventName.MatchString(name) {
		return false
	}
	var event []byte
	for range 2 {
		if len(text) < 16 {
			return len(text) == 0 // the process was killed before
		}
		n := binary.LittleEndian.Uint64(text)
		if n > uint64(len(text)-16) {
			return false
		}
		event, text = text[12:12+n], text[16+n:]
	}
	return bytes.HasSuffix(event, sessionStart)
}

// givenName is the name of the copy of a file that settings came from. What is in it is in the name: a copy is never replaced by another.
func givenName(text []byte) string {
	return fmt.Sprintf("run.given-%.4x.yaml", sha256.Sum256(text))
}

var givenForm = regexp.MustCompile(`^run\.given-[0-9a-f]{8}\.yaml$`)

// inspectGiven finds copies of files that settings came from.
func inspectGiven(dir string) (found contents, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); givenForm.MatchString(name) {
			text, err := beginning(filepath.Join(dir, name))
			found = append(found, content{name: name, ours: err == nil && givenName(text) == name})
		}
	}
	return found, err
}
