// Package schedule lays down the order in which each stage of a pipeline runs its passes, before anything runs: GPipe, 1F1B and interleaved
// 1F1B. It checks that an order is complete and cannot deadlock with links of a given depth, and simulates how long it takes. It knows
// nothing of models or devices.
package schedule
