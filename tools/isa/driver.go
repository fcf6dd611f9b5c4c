package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// driver is one of Mesa's Vulkan drivers, which compiles for the cards of one make.
type driver struct {
	name     string
	adapter  string // as gpu.Select takes it
	manifest string // its beginning: "radeon_icd"
	library  string // libvulkan_<library>.so
	shim     string // the stand-in for its kernel driver, lib<shim>_noop_drm_shim.so; "": it needs none
	unpacked string // folder of the shims with the driver that is taken in place of the installed one; "": the installed one, or the tree's
	units    bool   // products by matrix units are compiled, and no other kernels
	limits   []limit
	versions []string // of Mesa, that the limits hold for: others spill elsewhere
	// environment chooses a card.
	environment func(family string) []string
	// read completes figures by the driver's own statistics and assembly.
	read func(f *figures, s statistics, text string) error
}

// card is what a driver compiles for.
type card struct {
	family string
	driver *driver
	newer  bool // wants a newer Mesa than the 22.3 of Debian 12
}

var (
	radv = &driver{
		name: "RADV", adapter: "vulkan:RADV", manifest: "radeon_icd", library: "radeon", limits: amdLimits, versions: []string{"Mesa 22.3"},
		environment: func(family string) []string { return []string{"RADV_FORCE_FAMILY=" + family} }, read: readAMD,
	}
	// Of Debian 12, Mesa 25 of its backports: the installed one does not know RDNA 3's units, and newer ones the null device no more.
	radvUnits = &driver{
		name: "RADV for matrix units", adapter: "vulkan:RADV", manifest: "radeon_icd", library: "radeon", unpacked: "radv", units: true, limits: unitLimits,
		versions: []string{"Mesa 25.0"}, environment: radv.environment, read: readAMD,
	}
	anv = &driver{
		name: "ANV", adapter: "vulkan:Intel", manifest: "intel_icd", library: "intel", shim: "intel", limits: intelLimits, versions: []string{"Mesa 22.3", "Mesa 26.1"},
		environment: func(family string) []string { return []string{"INTEL_STUB_GPU_PLATFORM=" + family} }, read: readIntel,
	}
	nvk = &driver{
		name: "NVK", adapter: "vulkan:NVK", manifest: "nouveau_icd", library: "nouveau", shim: "nouveau", limits: nvidiaLimits, versions: []string{"Mesa 26.1"},
		environment: func(family string) []string {
			return []string{"NOUVEAU_CHIPSET=" + map[string]string{"tu102": "162", "ga102": "172"}[family], "NVK_I_WANT_A_BROKEN_VULKAN_DRIVER=1"}
		}, read: readNVIDIA,
	}
	turnip = &driver{
		name: "Turnip", adapter: "vulkan:Turnip", manifest: "freedreno_icd", library: "freedreno", shim: "freedreno", limits: adrenoLimits, versions: []string{"Mesa 26.1"},
		environment: func(family string) []string { return []string{"FD_GPU_ID=" + strings.TrimPrefix(family, "a")} }, read: readAdreno,
	}
	honeykrisp = &driver{
		name: "Honeykrisp", adapter: "vulkan:Apple", manifest: "asahi_icd", library: "asahi", shim: "asahi", limits: appleLimits, versions: []string{"Mesa 26.1"},
		environment: func(family string) []string {
			return []string{"AGX_CHIP=" + map[string]string{"m1": "13", "m2": "14"}[family]}
		}, read: readApple,
	}
)

// cards are those that limits were taken of: RDNA 2, RDNA 1 and Vega; RDNA 3 with matrix units; Tiger Lake, Alchemist and Battlemage; Ampere and Turing;
// Adreno 740 and 660; M1.
var cards = []card{
	{family: "navi21", driver: radv},
	{family: "navi10", driver: radv},
	{family: "vega10", driver: radv},
	{family: "navi31", driver: radvUnits},
	{family: "tgl", driver: anv},
	{family: "dg2", driver: anv},
	{family: "bmg", driver: anv, newer: true},
	{family: "ga102", driver: nvk, newer: true},
	{family: "tu102", driver: nvk, newer: true},
	{family: "a740", driver: turnip, newer: true},
	{family: "a660", driver: turnip, newer: true},
	{family: "m1", driver: honeykrisp, newer: true},
}

// ofTree tells whether the driver of the tree is taken, where there is one, and not the installed one. RADV's newer versions know the null device no more.
func (d *driver) ofTree(t *toolchain) bool { return t.mesa != "" && d.library != radv.library }

// available are the cards that can be compiled for, and what the others lack, a line for each.
func (t *toolchain) available(families []string) (found []card, missing []string, err error) {
	for _, name := range families {
		if !slices.ContainsFunc(cards, func(c card) bool { return c.family == name }) {
			return nil, nil, fmt.Errorf("isa: -family: %q: found no such family, wanted some of %s", name, strings.Join(names(), ","))
		}
	}
	for _, c := range cards {
		if len(families) > 0 && !slices.Contains(families, c.family) {
			continue
		}
		lack := t.lack(c)
		if lack == "" {
			found = append(found, c)
		} else {
			missing = append(missing, fmt.Sprintf("%s (%s): found no %s", c.family, c.driver.name, lack))
		}
	}
	return found, missing, nil
}

// lack is what compiling for a card wants and the machine does not have.
func (t *toolchain) lack(c card) string {
	switch {
	case c.driver.shim != "" && (t.shims == "" || !there(t.shim(c.driver))):
		return "shim of its kernel driver, which tools/isa/shims.sh builds (-shims FOLDER)"
	case c.driver.unpacked != "" && (t.shims == "" || !there(t.library(c.driver))):
		return "Mesa 25, which tools/isa/shims.sh unpacks (-shims FOLDER)"
	case c.newer && t.mesa == "":
		return "newer Mesa (-mesa TREE, a system of Debian 13 with mesa-vulkan-drivers of its backports)"
	case c.driver.ofTree(t) && !there(t.library(c.driver)):
		return "driver in " + t.libraries()
	}
	if !c.driver.ofTree(t) && c.driver.unpacked == "" {
		if _, err := c.driver.installed(); err != nil {
			return "Vulkan driver (Debian, Ubuntu: apt-get install mesa-vulkan-drivers)"
		}
	}
	return ""
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installed is the manifest of the system's own driver.
func (d *driver) installed() (string, error) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] // a system may have several
	for _, dir := range []string{"/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"} {
		for _, name := range []string{d.manifest + "." + arch + ".json", d.manifest + ".json"} {
			if path := filepath.Join(dir, name); there(path) {
				return path, nil
			}
		}
	}
	return "", &missingError{"Vulkan driver " + d.name + " (" + d.manifest + "*.json)", "mesa-vulkan-drivers"}
}

func names() (all []string) {
	for _, c := range cards {
		all = append(all, c.family)
	}
	return all
}
