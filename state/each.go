package state

import (
	"context"
	"fmt"

	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/model"
)

// EachLogits gives the logits of the token that follows each token of a window of at most Window tokens, in their order: yield's error ends it. They are on the host
// for so many tokens at once as a piece of a prompt has.
func (m *Model) EachLogits(ctx context.Context, window []int32, yield func(at int, logits []float32) error) error {
	if len(window) < 1 || len(window) > m.window {
		return fmt.Errorf("state: logits: found %d tokens, wanted 1 to %d", len(window), m.window)
	}
	if err := KnownTokens(m.vocab, window...); err != nil {
		return fmt.Errorf("state: logits: %w", err)
	}
	p := m.passes
	if p.each == nil {
		var err error
		if p.each, err = p.newEach(ctx); err != nil {
			return fmt.Errorf("state: logits: %w", err)
		}
	}
	vocab, next := p.def.Vocab(), 0
	for _, piece := range pieces(window, 0, prefillRows(p.window)) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		all, err := p.each.prefill.logits(ctx, piece, vocab*piece.Tokens())
		if err != nil {
			return err
		}
		for i, at := range piece.positions {
			if int(at) != next || next == len(window) {
				continue // seen before, or behind the end
			}
			if err := yield(next, all[i*vocab:(i+1)*vocab]); err != nil {
				return err
			}
			next++
		}
	}
	return nil
}

// newEach is a generator whose prefill has the logits of all of its tokens, and which goes on with none.
func (m *passes) newEach(ctx context.Context) (_ *generator, err error) {
	g := &generator{}
	defer func() {
		if err != nil {
			g.release()
		}
	}()
	built, err := m.def.Build(1, prefillRows(m.window), model.Options{Logits: true, Window: m.window})
	if err != nil {
		return nil, err
	}
	bind := map[string]gpu.Range{}
	for _, c := range built.Caches {
		if _, ok := bind[CacheName(c)]; ok {
			continue
		}
		b, err := m.device.NewBuffer("gputrain.state.each."+CacheName(c), compile.Bytes(c.Type()))
		if err != nil {
			return nil, err
		}
		g.caches, bind[CacheName(c)] = append(g.caches, b), b.All()
	}
	targets := []compile.Target{{Name: logitsTarget, Value: built.Logits}}
	g.prefill, err = m.compile(ctx, logitsTarget, 1, built.Graph, compile.Options{Label: "each", Targets: targets, Bind: bind})
	return g, err
}
