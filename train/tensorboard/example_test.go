package tensorboard_test

import (
	"fmt"
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
