package timeline

import "time"

// Use is how the stages and links of a pipeline spent a stretch of time, in shares of it.
type Use struct {
	// Busy is the share in which a stage's device was at work, by stage.
	Busy []float64
	// Bubble is 1 - the mean of Busy.
	Bubble float64
	// Transfer is the share in which at least one link was carrying.
	Transfer float64
	// Hidden is the share of all transfer time that held nobody up: the receiving stage was at work, or did not yet wait for that very message.
	// A stage stands still for a transfer while its device has nothing to do and it waits for that link and microbatch. 1 where nothing was
	// carried.
	Hidden float64
	// Overlapped is the weaker figure: the share of all transfer time in which at least one of the two stages was at work.
	Overlapped float64
}

// MeasureUse computes the figures of the time from start to end. Spans may overlap, and reach beyond either end, where they are cut.
func MeasureUse(lanes Lanes, spans []Span, start, end time.Duration) Use {
	window := stretch{start, end}
	computing := make([]stretches, len(lanes.Stages))
	waiting := map[[2]int]stretches{} // by link and microbatch, of the receiving stage
	var carrying stretches
	for _, s := range spans {
		at := stretch{s.Start, s.End}.within(window)
		switch {
		case at.length() <= 0:
		case s.Kind == Compute:
			computing[s.Stage] = append(computing[s.Stage], at)
		case s.Kind == Transfer:
			carrying = append(carrying, at)
		case s.Link >= 0 && lanes.Links[s.Link].To == s.Stage:
			key := [2]int{s.Link, s.Microbatch}
			waiting[key] = append(waiting[key], at)
		}
	}
	u := Use{Busy: make([]float64, len(lanes.Stages)), Bubble: 1, Hidden: 1, Overlapped: 1}
	if window.length() <= 0 {
		return u
	}
	share := func(part time.Duration, whole time.Duration) float64 { return float64(part) / float64(whole) }
	for i, at := range computing {
		computing[i] = at.merged()
		u.Busy[i] = share(computing[i].length(), window.length())
		u.Bubble -= u.Busy[i] / float64(len(lanes.Stages))
	}
	u.Transfer = share(carrying.merged().length(), window.length())
	var all, exposed, overlapped time.Duration
	for _, s := range spans {
		at := stretch{s.Start, s.End}.within(window)
		if s.Kind != Transfer || at.length() <= 0 {
			continue
		}
		link := lanes.Links[s.Link]
		all += at.length()
		overlapped += append(computing[link.From].cut(at), computing[link.To].cut(at)...).merged().length()
		waits := waiting[[2]int{s.Link, s.Microbatch}].cut(at).merged()
		exposed += waits.length()
		for _, wait := range waits {
			exposed -= computing[link.To].cut(wait).length()
		}
	}
	if all > 0 {
		u.Hidden, u.Overlapped = 1-share(exposed, all), share(overlapped, all)
	}
	return u
}
