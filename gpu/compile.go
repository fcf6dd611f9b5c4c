package gpu

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gputrain/internal/caught"
)

// pipelineCache holds one pipeline for each source, for the life of the device.
type pipelineCache struct {
	mu    sync.Mutex
	slots map[string]*pipelineSlot
	made  atomic.Uint64
	kept  map[string]nativePipeline // of the native device's users before, by source
}

// pipelineSlot is filled once; whoever comes meanwhile waits for it.
type pipelineSlot struct {
	kernel *Kernel
	once   sync.Once
	native nativePipeline
	made   bool
	ran    atomic.Bool // see runAhead
	err    error
}

// slot is the place of a kernel's pipeline.
func (c *pipelineCache) slot(k *Kernel) *pipelineSlot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots == nil {
		c.slots = map[string]*pipelineSlot{}
	}
	if c.slots[k.Source] == nil {
		c.slots[k.Source] = &pipelineSlot{kernel: k}
	}
	return c.slots[k.Source]
}

func (d *Device) pipeline(k *Kernel) (nativePipeline, error) {
	c := &d.pipelines
	s := c.slot(k)
	s.once.Do(func() {
		if s.err = k.check(d.limits); s.err != nil {
			return
		}
		if s.native, s.made = c.kept[k.Source]; !s.made {
			s.native, s.err = d.native.pipeline(k, d.limits.Matrix.does(k.matrix))
			s.made = s.err == nil
		}
		if s.made {
			c.made.Add(1)
		}
	})
	if s.err != nil {
		return s.native, fmt.Errorf("kernel %q: %w", k.Label, s.err)
	}
	return s.native, nil
}

// Kernels lists the kernels that have been compiled, by label and source; those of a dry device are what its programs would compile.
func (d *Device) Kernels() []*Kernel {
	c := &d.pipelines
	c.mu.Lock()
	defer c.mu.Unlock()
	kernels := make([]*Kernel, 0, len(c.slots))
	for _, s := range c.slots {
		kernels = append(kernels, s.kernel)
	}
	slices.SortFunc(kernels, func(a, b *Kernel) int { return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.Source, b.Source)) })
	return kernels
}

func (c *pipelineCache) release(d *Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for source, s := range c.slots {
		if _, known := c.kept[source]; s.made && !known {
			d.native.releasePipeline(s.native)
		}
	}
	for _, p := range c.kept {
		d.native.releasePipeline(p)
	}
	c.slots, c.kept = nil, nil
}

// Compile makes the pipelines of kernels ahead of their use, in parallel. progress, when not nil, is called after each
// with how many are done, never by two goroutines at once. The error is that of the first kernel in the list that fails: its
// label and the compiler's message with the line of the source.
func (d *Device) Compile(ctx context.Context, kernels []*Kernel, progress func(done, total int)) error {
	if err := d.ready(); err != nil {
		return fmt.Errorf("gpu: compile: %w", err)
	}
	errs := make([]error, len(kernels))
	var next atomic.Int64
	var done int
	var report sync.Mutex
	one := func() {
		report.Lock()
		defer report.Unlock()
		done++
		if progress != nil {
			progress(done, len(kernels))
		}
	}
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(kernels)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(kernels) || ctx.Err() != nil {
					return
				}
				errs[i] = caught.Do(func() error {
					_, err := d.pipeline(kernels[i])
					if !d.compilesLate() {
						one()
					}
					return err
				})
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("gpu: compile: %w", err)
		}
	}
	if d.compilesLate() {
		d.runAhead(ctx, kernels, one)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("gpu: compile: %w", err)
	}
	return nil
}
