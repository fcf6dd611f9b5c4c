//go:build !linux

package system

import "os"

// Processor is what the machine's processor is called; "": nothing tells, as outside of Windows.
func Processor() string { return os.Getenv("PROCESSOR_IDENTIFIER") }
