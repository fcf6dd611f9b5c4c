//go:build unix

package mpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gputrain/internal/ranks/transport"
)

// note is what ranks say to each other beside messages.
type note struct {
	Failed *failure `json:",omitempty"` // to all: every call fails
	Ask    bool     `json:",omitempty"` // where the other is
	Where  *where   `json:",omitempty"` // the answer
	Bye    *int     `json:",omitempty"` // to rank 0: it closes, and has come to so many calls of all ranks
	Left   *leaver  `json:",omitempty"` // to all: rank 0 knows of one that closes alone
	Closed bool     `json:",omitempty"` // to all: every rank closes
}

// failure is an Error on its way.
type failure struct {
	Operation string
	Rank, By  int
	Err       string
}

// where a rank is.
type where struct {
	Operation string // empty: in no call
	Awaits    int
	Number    int // of the call of all ranks it is in
	Entered   int
}

type leaver struct{ Rank, Entered int }

// controlBytes are the most of a note; a longer error is cut.
const controlBytes = 8 << 10

// post sends a note, and waits a while until it is on its way.
func (r *ranks) post(n note, to ...int) {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // plain values
	}
	m := allocate(controlBytes)
	size := copy(m.bytes(), b)
	var sent []<-chan ended
	for _, rank := range to {
		if rank != r.rank {
			sent = append(sent, r.engine.send(r.control, m, size, rank, 0))
		}
	}
	late := time.After(postPatience)
	for _, over := range sent {
		select {
		case <-over:
		case <-late:
			return // the library may still read it
		}
	}
	m.free()
}

// postPatience is how long a note may take to leave: to a rank that is gone it never does.
const postPatience = time.Second

// others are all ranks but this one.
func (r *ranks) others() []int {
	var others []int
	for i := range r.size {
		if i != r.rank {
			others = append(others, i)
		}
	}
	return others
}

// listen reads the notes of others, for ever.
func (r *ranks) listen() {
	m := allocate(controlBytes)
	for {
		e := <-r.engine.receive(r.control, m, -1, 0)
		var n note
		err := e.err
		if err == nil {
			err = json.Unmarshal(m.bytes()[:e.count], &n)
		}
		if err != nil {
			r.set(r.blame("listen", r.rank, err))
			return
		}
		r.hear(e.source, n)
	}
}

func (r *ranks) hear(from int, n note) {
	switch {
	case n.Failed != nil:
		f := n.Failed
		r.set(&transport.Error{Operation: f.Operation, Rank: f.Rank, Host: r.hosts[f.Rank], By: f.By, Err: errors.New(f.Err)})
	case n.Ask:
		here := r.here()
		go r.post(note{Where: &here}, from)
	case n.Where != nil:
		r.mu.Lock()
		if r.answers != nil {
			r.answers[from] = *n.Where
		}
		r.mu.Unlock()
	case n.Bye != nil:
		r.bye(from, *n.Bye)
	case n.Left != nil:
		r.setLeft(*n.Left)
	case n.Closed:
		close(r.closed)
	}
}

// tell says to all others why calls fail.
func (r *ranks) tell(e *transport.Error) {
	why := e.Err.Error()
	why = why[:min(len(why), controlBytes/8)] // JSON may write a byte as six
	r.post(note{Failed: &failure{e.Operation, e.Rank, e.By, why}}, r.others()...)
}

// here is where this rank is.
func (r *ranks) here() where {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := where{Awaits: r.rank, Entered: r.entered}
	if len(r.calls) > 0 {
		c := r.calls[0]
		w.Operation, w.Awaits, w.Number = c.operation, c.awaits, c.number
	}
	return w
}

// answerPatience is how long another rank may take to say where it is.
const answerPatience = 2 * time.Second

// late is the error of a call whose context has ended. A deadline blames whoever keeps the others waiting.
func (r *ranks) late(ctx context.Context, c *call) error {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return r.fail(c, r.rank, fmt.Errorf("it no longer waits: %w", context.Cause(ctx)))
	}
	answers, err := r.askAll()
	if err != nil {
		return err.During(c.operation)
	}
	culprit, is := r.culprit(c, answers)
	return r.fail(c, culprit, fmt.Errorf("%s: %w", is, context.Cause(ctx)))
}

// askAll asks all others where they are. Those who do not answer in time are not in the answers.
func (r *ranks) askAll() (map[int]where, *transport.Error) {
	r.mu.Lock()
	r.answers = map[int]where{}
	r.mu.Unlock()
	go r.post(note{Ask: true}, r.others()...)
	late := time.After(answerPatience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		answers := make(map[int]where, len(r.answers))
		for rank, w := range r.answers {
			answers[rank] = w
		}
		r.mu.Unlock()
		if len(answers) == r.size-1 {
			return answers, nil
		}
		select {
		case <-r.failed: // another has found out
			return nil, r.failure
		case <-late:
			return answers, nil
		case <-tick.C:
		}
	}
}

// Reach asks where all others are.
func (r *ranks) Reach(context.Context) error {
	answers, err := r.askAll()
	if err != nil {
		return err
	}
	for _, rank := range r.others() {
		if _, answered := answers[rank]; !answered {
			return r.blame("reach", rank, errors.New("it does not answer"))
		}
	}
	return nil
}

// culprit follows who waits for whom, from a call of this rank on, and says what the last one does.
func (r *ranks) culprit(c *call, answers map[int]where) (int, string) {
	at := where{c.operation, c.awaits, c.number, r.entered}
	first := -1
	for seen := map[int]bool{r.rank: true}; ; {
		next := at.Awaits
		if next == all {
			next = r.behind(at, answers)
		}
		if first < 0 {
			first = next
		}
		w, answered := answers[next]
		switch {
		case next < 0: // all have come
			return r.rank, "all ranks have come, but what they sent is not there"
		case next == r.rank || seen[next]: // they wait for each other
			if first == r.rank {
				return first, "ranks wait for each other"
			}
			return first, describe(answers[first])
		case !answered:
			return next, "it does not answer"
		case w.Operation == "":
			return next, describe(w)
		}
		seen[next], at = true, w
	}
}

func describe(w where) string {
	switch {
	case w.Operation == "":
		return "it was waited for in vain, and is in no call"
	case w.Awaits == all:
		return fmt.Sprintf("it was waited for in vain, and is in %s, call %d of all ranks", w.Operation, w.Number)
	}
	return fmt.Sprintf("it was waited for in vain, and is in %s with rank %d", w.Operation, w.Awaits)
}

// behind is a rank that has not come to a call of all ranks: first those that do not answer. It is negative where all have come.
func (r *ranks) behind(at where, answers map[int]where) int {
	for _, rank := range r.others() {
		if _, answered := answers[rank]; !answered {
			return rank
		}
	}
	for _, rank := range r.others() {
		if answers[rank].Entered < at.Number {
			return rank
		}
	}
	return -1
}
