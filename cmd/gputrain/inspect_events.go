package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gputrain/cmd/gputrain/lab/inspect"
	"gputrain/train/setup"
	"gputrain/train/tensorboard"
)

// eventFiles are the event files that a path means, a file or a folder of them; none if it means something else.
func eventFiles(path string, info fs.FileInfo) ([]string, error) {
	switch {
	case info.IsDir():
		return tensorboard.Files(path)
	case tensorboard.IsEventFile(path):
		return []string{path}, nil
	}
	return nil, nil
}

// events shows what TensorBoard would show of event files.
func (c *inspectCmd) events(files []string) error {
	if c.Optimizer {
		return usageError{errors.New("inspect: --optimizer: found files of TensorBoard, wanted a run directory or a checkpoint")}
	}
	log, err := tensorboard.ReadLog(files...)
	if err != nil {
		return &setup.ModelError{Err: fmt.Errorf("inspect: %w", err)}
	}
	series := inspect.Events(log)
	if !c.JSON {
		return inspect.EventTable(os.Stdout, files, log, series)
	}
	out := json.NewEncoder(os.Stdout)
	for _, s := range series {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}
