package train

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gputrain/internal/stranger"
	"gputrain/run/record"
	"gputrain/state/checkpoint"
)

// profileFile is the trace that a profiled run leaves in its directory.
const profileFile = "profile.json"

// cutSuffix is behind the name of a log for that of what was cut off from it.
const cutSuffix = ".cut"

// oldIndex is an index of metrics.jsonl that runs once had.
const oldIndex = "metrics.columns"

// written are the names that a run writes in its directory beside the marker, the lock, checkpoints, copies of given files and event files. The record
// comes first: a fresh start removes it last.
var written = []string{
	runFile, metricsFile, oldIndex, samplesFile, histogramsFile, sessionsFile, referenceFile, metricsFile + cutSuffix, samplesFile + cutSuffix, histogramsFile + cutSuffix,
	rolloutsFile, rolloutsFile + cutSuffix, reportFile, lossPicture, gradientPicture, speedPicture, usePicture, profileFile,
}

// contents is what lies in a directory under names that a run writes: paths in it.
type contents struct {
	files       []string // beside checkpoints; of event files, those of other programs too
	checkpoints bool
	record      bool     // run.yaml is a run's
	others      []string // that gputrain has not written, and that a run does not go on beside
}

// names are all of them.
func (c contents) names() []string {
	names := slices.Concat(c.files, c.others)
	if c.checkpoints {
		names = append(names, checkpointsDir)
	}
	slices.Sort(names)
	return slices.Compact(names) // a record of others is in both
}

// inspectDir finds what a directory has under names that a run writes.
func inspectDir(dir string) (found contents, err error) {
	for _, name := range written {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			found.files = append(found.files, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	if slices.Contains(found.files, runFile) {
		text, err := beginning(filepath.Join(dir, runFile))
		if found.record = err == nil && (len(text) == 0 || record.Is(text)); !found.record {
			found.others = append(found.others, runFile)
		}
	}
	given, err := os.ReadDir(dir)
	if err != nil {
		return found, err
	}
	for _, e := range given {
		if givenForm.MatchString(e.Name()) {
			found.files = append(found.files, e.Name())
		}
	}
	events, err := os.ReadDir(filepath.Join(dir, TensorBoardDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	for _, e := range events {
		found.files = append(found.files, filepath.Join(TensorBoardDir, e.Name()))
	}
	generations, err := os.ReadDir(filepath.Join(dir, generationsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	for _, e := range generations {
		name := filepath.Join(generationsDir, e.Name())
		if _, is := numberOf(e.Name()); is {
			found.files = append(found.files, name)
		} else {
			found.others = append(found.others, name)
		}
	}
	store := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(dir, checkpointsDir)}
	others, err := store.Others()
	if err != nil {
		return found, err
	}
	for _, path := range others {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return found, err
		}
		found.others = append(found.others, name)
	}
	steps, err := store.Steps()
	found.checkpoints = len(steps) > 0
	return found, err
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

// eventName is the form of names of event files, also of other programs'.
var eventName = regexp.MustCompile(`^events\.out\.tfevents\.\d{10,}\..+\.\d+$`)

// sessionStart is how the second event ends: package tensorboard says there where a process began, as other programs do not.
var sessionStart = []byte{7<<3 | 2, 2, 1 << 3, 1}

// isEventFile tells an event file of a run from another program's. An empty one is of a process that was killed before its first event.
func isEventFile(path string) bool {
	text, err := beginning(path)
	return err == nil && eventName.MatchString(filepath.Base(path)) && (len(text) == 0 || bytes.Contains(text[:min(len(text), 1<<10)], sessionStart))
}

// givenName is the name of the copy of a file that settings came from. What is in it is in the name: a copy is never replaced by another.
func givenName(text []byte) string {
	return fmt.Sprintf("run.given-%.4x.yaml", sha256.Sum256(text))
}

var givenForm = regexp.MustCompile(`^run\.given-[0-9a-f]{8}\.yaml$`)
