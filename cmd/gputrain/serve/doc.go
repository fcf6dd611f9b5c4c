// Package serve shows runs as a live page in a browser: curves of many runs laid over each other, the use of stages, histograms, samples,
// the run file and the report. The page is part of the program and asks nothing of any other address.
//
//	run directories --follow--> run (table, lists) --decimate--> /api/curves
//	                                    |                               ^
//	                                    +--version--> /api/events --> the page
//
// What holds:
//
//  1. Nothing is written and nothing is locked. The page is made of the files that a run leaves, and a run does not know of it. A file is read once,
//     and then its end alone; the numbers of metrics.jsonl stay in memory, some 200 bytes a step.
//  2. Requests name a run by its number and one of a few fixed things of it, never a path. Files are opened below the run directory; a
//     link that leads out of it is refused.
//  3. Every extreme is sent. A bucket of the curve has its first, lowest, highest and last point, so that a spike of one step is drawn at any zoom.
//  4. Buckets are aligned to multiples of their width. Adding steps to a run changes its last bucket only, and a page that follows a run
//     asks for what is behind it.
//  5. A file that was cut back, as a resumed run does, is noticed by its content: what is gone goes from the page. Where a process went on
//     there is a marker: sessions.jsonl says of which step.
package serve
