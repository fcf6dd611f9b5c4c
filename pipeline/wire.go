package pipeline

import (
	"context"
	"fmt"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
)

// A wire is an edge at work: how the values of an edge come from the device of one stage to that of another. Between devices they are copied to
// pinned host memory behind the pass that made them, handed over a link, and written to the other device while that computes
// something else. On one device they are copied to memory that the wire keeps, and from there by the pass that reads them. Either way two
// messages may be under way at once.
type wire struct {
	edge
	source, sink  *stage
	maker, reader *linePart
	free          chan struct{} // places of messages that are not under way

	// Between devices.
	link    Link
	fetched *receivingEnd // the link, where the source is on another rank
	rings   []*gpu.Readback
	made    chan int // microbatches submitted, in order
	export  []*gpu.Program
	traffic traffic

	// On one device: by place of the message, then by place of the values.
	leave   [][]*gpu.Program
	take    [][]*gpu.Program
	arrived chan int
}

// local tells whether both ends are one device.
func (w *wire) local() bool { return w.source.device == w.sink.device }

// copiesOf is the number of different places that the values of an edge have in a part.
func copiesOf(p *linePart, values []*graph.Value) int {
	n := 1
	for _, v := range values {
		n = max(n, p.placesOf(v))
	}
	return n
}

func (l *line) newWire(ctx context.Context, e edge, newLink linkMaker) (*wire, error) {
	w := &wire{edge: e, maker: l.parts[e.From], reader: l.parts[e.To], source: l.stageOf(e.From), sink: l.stageOf(e.To), free: make(chan struct{}, e.Depth())}
	for range e.Depth() {
		w.free <- struct{}{}
	}
	if w.local() {
		return w, w.openLocal(ctx, l)
	}
	return w, w.openLink(ctx, l, newLink)
}

// openLink makes the wire between two devices.
func (w *wire) openLink(ctx context.Context, l *line, newLink linkMaker) error {
	var sizes []uint64
	for _, v := range w.Values {
		ring, err := w.source.device.NewReadback("gputrain.pipeline.send "+valueName(v), compile.Bytes(v.Type()), w.Depth())
		if err != nil {
			return err
		}
		w.rings = append(w.rings, ring)
		l.taken(w.source, uint64(w.Depth())*compile.Bytes(v.Type()))
		sizes = append(sizes, compile.Bytes(v.Type()))
	}
	for i := range copiesOf(w.maker, w.Values) {
		rec := w.source.device.Record("gputrain.pipeline.send")
		for j, v := range w.Values {
			rec.ReadBack(w.rings[j], w.maker.place(v, i))
		}
		p, err := rec.Program(ctx)
		if err != nil {
			return err
		}
		w.export = append(w.export, p)
	}
	w.made = make(chan int, w.Depth())
	return w.join(l, sizes, newLink)
}

// join opens the link, or the end of it that is on this rank. A plan opens none.
func (w *wire) join(l *line, sizes []uint64, newLink linkMaker) (err error) {
	tag := l.tag
	l.tag++
	sends, receives := !w.source.device.Dry(), !w.sink.device.Dry()
	switch {
	case sends && receives:
		w.link, err = newLink(w.name(), w.Depth(), sizes)
	case sends:
		w.link = &sendingEnd{newHostLink(w.name(), 1, sizes), peer{l.mesh, l.mesh.Home(w.sink.index), tag}}
	case receives:
		w.fetched = &receivingEnd{newHostLink(w.name(), w.Depth(), sizes), peer{l.mesh, l.mesh.Home(w.source.index), tag}}
		w.link = w.fetched
	}
	return err
}

// openLocal makes the wire on one device.
func (w *wire) openLocal(ctx context.Context, l *line) error {
	w.arrived = make(chan int, w.Depth())
	copied := func(n int, p *linePart, out bool, kept []gpu.Range) ([]*gpu.Program, error) {
		var programs []*gpu.Program
		for i := range n {
			rec := w.source.device.Record("gputrain.pipeline.hand")
			for j, v := range w.Values {
				if out {
					rec.Copy(kept[j], p.place(v, i))
				} else {
					rec.Copy(p.place(v, i), kept[j])
				}
			}
			program, err := rec.Program(ctx)
			if err != nil {
				return nil, err
			}
			programs = append(programs, program)
		}
		return programs, nil
	}
	for range w.Depth() {
		var kept []gpu.Range
		for _, v := range w.Values {
			b, err := l.buffer(w.source, "handed", compile.Bytes(v.Type()))
			if err != nil {
				return err
			}
			kept = append(kept, b.All())
		}
		leave, err := copied(copiesOf(w.maker, w.Values), w.maker, true, kept)
		if err != nil {
			return err
		}
		take, err := copied(copiesOf(w.reader, w.Values), w.reader, false, kept)
		if err != nil {
			return err
		}
		w.leave, w.take = append(w.leave, leave), append(w.take, take)
	}
	return nil
}

// name tells the wire in errors and traces.
func (w *wire) name() string {
	return fmt.Sprintf("%s, stage %d to %d, part %d to %d", w.Kind, w.source.index, w.sink.index, w.Edge.From, w.Edge.To)
}

func (w *wire) release() {
	if w.link != nil {
		_ = w.link.Close()
	}
	for _, r := range w.rings {
		r.Release()
	}
	for _, p := range w.export {
		p.Release()
	}
	for _, programs := range append(w.leave, w.take...) {
		for _, p := range programs {
			p.Release()
		}
	}
}
