package train

import "gputrain/state"

// pairFigures are what the pairs of a step or an evaluation come to, by name; nil without an objective on pairs.
func pairFigures(c state.Config, m state.PairMetrics) map[string]Number {
	if c.Preference == nil {
		return nil
	}
	return map[string]Number{
		"rewards_chosen": Number(m.RewardsChosen), "rewards_rejected": Number(m.RewardsRejected), "margin": Number(m.Margin()),
		"accuracy": Number(m.Accuracy), "logps_chosen": Number(m.LogPsChosen), "logps_rejected": Number(m.LogPsRejected),
	}
}
