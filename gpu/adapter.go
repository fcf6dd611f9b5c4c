package gpu

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gputrain/internal/cache"
)

// softwareType is the type of adapters that compute on the processor. Everything else asks Limits.Software, which follows from it.
const softwareType = "cpu"

// Adapter is one way to reach one device: the same card can be there once for each backend.
type Adapter struct {
	Index      int    // in Adapters()
	Name       string // "llvmpipe (LLVM 15.0.6, 256 bits)"
	Backend    string // vulkan, metal, d3d12, gl
	Type       string // discrete, integrated, cpu, other
	Driver     string
	Limits     Limits
	Timestamps bool // can profile

	order int     // among the adapters of its backend, as the driver lists them
	tick  float64 // nanoseconds of a tick of timestamps, as the driver says; 0 where it is not asked
}

// String is "1: llvmpipe (LLVM 15.0.6, 256 bits), gl, cpu".
func (a Adapter) String() string {
	return fmt.Sprintf("%d: %s, %s, %s", a.Index, a.Name, a.Backend, a.Type)
}

// CacheFile is the path of a file for what is remembered of an adapter under its driver, in $GPUTRAIN_CACHE or else the user's cache
// folder; adapters of one name, backend and driver share it. It is "" when there is no cache folder: nothing is remembered then.
func (a Adapter) CacheFile(what string) string {
	dir := cache.Dir()
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(a.Name + "\n" + a.Backend + "\n" + a.Driver))
	return filepath.Join(dir, fmt.Sprintf("%s-%x.json", what, sum[:6]))
}

var enumerate sync.Mutex

// Adapters lists every adapter of every backend, in an order that stays while the machine and its drivers do: by backend,
// then as the driver lists them. Without one: ErrNoAdapter and what to install.
func Adapters() ([]Adapter, error) {
	enumerate.Lock()
	defer enumerate.Unlock()
	quietRuntimeDir()
	startLog()
	var out []Adapter
	var found []nativeAdapter
	lines := tapped(func() { found = listNative() })
	drivers := parseDrivers(lines, len(found))
	for i, n := range found {
		n.adapter.order, n.adapter.Driver = n.order, drivers[i]
		out = append(out, n.adapter)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("gpu: adapters: %w: %s", ErrNoAdapter, installHint())
	}
	slices.SortStableFunc(out, func(a, b Adapter) int { return cmp.Compare(backendRank(a.Backend), backendRank(b.Backend)) })
	for i := range out {
		out[i].Index = i
	}
	return out, nil
}

func backendRank(b string) int {
	return slices.Index([]string{"other", "gl", "d3d12", "metal", "vulkan"}, b) * -1
}

func typeRank(t string) int {
	return slices.Index([]string{"other", softwareType, "integrated", "discrete"}, t) * -1
}

// Select finds one adapter. The selector is an index, a part of a name or "backend:part" (letter case is ignored); "" is
// $GPUTRAIN_ADAPTER, and without that the best: discrete before integrated before software, native APIs before OpenGL.
func Select(selector string) (Adapter, error) {
	all, err := Adapters()
	if err != nil {
		return Adapter{}, err
	}
	if selector == "" {
		selector = os.Getenv("GPUTRAIN_ADAPTER")
	}
	return choose(all, selector)
}

func choose(all []Adapter, selector string) (Adapter, error) {
	if selector == "" {
		return slices.MinFunc(all, func(a, b Adapter) int {
			return cmp.Or(cmp.Compare(typeRank(a.Type), typeRank(b.Type)),
				cmp.Compare(backendRank(a.Backend), backendRank(b.Backend)), cmp.Compare(a.Index, b.Index))
		}), nil
	}
	if i, err := strconv.Atoi(selector); err == nil {
		if i < 0 || i >= len(all) {
			return Adapter{}, fmt.Errorf("gpu: select adapter %q: no such index, there are:\n%s", selector, listing(all))
		}
		return all[i], nil
	}
	var matches []Adapter
	for _, a := range all {
		if selects(selector, a) {
			matches = append(matches, a)
		}
	}
	switch len(matches) {
	case 0:
		return Adapter{}, fmt.Errorf("gpu: select adapter %q: matches none of:\n%s", selector, listing(all))
	case 1:
		return matches[0], nil
	}
	return Adapter{}, fmt.Errorf("gpu: select adapter %q: matches %d adapters, say which by index or backend:part:\n%s", selector, len(matches), listing(matches))
}

func selects(selector string, a Adapter) bool {
	name, selector := strings.ToLower(a.Name), strings.ToLower(selector)
	if strings.Contains(name, selector) {
		return true
	}
	backend, part, ok := strings.Cut(selector, ":")
	return ok && backend == a.Backend && strings.Contains(name, part)
}

func listing(all []Adapter) string {
	lines := make([]string, len(all))
	for i, a := range all {
		lines[i] = "  " + a.String()
	}
	return strings.Join(lines, "\n")
}

func installHint() string {
	switch runtime.GOOS {
	case "linux":
		if command := installCommand(); command != "" {
			return "install a Vulkan driver, or the software one: " + command
		}
		return "install a Vulkan driver, or Mesa's software one (lavapipe)"
	case "darwin":
		return "Metal needs macOS 10.13 or later and a desktop session"
	case "windows":
		return "install the graphics driver of your card's vendor (Direct3D 12 or Vulkan)"
	}
	return "install a Vulkan driver"
}

// quietRuntimeDir gives EGL a place to look for a display server; without one it complains on standard error.
func quietRuntimeDir() {
	if runtime.GOOS == "linux" && os.Getenv("XDG_RUNTIME_DIR") == "" {
		os.Setenv("XDG_RUNTIME_DIR", os.TempDir())
	}
}
