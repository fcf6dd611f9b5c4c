package train

// What tests in package train_test share with those here.
var (
	TinyRun   = tinyRun
	TwoStages = twoStages
	StopAt    = stopAt
	OutcomeOf = outcomeOf
)
