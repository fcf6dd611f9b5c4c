package grpo

// Evaluations is added to the numbers of generations that evaluations draw, which keeps their random numbers apart from those of training.
const Evaluations = 1 << 63

// Evaluating is c as evaluations draw: EvalSamples completions of each prompt as Samples, or one of the likeliest tokens.
func (c Config) Evaluating() Config {
	if c.Samples = c.EvalSamples; c.Samples == 0 {
		c.Samples, c.Drawing.Temperature = 1, 0
	}
	return c
}

// Worth is what completions that nobody learns from are worth: the mean reward, NaN where there is none, and the figures that are not of groups.
func (c Config) Worth(rows []Row) (reward float64, figures map[string]float64, err error) {
	a, err := c.Means(rows)
	if err != nil {
		return 0, nil, err
	}
	figures = c.Figures(rows, a, false)
	delete(figures, "zero_std_share")
	delete(figures, "unrewarded_share")
	return a.Reward, figures, nil
}
