package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

//go:embed layer/layer.c
var layerSource []byte

const layerName = "VK_LAYER_gputrain_isa"

// missingError is what the machine lacks; then nothing can be compiled, which is no failure.
type missingError struct{ what, install string }

func (e *missingError) Error() string {
	return fmt.Sprintf("found no %s (Debian, Ubuntu: apt-get install %s)", e.what, e.install)
}

// toolchain is the driver and the layer that makes a compiler of it, in a directory of its own.
type toolchain struct {
	dir string
	icd string // the driver's manifest
}

// newToolchain finds the driver and builds the layer.
func newToolchain() (*toolchain, error) {
	if runtime.GOOS != "linux" {
		return nil, &missingError{"Linux, which RADV runs on", "mesa-vulkan-drivers"}
	}
	icd, err := radv()
	if err != nil {
		return nil, err
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		return nil, &missingError{"C compiler", "gcc libc6-dev"}
	}
	headers := exec.Command(cc, "-E", "-")
	headers.Stdin = strings.NewReader("#include <vulkan/vk_layer.h>\n")
	if headers.Run() != nil {
		return nil, &missingError{"headers of Vulkan", "libvulkan-dev"}
	}
	dir, err := os.MkdirTemp("", "gputrain-isa-")
	if err != nil {
		return nil, fmt.Errorf("isa: %w", err)
	}
	t := &toolchain{dir: dir, icd: icd}
	if err := t.build(cc); err != nil {
		t.remove()
		return nil, err
	}
	return t, nil
}

func (t *toolchain) remove() { os.RemoveAll(t.dir) }

// radv is the driver's manifest.
func radv() (string, error) {
	for _, dir := range []string{"/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"} {
		if found, _ := filepath.Glob(filepath.Join(dir, "radeon_icd*.json")); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", &missingError{"Vulkan driver of AMD's cards (radeon_icd.*.json)", "mesa-vulkan-drivers"}
}

// build builds the layer and its manifest.
func (t *toolchain) build(cc string) error {
	source, library := filepath.Join(t.dir, "layer.c"), filepath.Join(t.dir, "liblayer.so")
	manifest, err := json.Marshal(map[string]any{"file_format_version": "1.1.2", "layer": map[string]any{
		"name": layerName, "type": "INSTANCE", "library_path": library, "api_version": "1.3.0", "implementation_version": "1",
		"description": "what the driver makes of kernels",
		"functions":   map[string]string{"vkNegotiateLoaderLayerInterfaceVersion": "vkNegotiateLoaderLayerInterfaceVersion"},
	}})
	if err = errors.Join(err, os.WriteFile(source, layerSource, 0o644), os.WriteFile(filepath.Join(t.dir, "layer.json"), manifest, 0o644)); err != nil {
		return fmt.Errorf("isa: build the layer: %w", err)
	}
	out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-fvisibility=hidden", "-o", library, source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("isa: build the layer: %w: %s", err, out)
	}
	return nil
}

// compile compiles for each family in a process of its own, as many at a time as there are cores: a process has one family, and
// makes one pipeline at a time.
func (t *toolchain) compile(ctx context.Context, families []string, w work) (all []figures, driver string, err error) {
	figures, drivers, errs := make([][]figures, len(families)), make([]string, len(families)), make([]error, len(families))
	turn := make(chan struct{}, runtime.NumCPU())
	var workers sync.WaitGroup
	for i, family := range families {
		workers.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			figures[i], drivers[i], errs[i] = t.compileFor(ctx, family, w)
		})
	}
	workers.Wait()
	return slices.Concat(figures...), drivers[0], errors.Join(errs...)
}

func (t *toolchain) compileFor(ctx context.Context, family string, w work) ([]figures, string, error) {
	dir := filepath.Join(t.dir, family)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, "", fmt.Errorf("isa: %s: %w", family, err)
	}
	if err := writeJSON(filepath.Join(dir, workFile), w); err != nil {
		return nil, "", fmt.Errorf("isa: %s: %w", family, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("isa: %s: %w", family, err)
	}
	c := exec.CommandContext(ctx, self, childArgument, dir)
	c.Env = append(
		os.Environ(), "RADV_FORCE_FAMILY="+family, "VK_ICD_FILENAMES="+t.icd, "VK_DRIVER_FILES="+t.icd, "VK_LAYER_PATH="+t.dir, "VK_INSTANCE_LAYERS="+layerName,
		"MESA_SHADER_CACHE_DISABLE=true", // a cached pipeline has no statistics
		"NODEVICE_SELECT=1",              // Mesa's own layer
	)
	if out, err := c.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("isa: compile for %s: %w: %s", family, err, out)
	}
	return readFigures(family, dir)
}
