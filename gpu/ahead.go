package gpu

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Mesa's software drivers make a kernel's code when it first runs, one kernel at a time a device, and keep it on disk
// for all devices. So kernels run ahead of their use, with no workgroups; and where that takes long, other devices of
// the adapter run the next ones meanwhile, whose code then only has to be read. Where all code is on disk no other
// device is opened.

const (
	aheadHelpers = 3        // other devices, at most
	aheadBytes   = 64 << 10 // of each buffer that is bound: nothing is read or written
)

// aheadPatience is how long that may take before other devices help. Tests shorten it.
var aheadPatience = 50 * time.Millisecond

// compilesLate tells whether the driver compiles a kernel when it first runs, and this pays: who keeps devices has many
// and all cores busy.
func (d *Device) compilesLate() bool {
	return d.limits.Software && d.adapter.Backend == "vulkan" && d.keepAs == nil
}

// ahead are kernels that devices run ahead of their use, the longest first.
type ahead struct {
	kernels []*Kernel
	next    atomic.Int64
}

// runAhead runs those kernels that have not run ahead yet; done is called for each.
func (d *Device) runAhead(ctx context.Context, kernels []*Kernel, done func()) {
	a := &ahead{}
	for _, k := range kernels {
		if d.pipelines.slot(k).ran.Swap(true) {
			done()
		} else {
			a.kernels = append(a.kernels, k)
		}
	}
	slices.SortStableFunc(a.kernels, func(x, y *Kernel) int { return cmp.Compare(len(y.Source), len(x.Source)) })
	own := make(chan struct{})
	go func() {
		defer close(own)
		a.run(ctx, d, func(*Kernel) { done() })
	}()
	select {
	case <-own:
		return
	case <-time.After(aheadPatience):
	}
	made := make(chan *Kernel, len(a.kernels))
	var helpers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0)-1, aheadHelpers, len(a.kernels)-1) {
		helpers.Go(func() {
			other, err := d.another()
			if err != nil {
				d.logger.Debug("gpu: compile: no other device helps", "adapter", d.adapter.Name, "reason", err)
				return
			}
			defer other.Release()
			a.run(ctx, other, func(k *Kernel) { made <- k })
		})
	}
	<-own
	helpers.Wait()
	close(made)
	rest := &ahead{}
	for k := range made {
		rest.kernels = append(rest.kernels, k)
	}
	rest.run(ctx, d, func(*Kernel) { done() })
}

// another opens the adapter again, as far as kernels that read texels need.
func (d *Device) another() (*Device, error) {
	other := newDevice(d.limits, Options{Logger: d.logger, Timeout: d.timeout})
	other.adapter = d.adapter
	enumerate.Lock()
	defer enumerate.Unlock()
	var err error
	tapped(func() {
		other.native, err = openNative(d.adapter, d.adapter.order, "gputrain.gpu.ahead", false, d.limits.TexelBindings > 0, false)
	})
	return other, err
}

// run runs the kernels that no other device has taken. What fails is found again, and told, where the kernel is used.
func (a *ahead) run(ctx context.Context, d *Device, done func(*Kernel)) {
	var blank blanks
	defer blank.release()
	for ctx.Err() == nil {
		i := int(a.next.Add(1)) - 1
		if i >= len(a.kernels) {
			return
		}
		if err := d.runEmpty(a.kernels[i], &blank); err != nil {
			d.logger.Debug("gpu: compile: a kernel did not run ahead", "kernel", a.kernels[i].Label, "reason", err)
		}
		done(a.kernels[i])
	}
}

// runEmpty runs a kernel with no workgroups.
func (d *Device) runEmpty(k *Kernel, blank *blanks) error {
	p, err := d.pipeline(k)
	if err != nil {
		return err
	}
	ranges := make([]Range, len(k.Bindings))
	for i, b := range k.Bindings {
		if ranges[i], err = blank.bind(d, b.Access); err != nil {
			return err
		}
	}
	group, err := d.native.group(k.Label, p, ranges)
	if err != nil {
		return err
	}
	defer d.native.releaseGroup(group)
	list := makeList([]nativeCommand{{kind: kindDispatch, pipeline: p, group: group}})
	defer freeList(list)
	fence := d.queue.fence()
	defer d.queue.keep(fence)
	if err := d.native.submit(k.Label, []nativeList{list}, nil, fence, nil); err != nil {
		return err
	}
	return d.wait(context.Background(), fence, "wait for a kernel's code")
}

// blanks are what kernels bind that run with no workgroups, by what they do with it.
type blanks [WrittenTexels + 1]*Buffer

func (bs *blanks) bind(d *Device, a Access) (Range, error) {
	if bs[a] == nil {
		b := &Buffer{device: d, bytes: aheadBytes, usage: usageStorage}
		var err error
		switch a {
		case Texels, WrittenTexels:
			b.usage, b.bytes = usageTexels, texelSize(1)
			b.texels, err = d.native.makeTexels("gputrain.gpu.blank", b.bytes)
		case Uniform: // the driver writes params into the code where that makes it much shorter, as it does with zeros
			b.usage = usageUniform
			if b.native, err = d.native.buffer("gputrain.gpu.blank", b.usage, b.bytes); err == nil {
				err = d.native.write(b.native, 0, bytes.Repeat([]byte{1, 0, 1, 0}, aheadBytes/4))
			}
		default:
			b.native, err = d.native.buffer("gputrain.gpu.blank", b.usage, b.bytes)
		}
		if err != nil {
			return Range{}, err
		}
		bs[a] = b
	}
	return bs[a].All(), nil
}

func (bs *blanks) release() {
	for _, b := range bs {
		if b != nil {
			b.releaseNative()
		}
	}
}
