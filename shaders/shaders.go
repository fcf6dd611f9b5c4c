// Package shaders holds the WGSL sources and specialises them by text; it runs nothing.
//
// A kernel is one file with the entry point main. The preprocessor knows, each on a line of its own:
//
//	#import "shared/x.wgsl"       the file, once however often it is imported
//	#import "shared/x.wgsl" A=b   the file with b for its {{A}}, once for each b; several of these with spaces between
//	#if FLAG, #if !FLAG           with #else and #endif, nested at will
//	#for I in A..B                with #end: the lines between for I = A, A+1, ..., B-1; A and B integers or names of constants
//
// and {{NAME}} anywhere: a constant of the variant, which may be several lines long and hold other constants, or the
// variable of a #for. @bind is @group(0) @binding(0) where it comes first, @group(0) @binding(1) where it comes next, and
// so on: bindings are numbered in the order in which a variant has them. Everything else is an error that names file and line: an unknown directive, a flag or constant that
// the variant does not give, one that it gives and the file never uses.
package shaders

import (
	"embed"
	"fmt"
	"maps"
	"strings"
)

//go:embed *.wgsl shared/*.wgsl
var sources embed.FS

// Variant is what a kernel is specialised by. Every flag that decides something must be given, true or false.
type Variant struct {
	Flags     map[string]bool
	Constants map[string]string
}

// Source is the final WGSL of a kernel file, "matmul.wgsl", for a variant.
func Source(name string, v Variant) (string, error) { return own.process(name, v) }

var own = &library{files: sources}

// Reuses tells the kernel files that read each element of their operands many times.
func Reuses(name string) bool { return reused[name] }

var reused = map[string]bool{
	"matmul": true, "matmul_scalar": true, "matmul_tiled": true, "matmul_matrix": true, "attention": true, "attention_dq": true, "attention_dkv": true, "kron_product": true,
}

func (l *library) process(name string, v Variant) (string, error) {
	main, err := l.load(name)
	if err != nil {
		return "", fmt.Errorf("shaders: %w", err)
	}
	p := &preprocessor{
		library: l, variant: v,
		imported: map[string]bool{name: true}, flags: maps.Clone(main.flags), constants: maps.Clone(main.constants),
	}
	var out strings.Builder
	if err := p.emit(&out, main.nodes, nil); err != nil {
		return "", fmt.Errorf("shaders: %w", err)
	}
	for _, f := range sortedKeys(v.Flags) {
		if !p.flags[f] {
			return "", fmt.Errorf("shaders: %s: flag %s given, but never used", name, f)
		}
	}
	for _, c := range sortedKeys(v.Constants) {
		if !p.constants[c] {
			return "", fmt.Errorf("shaders: %s: constant %s given, but never used", name, c)
		}
	}
	return numbered(out.String()), nil
}

// numbered puts the group and the number of each binding in place of @bind.
func numbered(source string) string {
	var out strings.Builder
	for i := 0; ; i++ {
		before, rest, found := strings.Cut(source, "@bind ")
		if out.WriteString(before); !found {
			return out.String()
		}
		fmt.Fprintf(&out, "@group(0) @binding(%d) ", i)
		source = rest
	}
}
