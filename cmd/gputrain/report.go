package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gputrain/internal/atomicfile"
	"gputrain/internal/stranger"
	"gputrain/run/train"
)

type reportCmd struct {
	Dir  string `arg:"" name:"run" help:"Run directory; the run may go on, or have been killed." type:"path"`
	To   string `help:"File to write instead of standard output. One that is there is replaced if it is a report." type:"path" placeholder:"FILE"`
	JSON bool   `help:"The same facts as one JSON object."`
}

// Run tells what the files of a run say of it.
func (c *reportCmd) Run() error {
	s, err := train.ReadSummary(c.Dir)
	if err != nil {
		return err
	}
	text := s.Text()
	if c.JSON {
		var out bytes.Buffer
		if err := json.NewEncoder(&out).Encode(s); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		text = out.Bytes()
	}
	if c.To == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return writeReport(c.To, text)
}

// writeReport puts a report in its place in one go. What is no report stays.
func writeReport(to string, text []byte) error {
	old, err := stranger.ReadNamed(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return usageError{fmt.Errorf("report: --to: %w", err)}
	case len(old) > 0 && !train.IsReport(old):
		return usageError{fmt.Errorf("report: --to: %s: found a file that is no report, wanted a new one", to)}
	}
	if err := atomicfile.Replace(to, text); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
