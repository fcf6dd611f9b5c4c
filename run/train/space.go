package train

import (
	"context"
	"fmt"

	"gputrain/gpu"
	"gputrain/state/checkpoint"
)

// checkSpace refuses a run for whose checkpoints the disk has no room, all that there will be at once, and says what they take.
func (t *opening) checkSpace(ctx context.Context) error {
	c := t.config
	var there []int64
	var err error
	if !c.Fresh {
		if there, err = t.store.Steps(); err != nil {
			return err
		}
	}
	more := max(1, min(c.mostCheckpoints()-len(there), c.savesAfter(t.state.Step())))
	dir := t.store.Dir // which may be a link to another disk
	if _, err := c.State.FS.ReadDir(dir); err != nil {
		dir = c.Dir
	}
	each, free, err := t.state.CheckSpace(ctx, dir, more)
	if err != nil {
		return c.withSpaceKeys(err)
	}
	t.say("checkpoints of %s; %d more at once at most (%s): %s of the disk, which has %s", gpu.SizeText(each), more, c.spaceKeys(), gpu.SizeText(uint64(more)*each), gpu.SizeText(free))
	return nil
}

// mostCheckpoints is how many checkpoints there are at once at most: those kept, a temporary one, and the one being written, after which rotation comes.
func (c Config) mostCheckpoints() int {
	most := c.Keep + 1
	if c.evaluates() {
		most += c.KeepBest
	}
	if c.SaveInterval.Time() > 0 {
		most++
	}
	return most
}

// savesAfter is how many checkpoints a run writes after a step at most.
func (c Config) savesAfter(step int64) int {
	most := c.mostCheckpoints()
	if c.SaveInterval.Time() > 0 { // how many, time tells
		return most
	}
	count := 0
	for ; step < c.Steps && count < most; count++ {
		next := c.Steps
		for _, v := range c.SaveEvery {
			if due := (step/v.Every + 1) * v.Every; v.Until == 0 || due <= v.Until {
				next = min(next, due)
				break
			}
		}
		step = next
	}
	return count
}

// spaceKeys are the settings that decide how many checkpoints there are.
func (c Config) spaceKeys() string {
	text := fmt.Sprintf("train.keep %d", c.Keep)
	if c.evaluates() {
		text += fmt.Sprintf(", train.keep_best %d", c.KeepBest)
	}
	return text + ", and the one being written"
}

// withSpaceKeys says of a full disk what to do.
func (c Config) withSpaceKeys(err error) error {
	if !is[*checkpoint.SpaceError](err) {
		return err
	}
	return fmt.Errorf("%w (%s): make room there, lower train.keep, or give --run-dir on another disk", err, c.spaceKeys())
}
