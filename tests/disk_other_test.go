//go:build unix && !linux

package tests

import "testing"

// readOnly says that no file system can be mounted here.
func readOnly(*testing.T, string) bool { return false }
