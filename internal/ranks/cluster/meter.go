package cluster

import (
	"encoding/binary"
	"sync"
	"time"
)

// Use is how a rank has spent its time on the sums of a step, and what has travelled.
type Use struct {
	Passes   time.Duration // from when all ranks had come together until its passes were done
	Sum      time.Duration // all of Sum, and so the passes
	Transfer time.Duration // in which something was under way between ranks, waits for slower ranks included
	// Hidden is that part of Transfer in which the device was still at its gradients, or these on their way from it or to it.
	Hidden         time.Duration
	Sent, Received uint64 // bytes of gradients
}

func (u Use) bytes() []byte {
	out, _ := binary.Append(nil, binary.LittleEndian, u) // whole numbers
	return out
}

// useOf is the Use of a message; none is that of no sum.
func useOf(raw []byte) (u Use) {
	_, _ = binary.Decode(raw, binary.LittleEndian, &u)
	return u
}

// meter adds up how long the network was in use, and how long beside the device.
type meter struct {
	mu               sync.Mutex
	at               time.Time
	wires, devices   int // calls under way
	transfer, hidden time.Duration
}

// pass counts the time since the last change. The caller holds mu.
func (m *meter) pass() {
	now := time.Now()
	if m.wires > 0 {
		m.transfer += now.Sub(m.at)
		if m.devices > 0 {
			m.hidden += now.Sub(m.at)
		}
	}
	m.at = now
}

// during counts f as a call of one of the two.
func (m *meter) during(calls *int, f func() error) error {
	add := func(n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.pass()
		*calls += n
	}
	add(1)
	defer add(-1)
	return f()
}

// wire counts f as one of the network.
func (m *meter) wire(f func() error) error { return m.during(&m.wires, f) }

// device counts f as one of the device.
func (m *meter) device(f func() error) error { return m.during(&m.devices, f) }
