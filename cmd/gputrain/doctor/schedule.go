package doctor

import (
	"fmt"
	"math"

	"gputrain/optim"
)

// runSchedule evaluates schedules at update indices, in eformer numerics.
func runSchedule(c *goldenCase) (*comparison, error) {
	var file struct {
		Schedules []struct {
			Schedule  optim.ScheduleConfig `json:"schedule"`
			At        []int64              `json:"at"`
			LR        []float64            `json:"lr"`
			Tolerance tolerance            `json:"tolerance"`
		} `json:"schedules"`
	}
	if err := c.decode(&file); err != nil {
		return nil, err
	}
	seen := &comparison{}
	for i, s := range file.Schedules {
		schedule, err := s.Schedule.Build(optim.EFormer)
		if err != nil {
			return nil, err
		}
		if len(s.At) != len(s.LR) {
			return nil, fmt.Errorf("schedules[%d]: %d rates at %d updates", i, len(s.LR), len(s.At))
		}
		for k, at := range s.At {
			where := fmt.Sprintf("schedules[%d] %s update %d", i, s.Schedule.Type, at)
			seen.number(where, schedule(at), s.LR[k], s.Tolerance.ATol+s.Tolerance.RTol*math.Abs(s.LR[k]))
		}
	}
	return seen, nil
}
