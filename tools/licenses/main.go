// Command licenses writes the licences of what is linked into gputrain, on every system that it is built for: of the modules of Go, of Go itself, and of
// wgpu-native, a library in Rust that one of the modules has. It is run in this folder's module: go run -C tools ./licenses > cmd/gputrain/LICENSES
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// systems are those that gputrain is built for.
var systems = []string{"linux", "darwin", "windows"}

// binding is the module that has wgpu-native.
const binding = "github.com/cogentcore/webgpu"

// commits are those of wgpu that the binding's builds of wgpu-native are made from, as their paths say: what has been looked at.
var commits = map[string]string{
	"87576b7": "wgpu-native v0.19.4.1, wgpu 87576b7",
	"5c5c8b1": "wgpu-native of the binding's authors, wgpu 5c5c8b1", // for linux/arm64
}

//go:embed wgpu-native.MIT
var mit string

//go:embed wgpu-native.APACHE
var apache string

// crates are the libraries in Rust whose paths wgpu-native holds, with the licences that their authors state.
var crates = map[string]string{
	"allocator-api2": "MIT OR Apache-2.0", "arrayvec": "MIT OR Apache-2.0", "ash": "MIT OR Apache-2.0", "bit-set": "MIT OR Apache-2.0",
	"bit-vec": "MIT OR Apache-2.0", "codespan-reporting": "Apache-2.0", "compiler_builtins": "MIT OR Apache-2.0", "core-foundation": "MIT OR Apache-2.0",
	"glow": "MIT OR Apache-2.0 OR Zlib", "gpu-alloc": "MIT OR Apache-2.0", "gpu-descriptor": "MIT OR Apache-2.0", "hashbrown": "MIT OR Apache-2.0",
	"indexmap": "MIT OR Apache-2.0", "khronos-egl": "MIT OR Apache-2.0", "log": "MIT OR Apache-2.0", "metal": "MIT OR Apache-2.0", "objc": "MIT",
	"once_cell": "MIT OR Apache-2.0", "parking_lot": "MIT OR Apache-2.0", "parking_lot_core": "MIT OR Apache-2.0", "petgraph": "MIT OR Apache-2.0",
	"pp-rs": "BSD-3-Clause", "smallvec": "MIT OR Apache-2.0", "termcolor": "Unlicense OR MIT", "unicode-width": "MIT OR Apache-2.0",
	"zerocopy": "BSD-2-Clause OR Apache-2.0 OR MIT",
}

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "licenses: %v\n", err)
		os.Exit(1)
	}
}

// module is one of the module graph.
type module struct{ Path, Version, Dir string }

func write(out io.Writer) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	text.WriteString("The licences of what is linked into gputrain. Made by tools/licenses from the module graph; gputrain licenses prints it.\n")
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	modules = slices.Insert(modules, 0, module{Path: "Go, its runtime and standard library", Dir: strings.TrimSpace(string(root))})
	for _, m := range modules {
		if err := m.write(&text); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		if m.Path == binding {
			if err := m.writeNative(&text); err != nil {
				return fmt.Errorf("%s: wgpu-native: %w", m.Path, err)
			}
		}
	}
	_, err = text.WriteTo(out)
	return err
}

// linked are the modules of all packages that the program has on any system, with and without a window, in order.
func linked() ([]module, error) {
	all := map[string]module{}
	for _, system := range systems {
		list := exec.Command("go", "list", "-deps", "-tags=window", "-json=Module", "./cmd/gputrain")
		list.Dir, list.Stderr = "..", os.Stderr
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=1")
		raw, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list on %s: %w", system, err)
		}
		for d := json.NewDecoder(bytes.NewReader(raw)); ; {
			var p struct {
				Module *struct {
					module
					Main bool
				}
			}
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module != nil && !p.Module.Main {
				all[p.Module.Path] = p.Module.module
			}
		}
	}
	var out []module
	for _, m := range all {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// license is how files are called that have a licence.
var license = regexp.MustCompile(`^(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)(\.(md|txt))?$`)

// write writes each licence of a module once. One without any is an error.
func (m module) write(out io.Writer) error {
	title(out, strings.TrimSpace(m.Path+" "+m.Version))
	if m.Version == "" { // Go, whose folder has all sorts
		text, err := os.ReadFile(filepath.Join(m.Dir, "LICENSE"))
		return errors.Join(err, body(out, string(text)))
	}
	seen := map[string]bool{}
	err := filepath.WalkDir(m.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !license.MatchString(d.Name()) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || seen[string(text)] {
			return err
		}
		seen[string(text)] = true
		return body(out, string(text))
	})
	if err == nil && len(seen) == 0 {
		err = errors.New("found no licence")
	}
	return err
}

// cratePath is where the compiler of Rust has found a source.
var cratePath = regexp.MustCompile(`registry/src/[^/\x00]+/([a-z0-9_-]+?)-(\d+\.\d+\.\d+[A-Za-z0-9.+-]*)/`)

// corePath is where the sources of wgpu were.
var corePath = regexp.MustCompile(`/wgpu-[0-9a-f]+/([0-9a-f]{7})/wgpu-core/`)

// writeNative writes what is known of the library: its own licences, and what its paths tell of what is in it.
func (m module) writeNative(out io.Writer) error {
	builds, found := map[string]bool{}, map[string]bool{}
	for _, system := range []string{"linux", "darwin"} { // that of Windows has no paths
		files, err := filepath.Glob(filepath.Join(m.Dir, "wgpu", "lib", system, "*", "libwgpu_native.a"))
		if err != nil || len(files) == 0 {
			return errors.Join(err, fmt.Errorf("found no library for %s", system))
		}
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			commit := corePath.FindSubmatch(raw)
			if commit == nil || commits[string(commit[1])] == "" {
				return fmt.Errorf("%s: found wgpu at %q, which is not known here: find out which release it is, and whether its licences are the same", name, commit)
			}
			builds[commits[string(commit[1])]] = true
			for _, path := range cratePath.FindAllSubmatch(raw, -1) {
				if crates[string(path[1])] == "" {
					return fmt.Errorf("%s: found %s, whose licence is not known here", name, path[1])
				}
				found[fmt.Sprintf("%s %s: %s", path[1], path[2], crates[string(path[1])])] = true
			}
		}
	}
	title(out, "wgpu-native (github.com/gfx-rs/wgpu-native), with wgpu-core, wgpu-hal, wgpu-types and naga: MIT OR Apache-2.0")
	fmt.Fprintf(out, "%s\n\n", strings.Join(slices.Sorted(maps.Keys(builds)), "\n"))
	fmt.Fprintf(out, "In it, as far as its paths tell, beside the standard library of Rust (MIT OR Apache-2.0):\n\n  %s\n\n",
		strings.Join(slices.Sorted(maps.Keys(found)), "\n  "))
	return errors.Join(body(out, mit), body(out, apache))
}

func title(out io.Writer, text string) {
	fmt.Fprintf(out, "\n%s\n%s\n\n", strings.Repeat("=", 80), text)
}

// body writes a text with the ends of lines that this system has.
func body(out io.Writer, text string) error {
	_, err := fmt.Fprintf(out, "%s\n\n", strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n "))
	return err
}
