// Package shaders holds the WGSL sources and their preprocessor; it runs nothing.
package shaders

import "errors"

// Variant is what a kernel is specialised by.
type Variant struct {
	Flags     map[string]bool
	Constants map[string]string
}

// Source is the final WGSL of a kernel file ("matmul.wgsl") for a variant.
func Source(name string, v Variant) (string, error) {
	return "", errors.New("shaders: not written yet")
}

// Names lists the kernel files.
func Names() []string { return nil }
