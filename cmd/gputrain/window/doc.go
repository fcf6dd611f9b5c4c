// Package window draws a run: loss, gradient norm, histograms of the weights, the newest sample.
//
// A Board keeps what is to be seen, a scene lays it out, a canvas turns that into shapes that one shader draws, letters
// included. A tally counts the weights of a tree of parameters on the device where they lie, and its counts are drawn from
// there. What needs a window system (View) is built with the tag window only, so that the rest is tested everywhere.
package window
