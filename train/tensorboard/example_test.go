package tensorboard_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gputrain/train"
	"gputrain/train/tensorboard"
)

// A run of one's own leaves files for TensorBoard with a hook, the last of its hooks, and what they hold can be read back.
func ExampleNewHook() {
	c := train.Config{Dir: "runs/mine"} // and all that a run has
	c.Hooks = append(c.Hooks, tensorboard.NewHook(c.Dir))
	// ... train.Run(ctx, device, c)

	files, err := tensorboard.Files(filepath.Join(c.Dir, train.TensorBoardDir))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range files {
		for e, err := range tensorboard.EventsOf(name) {
			fmt.Println(e.Step, e.Values, err)
		}
	}
	fmt.Println(len(files), "files")
	// Output: 0 files
}

// A program that does not train with this module writes figures of its own.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "events")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, first := range []int64{1, 3} { // the second process goes on from step 2
		w, err := tensorboard.Create(dir, first)
		if err != nil {
			fmt.Println(err)
			return
		}
		for step := first; step < first+4; step++ {
			err = errors.Join(err, w.Write(tensorboard.Event{
				WallTime: 1.9e9, Step: step,
				Values: []tensorboard.Value{{Tag: "train/loss", Kind: tensorboard.Scalar, Scalar: 1 / float32(step)}},
			}))
		}
		if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
			fmt.Println(err)
			return
		}
	}
	files, err := tensorboard.Files(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	log, err := tensorboard.ReadLog(files...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range log.Series["train/loss"] {
		fmt.Print(p.Step, " ")
	}
	// Output: 1 2 3 4 5 6
}
