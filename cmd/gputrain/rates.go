package main

// defaultRates are the peak learning rates with which optimizers begin where nothing else is said, for the built-in run. They are the
// best of a few trials each, not of a search.
var defaultRates = map[string]float64{
	"adafactor": 0.03,
	"adamw":     0.0015,
	"lion":      0.0003,
	"mars":      0.002,
	"muon":      0.01,
	"quad":      0.006,
	"rmsprop":   0.001,
	"sgd":       0.1,
	"skew":      0.006,
}
