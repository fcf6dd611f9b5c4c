// Package transporttest is the contract of transport.Ranks as programs, which every rank runs, whatever carries the bytes.
package transporttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gputrain/internal/ranks/transport"
)

// Case is a part of the contract.
type Case struct {
	Name string
	// Run is what each of Ranks ranks does. It returns what differs from the contract.
	Run func(ctx context.Context, r transport.Ranks) error
	// Fatal is a case after which the ranks are of no use.
	Fatal bool
}

// Ranks is how many ranks the cases are made for.
const Ranks = 3

// Brief is the deadline of calls that wait in vain.
const Brief = 300 * time.Millisecond

// errOwn is an error of the program's own.
var errOwn = errors.New("the disk is full")

// Cases are all parts of the contract. Of a fatal one no rank waits longer than Brief and what the implementation takes to tell whom it waits for.
func Cases() []Case {
	cases := []Case{
		{Name: "names", Run: names},
		{Name: "order by tag", Run: orderByTag},
		{Name: "empty messages", Run: empty},
		{Name: "messages larger than a piece", Run: large},
		{Name: "concurrent sends by tag", Run: concurrent},
		{Name: "gather of unequal lengths", Run: gather},
		{Name: "gather waits for all", Run: waits},
		{Name: "others are reached at work", Run: reached},
		{Name: "messages beside a call of all", Run: beside},
		{Name: "buffers may be reused", Run: reused},
		{Name: "arguments", Run: arguments},
		{Name: "message of another length", Run: otherLength, Fatal: true},
		{Name: "the context is cancelled", Run: cancelled, Fatal: true},
	}
	for _, operation := range slices.Sorted(maps.Keys(calls)) { // each process makes the cases in one order
		call := calls[operation]
		cases = append(cases,
			Case{Name: operation + ": context ends", Run: inVain(operation, call), Fatal: true},
			Case{Name: operation + ": a rank has left", Run: left(operation, call), Fatal: true},
			Case{Name: operation + ": a rank has failed", Run: failed(operation, call), Fatal: true})
	}
	return cases
}

// calls wait for rank 1. What is sent is too large to be kept on the way.
var calls = map[string]func(context.Context, transport.Ranks) error{
	"send":    func(ctx context.Context, r transport.Ranks) error { return r.Send(ctx, 1, 0, make([]byte, 24<<20)) },
	"receive": func(ctx context.Context, r transport.Ranks) error { return r.Receive(ctx, 1, 0, make([]byte, 8)) },
	"gather":  meet,
}

func names(_ context.Context, r transport.Ranks) error {
	if r.Size() != Ranks || r.Rank() < 0 || r.Rank() >= Ranks {
		return fmt.Errorf("rank %d of %d", r.Rank(), r.Size())
	}
	for i := range Ranks {
		if r.Host(i) == "" {
			return fmt.Errorf("rank %d has no host", i)
		}
	}
	return nil
}

// Every rank sends to the next, first of one tag and then of the other; the other is asked for first.
func orderByTag(ctx context.Context, r transport.Ranks) error {
	next, last := around(r)
	return both(
		func() error {
			return both(
				func() error { return sendAll(ctx, r, next, 3, "a", "b", "c") },
				func() error { return sendAll(ctx, r, next, transport.MaxTag, "x", "y", "z") })
		},
		func() error {
			return errors.Join(expect(ctx, r, last, transport.MaxTag, "x"), expect(ctx, r, last, 3, "a"), expect(ctx, r, last, 3, "b"),
				expect(ctx, r, last, transport.MaxTag, "y"), expect(ctx, r, last, transport.MaxTag, "z"), expect(ctx, r, last, 3, "c"))
		})
}

func empty(ctx context.Context, r transport.Ranks) error {
	next, last := around(r)
	err := both(func() error { return sendAll(ctx, r, next, 1, "", "after", "") },
		func() error {
			return errors.Join(expect(ctx, r, last, 1, ""), expect(ctx, r, last, 1, "after"), expect(ctx, r, last, 1, ""))
		})
	all, gatherErr := r.Gather(ctx, nil)
	if gatherErr == nil && (len(all) != Ranks || len(bytes.Join(all, nil)) != 0) {
		gatherErr = fmt.Errorf("gather of nothing gave %v", all)
	}
	return errors.Join(err, gatherErr)
}

// sizes are about the pieces that a message is cut into, of any power of two from 2^16 to 2^22.
var sizes = []int{1, 1 << 16, 1<<20 - 8, 1<<20 + 1, 9<<20 + 5}

func large(ctx context.Context, r transport.Ranks) error {
	next, last := around(r)
	for _, n := range sizes {
		found := make([]byte, n)
		err := both(func() error { return r.Send(ctx, next, 0, pattern(n, r.Rank())) },
			func() error { return r.Receive(ctx, last, 0, found) })
		if err == nil && !bytes.Equal(found, pattern(n, last)) {
			err = fmt.Errorf("%d bytes of rank %d differ", n, last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func concurrent(ctx context.Context, r transport.Ranks) error {
	next, last := around(r)
	var group []func() error
	for tag := range transport.Tag(16) {
		n := 1 << (tag + 5)
		group = append(group,
			func() error { return r.Send(ctx, next, tag, pattern(n, int(tag)+r.Rank())) },
			func() error { return expect(ctx, r, last, tag, string(pattern(n, int(tag)+last))) })
	}
	return both(group...)
}

func gather(ctx context.Context, r transport.Ranks) error {
	for _, n := range []int{0, 1, 1000, 1 << 20, 3 << 20} {
		length := func(rank int) int { return n * rank }
		all, err := r.Gather(ctx, pattern(length(r.Rank()), r.Rank()))
		if err != nil {
			return err
		}
		if len(all) != Ranks {
			return fmt.Errorf("gathered of %d ranks", len(all))
		}
		for i, b := range all {
			if !bytes.Equal(b, pattern(length(i), i)) {
				return fmt.Errorf("%d bytes of rank %d differ: %d", length(i), i, len(b))
			}
			clear(b) // it is this rank's to keep
		}
	}
	return nil
}

// Nobody has the second gathering before rank 0, which is late.
func waits(ctx context.Context, r transport.Ranks) error {
	if err := meet(ctx, r); err != nil {
		return err
	}
	began := time.Now()
	if r.Rank() == 0 {
		time.Sleep(50 * time.Millisecond)
	}
	if err := meet(ctx, r); err != nil {
		return err
	}
	if r.Rank() == 0 && time.Since(began) < 50*time.Millisecond {
		return errors.New("gather did not wait")
	}
	all, err := r.Gather(ctx, fmt.Append(nil, time.Since(began).Milliseconds()))
	if err != nil {
		return err
	}
	for i, b := range all {
		var ms int
		if _, err := fmt.Sscan(string(b), &ms); err != nil || ms < 20 { // the first lets ranks go at times of their own
			return fmt.Errorf("rank %d was through after %s ms, before rank 0 came", i, b)
		}
	}
	return nil
}

func beside(ctx context.Context, r transport.Ranks) error {
	next, last := around(r)
	return both(
		func() error { return sendAll(ctx, r, next, 5, string(pattern(2<<20, 1)), "end") },
		func() error {
			return errors.Join(expect(ctx, r, last, 5, string(pattern(2<<20, 1))), expect(ctx, r, last, 5, "end"))
		},
		func() error { return gather(ctx, r) })
}

func reused(ctx context.Context, r transport.Ranks) error {
	next, last := around(r)
	return both(
		func() error {
			b := make([]byte, 4096)
			for i := range 20 {
				copy(b, pattern(len(b), i))
				if err := r.Send(ctx, next, 2, b); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			for i := range 20 {
				if err := expect(ctx, r, last, 2, string(pattern(4096, i))); err != nil {
					return err
				}
			}
			return nil
		})
}

// Calls that cannot be made are refused, and do not end the others.
func arguments(ctx context.Context, r transport.Ranks) error {
	for _, err := range []error{
		r.Send(ctx, Ranks, 0, nil), r.Send(ctx, -1, 0, nil), r.Send(ctx, r.Rank(), 0, nil), r.Receive(ctx, Ranks, 0, nil),
		r.Send(ctx, (r.Rank()+1)%Ranks, -1, nil), r.Receive(ctx, (r.Rank()+1)%Ranks, transport.MaxTag+1, nil),
	} {
		if err == nil {
			return errors.New("an argument out of range is taken")
		}
	}
	return meet(ctx, r)
}

func otherLength(ctx context.Context, r transport.Ranks) error {
	switch r.Rank() {
	case 0:
		return refused(r, r.Receive(ctx, 1, 0, make([]byte, 8)), "receive", 1, "found a message of 12 bytes, wanted 8")
	case 1:
		_ = r.Send(ctx, 0, 0, make([]byte, 12)) // who is done with sending does not know
	}
	return refused(r, meet(ctx, r), "gather", 1, "found a message of 12 bytes, wanted 8")
}

func cancelled(ctx context.Context, r transport.Ranks) error {
	if r.Rank() != 2 {
		return refused(r, r.Receive(ctx, 1-r.Rank(), 9, make([]byte, 1)), "receive", 2, context.Canceled.Error())
	}
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(Brief, cancel)
	_, err := r.Gather(ctx, nil)
	if !errors.Is(err, context.Canceled) {
		return fmt.Errorf("cancelled, but %w", err)
	}
	return refused(r, err, "gather", 2, context.Canceled.Error())
}

// inVain: rank 1 does not come. Whom the others blame, it knows too.
func inVain(operation string, call func(context.Context, transport.Ranks) error) func(context.Context, transport.Ranks) error {
	return func(ctx context.Context, r transport.Ranks) error {
		if r.Rank() == 1 {
			time.Sleep(2 * Brief)
			var err error
			for err == nil && ctx.Err() == nil { // until the others have told
				err = r.Receive(ctx, 0, 7, make([]byte, 1))
			}
			return refused(r, err, "receive", 1, context.DeadlineExceeded.Error())
		}
		brief, cancel := context.WithTimeout(ctx, Brief)
		defer cancel()
		err := call(brief, r)
		return errors.Join(refused(r, err, operation, 1, context.DeadlineExceeded.Error()),
			refused(r, meet(ctx, r), "gather", 1, context.DeadlineExceeded.Error()))
	}
}

func left(operation string, call func(context.Context, transport.Ranks) error) func(context.Context, transport.Ranks) error {
	return func(ctx context.Context, r transport.Ranks) error {
		if r.Rank() == 1 {
			_ = r.Close()
			if err := meet(ctx, r); err == nil {
				return errors.New("a rank that has closed is served")
			}
			return nil
		}
		return errors.Join(refused(r, call(ctx, r), operation, 1, transport.ErrLeft.Error()), refused(r, meet(ctx, r), "gather", 1, transport.ErrLeft.Error()))
	}
}

func failed(operation string, call func(context.Context, transport.Ranks) error) func(context.Context, transport.Ranks) error {
	return func(ctx context.Context, r transport.Ranks) error {
		if r.Rank() == 1 {
			time.Sleep(Brief / 10)
			r.Fail(errOwn)
			return refused(r, meet(ctx, r), "gather", 1, errOwn.Error())
		}
		return errors.Join(refused(r, call(ctx, r), operation, 1, errOwn.Error()), refused(r, meet(ctx, r), "gather", 1, errOwn.Error()))
	}
}

// meet is a call of all ranks that gives nothing.
func meet(ctx context.Context, r transport.Ranks) error {
	_, err := r.Gather(ctx, nil)
	return err
}

// refused checks an error that all are to have: the operation, whom it blames, where that one runs, and why. Any rank will do where blamed is negative.
func refused(r transport.Ranks, err error, operation string, blamed int, why string) error {
	var e *transport.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: found error %w, wanted one that blames rank %d", operation, err, blamed)
	}
	if blamed < 0 {
		blamed = e.Rank
	}
	want := fmt.Sprintf("transport: %s: rank %d (%s): ", operation, blamed, r.Host(blamed))
	if e.Rank != blamed || !strings.HasPrefix(e.Error(), want) || !strings.Contains(e.Error(), why) {
		return fmt.Errorf("found %q, wanted %q and %q", e, want, why)
	}
	return nil
}

func around(r transport.Ranks) (next, last int) {
	return (r.Rank() + 1) % r.Size(), (r.Rank() + r.Size() - 1) % r.Size()
}

func sendAll(ctx context.Context, r transport.Ranks, to int, tag transport.Tag, messages ...string) error {
	for _, m := range messages {
		if err := r.Send(ctx, to, tag, []byte(m)); err != nil {
			return err
		}
	}
	return nil
}

func expect(ctx context.Context, r transport.Ranks, from int, tag transport.Tag, want string) error {
	b := make([]byte, len(want))
	if err := r.Receive(ctx, from, tag, b); err != nil {
		return err
	}
	if string(b) != want {
		return fmt.Errorf("tag %d of rank %d: found %.20q, wanted %.20q", tag, from, b, want)
	}
	return nil
}

// pattern is n bytes that differ by place and seed.
func pattern(n, seed int) []byte {
	b := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(i+seed+1)*0x9e3779b97f4a7c15)
	}
	return b[:n]
}

func both(do ...func() error) error {
	errs := make([]error, len(do))
	var group sync.WaitGroup
	for i, f := range do {
		group.Go(func() { errs[i] = f() })
	}
	group.Wait()
	return errors.Join(errs...)
}

// reached: others answer in a call and in none, and what they are at is not disturbed.
func reached(ctx context.Context, r transport.Ranks) error {
	if r.Rank() == Ranks-1 {
		time.Sleep(Brief / 3)
	} else if err := r.Reach(ctx); err != nil {
		return fmt.Errorf("reach: %w", err)
	}
	return gather(ctx, r)
}
