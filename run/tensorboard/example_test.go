package tensorboard_test

import (
	"errors"
	"fmt"
	"os"

	"gputrain/run/tensorboard"
	"gputrain/run/train"
)

// A run of one's own leaves files for TensorBoard with a hook, the last of its hooks.
func ExampleNewHook() {
	c := train.Config{Dir: "runs/mine"} // and all that a run has
	c.Hooks = append(c.Hooks, tensorboard.NewHook(c.Dir))
	// ... train.Run(ctx, device, c)
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
	fmt.Println(len(files), "files", err)
	// Output: 2 files <nil>
}
