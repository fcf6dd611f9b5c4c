package mesh

import (
	"context"
	"encoding/json"
	"errors"

	"gputrain/internal/ranks/transport"
)

// Weight orders the reasons to end, where ranks have several: the heaviest is that of all.
type Weight int

// The weights.
const (
	GoOn  Weight = iota
	Stop         // wanted: what is reached is saved
	Sound        // an error that leaves the state sound, which can be saved
	Fatal        // any other
)

// PeerError is why another rank ends, and so this one.
type PeerError struct {
	Rank   int
	Host   string
	Text   string // what its error said
	Code   int    // its exit code
	Weight Weight
}

// Error names the rank and its host.
func (e *PeerError) Error() string {
	return transport.Name(e.Rank, e.Host) + ": " + e.Text
}

// Agree lets all ranks go on together, or end together: err is why this one ends, nil that it goes on, weight of what kind that is. It returns what all
// have given besides, in the order of their ranks, or why they end: err itself on the rank whose reason it is, a *PeerError on the others. Of several
// reasons it is the heaviest of the lowest rank. An error that another call has agreed on is returned at once.
func (m *Mesh) Agree(ctx context.Context, err error, weight Weight, own []byte) ([][]byte, error) {
	var peer *PeerError
	if errors.As(err, &peer) {
		return nil, err
	}
	return m.decide(ctx, err, weight, own)
}

// Settle is Agree where any error ends all ranks.
func (m *Mesh) Settle(ctx context.Context, err error, own []byte) ([][]byte, error) {
	return m.Agree(ctx, err, Fatal, own)
}

// Conclude is the last Agree of a run: also ranks that have agreed to stop may have met with an error since.
func (m *Mesh) Conclude(ctx context.Context, err error, weight Weight) error {
	_, last := m.decide(ctx, err, weight, nil)
	m.agreed = m.broken == nil
	var peer *PeerError
	if errors.As(last, &peer) && peer.Weight <= weight { // agreed on before
		return err
	}
	return last
}

func (m *Mesh) decide(ctx context.Context, err error, weight Weight, own []byte) ([][]byte, error) {
	if m.ended != nil || m.broken != nil {
		return nil, errors.Join(err, m.unsaid(err))
	}
	said := message{what: "agreement", payload: own}
	if err != nil {
		said = message{what: said.what, weight: weight, text: err.Error(), code: m.config.Code(err)}
	}
	all, other := m.meet(ctx, said)
	var peer *PeerError
	switch {
	case other == nil:
		return all, nil
	case errors.As(other, &peer) && peer.Rank == m.Rank():
		return nil, err
	case peer == nil: // the ranks could not be asked
		return nil, errors.Join(err, other)
	}
	return nil, other
}

// Fail ends all ranks with an error of this one that comes where they do not meet.
func (m *Mesh) Fail(err error) {
	if m.broken == nil {
		m.broken = err
	}
	m.ranks.Fail(err)
}

// FailRow is Fail where the other ranks of this replica are at the same call, if there are any. It returns the error.
func (m *Mesh) FailRow(err error) error {
	if err != nil && m.Spread() {
		m.Fail(err)
	}
	return err
}

// Tells tells whether it is for this rank to say why the run has ended: the first does for all, and any that has an error of its own which the others do
// not know.
func (m *Mesh) Tells(err error) bool {
	var noticed *transport.Error
	switch {
	case m.Rank() == 0:
		return true
	case m.agreed || m.ended != nil:
		return false
	}
	return !errors.As(err, &noticed) || noticed.By == m.Rank()
}

// unsaid is why the ranks end, where err does not say it.
func (m *Mesh) unsaid(err error) error {
	why := m.ended
	if why == nil {
		why = m.broken
	}
	var peer *PeerError
	if errors.Is(err, why) || err != nil && errors.As(why, &peer) && peer.Rank == m.Rank() {
		return nil
	}
	return why
}

// message is what a rank says where all meet.
type message struct {
	what    string // what they meet for
	payload []byte
	note    []byte
	weight  Weight // of why it ends
	text    string
	code    int
}

// heading is a message but for its payload.
type heading struct {
	What   string `json:"what"`
	Weight Weight `json:"weight,omitempty"`
	Text   string `json:"text,omitempty"`
	Code   int    `json:"code,omitempty"`
	Note   []byte `json:"note,omitempty"`
}

// bytes is the heading in JSON, a line, and the payload behind it.
func (m message) bytes() []byte {
	raw, err := json.Marshal(heading{m.what, m.weight, m.text, m.code, m.note})
	if err != nil {
		panic(err) // words and numbers
	}
	return append(append(raw, '\n'), m.payload...)
}

func parse(raw []byte) (message, error) {
	for i, b := range raw {
		if b != '\n' {
			continue
		}
		var h heading
		if err := json.Unmarshal(raw[:i], &h); err != nil {
			return message{}, err
		}
		return message{h.What, raw[i+1:], h.Note, h.Weight, h.Text, h.Code}, nil
	}
	return message{}, errors.New("found a message without a heading, wanted one of this program")
}

// worstOf is the rank with the heaviest reason to end; -1 where there is none.
func worstOf(all []message) int {
	worst := -1
	for rank, m := range all {
		if m.weight > GoOn && (worst < 0 || m.weight > all[worst].weight) {
			worst = rank
		}
	}
	return worst
}
