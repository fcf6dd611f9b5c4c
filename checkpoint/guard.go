package checkpoint

// Guard is what a loop that leaves out updates beyond the usual remembers of the steps whose update was made, oldest first. What it
// does not look at has no numbers.
type Guard struct {
	Steps      []int64   `json:"steps,omitempty"`
	Loss       []float64 `json:"loss,omitempty"`
	GradNorm   []float64 `json:"grad_norm,omitempty"`
	UpdateNorm []float64 `json:"update_norm,omitempty"`
	InARow     int64     `json:"in_a_row,omitempty"` // updates left out in a row up to this step
	Spikes     int64     `json:"spikes,omitempty"`   // updates left out so far
}
