package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"gputrain/internal/stranger"
)

// sessionsFile has a line for each process that made steps of a run. It says when, so it differs where all else is the same, and is never
// taken back: what a process has computed beyond its last checkpoint is in no other file.
const sessionsFile = "sessions.jsonl"

// session is a line of it.
type session struct {
	Step    int64     `json:"step"` // that the process went on from; 0: it began
	Time    time.Time `json:"time"`
	Adapter string    `json:"adapter"`
}

// logSession adds a line for this process, unless there is nothing left for it to do.
func (t *opening) logSession() error {
	step := t.state.Step()
	if step == t.config.Steps {
		return nil
	}
	text, err := stranger.Read(t.dir.join(sessionsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("train: run directory: %w", err)
	}
	line, err := json.Marshal(session{Step: step, Time: time.Now().UTC().Truncate(time.Second), Adapter: t.adapter()})
	if err != nil {
		return fmt.Errorf("train: %s: %w", sessionsFile, err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	return t.dir.replace(sessionsFile, append(append(text, line...), '\n'))
}
