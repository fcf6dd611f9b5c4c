package pipeline

import (
	"context"
	"errors"
	"fmt"

	"gputrain/graph"
	"gputrain/state"
)

// Window is the number of tokens that the model sees at most.
func (s *State) Window() int { return s.config.State.Sequence }

// Logits gives the logits of the token that follows a window of 1 to Window tokens, with which Decode goes on; see state.Model.
func (s *State) Logits(ctx context.Context, window []int32) ([]float32, error) {
	logits, err := s.logits(context.WithoutCancel(ctx), window)
	if err != nil {
		return nil, fmt.Errorf("pipeline: logits: %w", err)
	}
	return logits, nil
}

func (s *State) logits(ctx context.Context, window []int32) (logits []float32, err error) {
	if s.prefill == nil {
		return nil, errors.New("the configuration has no sampling")
	}
	if len(window) < 1 || len(window) > s.Window() {
		return nil, fmt.Errorf("window: %d tokens, want 1 to %d", len(window), s.Window())
	}
	if err := s.config.known(window); err != nil {
		return nil, err
	}
	s.held = 0
	for _, p := range state.Pieces(window, state.PrefillRows(s.Window())) {
		if logits, err = s.take(ctx, s.prefill, p); err != nil {
			return nil, err
		}
	}
	s.held = len(window)
	return logits, nil
}

// Decode appends a token to the window that Logits began and gives the logits of the next one; see state.Model.
func (s *State) Decode(ctx context.Context, token int32) ([]float32, error) {
	logits, err := s.decodeToken(context.WithoutCancel(ctx), token)
	if err != nil {
		return nil, fmt.Errorf("pipeline: decode: %w", err)
	}
	return logits, nil
}

func (s *State) decodeToken(ctx context.Context, token int32) ([]float32, error) {
	switch {
	case s.held == 0:
		return nil, state.ErrNoWindow
	case s.held == s.Window():
		return nil, fmt.Errorf("window: full with %d tokens", s.held)
	}
	if err := s.config.known([]int32{token}); err != nil {
		return nil, err
	}
	logits, err := s.take(ctx, s.decode, state.OneToken(token, s.held))
	if err == nil {
		s.held++
	}
	return logits, err
}

// take takes a piece of a window through a line and reads the logits.
func (s *State) take(ctx context.Context, l *line, p state.Piece) ([]float32, error) {
	if err := s.pass(ctx, l, l.schedule, func(to *graph.Program, _ int) error { return p.Write(to) }); err != nil {
		return nil, err
	}
	raw := make([]byte, l.results[0].buffer.Bytes())
	if err := s.last.device.Read(ctx, raw, l.results[0].buffer.All()); err != nil {
		return nil, s.last.failed("logits", err)
	}
	return state.FloatsOf(raw[:4*s.config.State.Definition.Vocab()]), nil
}
