// Package timeline records what the stages and links of a pipeline were busy with, sums up how they were used, and writes it as a trace for
// ui.perfetto.dev.
package timeline
