package pipeline

// What tests outside of the package make links of.
type HostLink = hostLink

var NewHostLink = newHostLink
