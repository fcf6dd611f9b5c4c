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

// toolchain is the layer that makes compilers of drivers, in a directory of its own, and where the drivers are.
type toolchain struct {
	dir   string
	shims string // folder of the shims; "": there are none
	mesa  string // a system's tree with the drivers to take in place of the installed ones; "": the installed ones
}

// newToolchain builds the layer.
func newToolchain(shims, mesa string) (*toolchain, error) {
	if runtime.GOOS != "linux" {
		return nil, &missingError{"Linux, which Mesa's drivers run on", "mesa-vulkan-drivers"}
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
	t := &toolchain{dir: dir, shims: shims, mesa: mesa}
	if shims != "" {
		t.shims, err = filepath.Abs(shims) // the children's folder is another
	}
	if err := errors.Join(err, t.build(cc)); err != nil {
		t.remove()
		return nil, err
	}
	return t, nil
}

func (t *toolchain) remove() { os.RemoveAll(t.dir) }

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

// compile compiles for each card in a process of its own, as many at a time as there are cores: a process has one card, and makes one pipeline at a
// time. The drivers found are by name.
func (t *toolchain) compile(ctx context.Context, cards []card, w work) (all []figures, drivers map[string]string, err error) {
	figures, found, errs := make([][]figures, len(cards)), make([]string, len(cards)), make([]error, len(cards))
	turn := make(chan struct{}, runtime.NumCPU())
	var workers sync.WaitGroup
	for i, c := range cards {
		workers.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			figures[i], found[i], errs[i] = t.compileFor(ctx, c, w)
		})
	}
	workers.Wait()
	drivers = map[string]string{}
	for i, c := range cards {
		drivers[c.driver.name] = found[i]
	}
	return slices.Concat(figures...), drivers, errors.Join(errs...)
}

func (t *toolchain) compileFor(ctx context.Context, card card, w work) ([]figures, string, error) {
	fail := func(err error) ([]figures, string, error) {
		return nil, "", fmt.Errorf("isa: %s: %w", card.family, err)
	}
	dir := filepath.Join(t.dir, card.family)
	w.Adapter, w.Units = card.driver.adapter, card.driver.units
	self, err := os.Executable()
	if err = errors.Join(err, os.Mkdir(dir, 0o755)); err != nil {
		return fail(err)
	}
	if err := writeJSON(filepath.Join(dir, workFile), w); err != nil {
		return fail(err)
	}
	manifest, err := t.manifest(card.driver, dir)
	if err != nil {
		return fail(err)
	}
	program := []string{self, childArgument, dir}
	if card.driver.ofTree(t) { // by the tree's own loader, as its drivers want its libraries
		program = append([]string{filepath.Join(t.mesa, "lib64/ld-linux-x86-64.so.2"), "--library-path", t.libraries()}, program...)
	}
	c := exec.CommandContext(ctx, program[0], program[1:]...)
	c.Env = append(
		os.Environ(), "VK_ICD_FILENAMES="+manifest, "VK_DRIVER_FILES="+manifest, "VK_LAYER_PATH="+t.dir, "VK_INSTANCE_LAYERS="+layerName,
		"MESA_SHADER_CACHE_DISABLE=true", // a cached pipeline has no statistics
		"NODEVICE_SELECT=1",              // Mesa's own layer
	)
	c.Env = append(c.Env, card.driver.environment(card.family)...)
	if card.driver.shim != "" {
		c.Env = append(c.Env, "LD_PRELOAD="+t.shim(card.driver))
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("compile: %w: %s", err, out))
	}
	return readFigures(card, dir)
}

// libraries is the folder of a tree's libraries.
func (t *toolchain) libraries() string { return filepath.Join(t.mesa, "usr/lib/x86_64-linux-gnu") }

// shim is the path of a driver's shim.
func (t *toolchain) shim(d *driver) string {
	return filepath.Join(t.shims, "lib"+d.shim+"_noop_drm_shim.so")
}

// library is the path of a driver that is not the installed one.
func (t *toolchain) library(d *driver) string {
	folder := t.libraries()
	if d.unpacked != "" {
		folder = filepath.Join(t.shims, d.unpacked)
	}
	return filepath.Join(folder, "libvulkan_"+d.library+".so")
}

// manifest is the path of a driver's manifest, of which a tree has one of its own that names the whole path of the library.
func (t *toolchain) manifest(d *driver, dir string) (string, error) {
	if !d.ofTree(t) && d.unpacked == "" {
		return d.installed()
	}
	path := filepath.Join(dir, d.manifest+".json")
	return path, writeJSON(path, map[string]any{"file_format_version": "1.0.1", "ICD": map[string]string{
		"api_version": "1.3.0", "library_path": t.library(d),
	}})
}
