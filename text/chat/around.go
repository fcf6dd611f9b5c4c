package chat

import "slices"

// Around is what is to be put in front of tokens and behind them, so that before and behind stand there once: a text may have been written with them.
func Around(tokens, before, behind []int32) (front, back []int32) {
	there := 0
	for n := min(len(before), len(tokens)); n > 0 && there == 0; n-- {
		if slices.Equal(tokens[:n], before[len(before)-n:]) {
			there = n
		}
	}
	front, there = before[:len(before)-there], 0
	for n := min(len(behind), len(tokens)); n > 0 && there == 0; n-- {
		if slices.Equal(tokens[len(tokens)-n:], behind[:n]) {
			there = n
		}
	}
	return front, behind[there:]
}
