package pipeline

// NewHostLink is what tests outside of the package make links of.
var NewHostLink = newHostLink
