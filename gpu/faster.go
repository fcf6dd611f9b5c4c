package gpu

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// class tells adapters apart whose speeds differ by a factor, slowest first.
type class int

// OpenGL on a processor is 1.3 to 5 times as slow as Vulkan on the same one, by machine: see tools/lab-book.md.
const (
	softwareGL class = iota // OpenGL on a processor
	software                // Vulkan, or another native API, on a processor
	hardware
)

// class is a judgement by type and backend, not by name: what does not say that it is a processor is hardware.
func (a Adapter) class() class {
	switch {
	case a.Type != softwareType:
		return hardware
	case a.Backend == "gl":
		return softwareGL
	}
	return software
}

// Class says what an adapter is; the speeds of classes differ by a factor.
func (a Adapter) Class() string {
	return [...]string{"OpenGL on the processor", "software driver", "hardware"}[a.class()]
}

// Hardware is false of an adapter that says that it is a processor.
func (a Adapter) Hardware() bool { return a.class() == hardware }

// Faster is "; faster: " and an adapter of a better class, or a driver that makes one, and how it is to be had, to stand
// behind the name of an adapter; "" where nothing faster is known.
func (a Adapter) Faster() (string, error) {
	if a.Hardware() {
		return "", nil
	}
	all, err := Adapters()
	if err != nil {
		return "", err
	}
	return faster(a, all, installCommand()), nil
}

// faster takes "" for install where it is not known how.
func faster(a Adapter, all []Adapter, install string) string {
	best, err := choose(all, "")
	switch {
	case err == nil && best.class() > a.class():
		return fmt.Sprintf("; faster: %s: --adapter %d", best, best.Index)
	case a.class() == softwareGL && install == "":
		return "; faster: Vulkan's software driver, 1.3 to 5 times as fast"
	case a.class() == softwareGL:
		return "; faster: Vulkan's software driver, 1.3 to 5 times as fast: " + install
	}
	return ""
}

// MissingDriver is the command that installs Vulkan's software driver where nothing better than OpenGL on a processor is found, and
// GPUTRAIN_ADAPTER does not say that this is wanted. It is "" where nothing is missing or the system's way of installing is not known.
func MissingDriver() string {
	if os.Getenv("GPUTRAIN_ADAPTER") != "" {
		return ""
	}
	all, err := Adapters()
	if err != nil {
		return installCommand()
	}
	best, err := choose(all, "")
	if err != nil || best.class() > softwareGL {
		return ""
	}
	return installCommand()
}

// packageManagers and how each installs Mesa's software Vulkan driver with the library that finds it; %s is sudo where that is needed.
var packageManagers = [][2]string{
	{"apt-get", "%sapt-get update && %sapt-get install -y mesa-vulkan-drivers libvulkan1"},
	{"dnf", "%sdnf install -y mesa-vulkan-drivers vulkan-loader"},
	{"pacman", "%spacman -S --noconfirm --needed vulkan-swrast vulkan-icd-loader"},
	{"apk", "%sapk add mesa-vulkan-swrast vulkan-loader"},
}

// installCommand installs Vulkan's software driver on this system; "" where it is not known how.
func installCommand() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	return installWith(func(name string) bool { _, err := exec.LookPath(name); return err == nil }, os.Geteuid() == 0)
}

func installWith(has func(name string) bool, root bool) string {
	sudo := "sudo "
	if root {
		sudo = ""
	}
	for _, m := range packageManagers {
		if has(m[0]) {
			return strings.ReplaceAll(m[1], "%s", sudo)
		}
	}
	return ""
}
