package state

import (
	"sync"

	"gputrain/buffers"
	"gputrain/model"
)

// toldBytes is from how many bytes on the progress of loading parameters is told.
const toldBytes = 256 << 20

// Told are parameters, nil drawn from Seed, that tell Progress how much of them has been read or drawn, where they are large and yet to be.
func (j Job) Told(params []buffers.Host) []buffers.Host {
	return j.told(params, toldBytes)
}

func (j Job) told(params []buffers.Host, from int) []buffers.Host {
	phase := "load parameters, MiB"
	if params == nil {
		phase, params = "draw parameters, MiB", model.Drawn(j.Definition, j.Seed)
	}
	total, done := 0, 0
	for _, h := range params {
		if h.Read != nil {
			total += 4 * h.Elements()
		}
	}
	if total < from {
		return params
	}
	var mu sync.Mutex
	var out []buffers.Host
	for _, h := range params {
		if read := h.Read; read != nil {
			h.Read = func(dst []float32, first int) error {
				err := read(dst, first)
				mu.Lock()
				defer mu.Unlock()
				before := done >> 20
				done = min(total, done+4*len(dst)) // stages may share a parameter
				if now := done >> 20; now > before {
					j.Progress(phase, now, total>>20)
				}
				return err
			}
		}
		out = append(out, h)
	}
	return out
}
