package model

import "math/bits"

// leastWindow is how many positions a text may have without a thought: its keys and values take little memory.
const leastWindow = 1024

// Window is how many positions a network is made for that sees a text of so many tokens: a power of two from 1024 on, at most its context. With
// longrope a text that is no longer than the model began with has the frequencies of that, as a network for longer ones has not.
func Window(def Definition, tokens int) int {
	def = Student(def)
	if q, ok := def.(quantized); ok {
		def = q.Definition
	}
	window := min(def.Context(), max(leastWindow, 1<<bits.Len(uint(max(tokens, 1)-1))))
	if d, ok := def.(decoder); ok {
		for _, layer := range d.layers {
			if r := layer.rotation; r != nil && r.rule == "longrope" && tokens <= int(r.began) {
				window = min(window, int(r.began))
			}
		}
	}
	return window
}
