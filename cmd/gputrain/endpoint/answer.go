package endpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"gputrain/internal/caught"
	"gputrain/run/rollout"
)

// errLate says that a request has waited for too long.
var errLate = errors.New("no token came in time")

// errEnding says that the server ends.
var errEnding = errors.New("the endpoint ends")

// An answer is what is drawn for a request.
type answer struct {
	*asked
	head map[string]any // of every object
	to   *events        // nil: nothing is told before all is there

	mu      sync.Mutex
	choices []any
	drawn   int // tokens
}

// answer draws what was asked for, and writes it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a *asked) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	patience := time.AfterFunc(s.Patience, func() { cancel(errLate) })
	defer patience.Stop()
	began := time.Now()
	all := &answer{
		asked: a, choices: make([]any, len(a.prompts)*a.n),
		head: map[string]any{"id": a.id + strings.ToLower(rand.Text()), "created": began.Unix(), "model": a.model.Name},
	}
	if a.stream {
		all.to = &events{w: w}
	}
	var choices sync.WaitGroup
	for number := range all.choices {
		choices.Go(func() {
			err := caught.Do(func() error { return all.draw(ctx, number, sync.OnceFunc(func() { patience.Stop() })) })
			if err != nil {
				cancel(err)
			}
		})
	}
	choices.Wait()
	err := context.Cause(ctx)
	switch {
	case err == nil && all.to == nil:
		writeJSON(w, http.StatusOK, all.object(a.whole, all.choices, all.usage()))
	case err == nil:
		all.finish()
	case all.to != nil && all.to.begun:
		_ = all.to.send(s.problemOf(err)) // the caller may have gone
	default:
		s.problemOf(err).answer(w)
	}
	slog.Debug("endpoint: answered", "model", a.model.Name, "choices", len(all.choices), "tokens", all.drawn, "seconds", time.Since(began).Seconds(), "error", err)
}

// problemOf is why an answer has ended.
func (s *Server) problemOf(err error) *problem {
	switch bug, isBug := errors.AsType[*caught.Panic](err); {
	case isBug:
		s.Say("gputrain: endpoint: %v\n%s\n", bug, bug.Stack)
		return &problem{status: http.StatusInternalServerError, why: bug.Error()}
	case errors.Is(err, rollout.ErrBusy):
		return busy(s.Waiting)
	case errors.Is(err, errLate):
		return later(http.StatusServiceUnavailable, "timeout", fmt.Sprintf("%v: wanted one within %v", errLate, s.Patience))
	case errors.Is(err, errEnding):
		return later(http.StatusServiceUnavailable, "ending", errEnding.Error())
	}
	return &problem{status: http.StatusInternalServerError, why: err.Error()}
}

func busy(waiting int) *problem {
	return later(http.StatusTooManyRequests, codeBusy, fmt.Sprintf("as many requests wait already as may (%d): ask again later", waiting))
}

// draw draws a choice. begun is called at its first token.
func (all *answer) draw(ctx context.Context, number int, begun func()) error {
	r := all.asked.draw
	prompt := number / all.n
	r.Prompt, r.Number, r.Sample = all.prompts[prompt], uint64(prompt), number%all.n
	speech := all.model.speech(r.Prompt, all.asked)
	var text strings.Builder
	first, drawn := all.begins, 0
	tell := func(more string) error {
		switch {
		case all.to == nil:
			text.WriteString(more)
			return nil
		case more == "" && !first:
			return nil
		}
		if first {
			first = false
			if err := all.event(all.choice(number, "", false, true, nil, false, nil)); err != nil {
				return err
			}
		}
		if more == "" {
			return nil
		}
		return all.event(all.choice(number, more, false, false, speech.given(), all.logProbs, nil))
	}
	done, err := all.model.Completer.Complete(ctx, r, func(t rollout.Token) error {
		begun()
		drawn++
		return tell(speech.next(t))
	})
	if err != nil {
		return err
	}
	if err := tell(speech.end()); err != nil {
		return err
	}
	why := "stop"
	if done.Truncated && !speech.cut {
		why = "length"
	}
	all.mu.Lock()
	all.drawn += drawn
	all.choices[number] = all.choice(number, text.String(), all.to == nil, false, speech.given(), all.logProbs, why)
	last := all.choices[number]
	all.mu.Unlock()
	if all.to != nil {
		return all.event(last)
	}
	return nil
}

// object is the whole, or a part of a stream. usage of nil is left out.
func (all *answer) object(name string, choices []any, usage any) map[string]any {
	o := map[string]any{"object": name, "choices": choices}
	for key, value := range all.head {
		o[key] = value
	}
	if usage != nil {
		o["usage"] = usage
	}
	return o
}

// null is a value that is there, and none.
type null struct{}

func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// event tells of a choice.
func (all *answer) event(choice any) error {
	var usage any
	if all.asked.usage {
		usage = null{}
	}
	return all.to.send(all.object(all.part, []any{choice}, usage))
}

// usage counts the tokens of each prompt once, and those of completions with the one that has ended each.
func (all *answer) usage() any {
	prompts := 0
	for _, p := range all.prompts {
		prompts += len(p)
	}
	return map[string]int{"prompt_tokens": prompts, "completion_tokens": all.drawn, "total_tokens": prompts + all.drawn}
}

// finish ends a stream. Its reader may have gone.
func (all *answer) finish() {
	if all.asked.usage {
		_ = all.to.send(all.object(all.part, []any{}, all.usage()))
	}
	_ = all.to.write("[DONE]")
}

// events are what a stream consists of.
type events struct {
	w     http.ResponseWriter
	mu    sync.Mutex
	begun bool
}

func (e *events) send(object any) error { return e.write(string(encoded(object))) }

func (e *events) write(data string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies would keep what is to be seen at once
	}
	if _, err := fmt.Fprintf(e.w, "data: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}
