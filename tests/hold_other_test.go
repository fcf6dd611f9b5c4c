//go:build !linux

package tests

// heldAs is that of Linux where no process is stopped.
func (p *process) heldAs(is func() bool) bool { return is() }
