package gpu

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Class tells adapters apart whose speeds differ by a factor, slowest first.
type Class int

// OpenGL on a processor is 1.3 to 5 times as slow as Vulkan on the same one, by machine: see tools/lab-book.md.
const (
	SoftwareGL Class = iota // OpenGL on a processor
	Software                // Vulkan, or another native API, on a processor
	Hardware
)

func (c Class) String() string {
	return [...]string{"OpenGL on the processor", "software driver", "hardware"}[c]
}

// Class is a judgement by type and backend, not by name: what does not say that it is a processor is hardware.
func (a Adapter) Class() Class {
	switch {
	case a.Type != softwareType:
		return Hardware
	case a.Backend == "gl":
		return SoftwareGL
	}
	return Software
}

// Advice is how something faster is to be had. The zero value is that nothing faster is known.
type Advice struct {
	What    string // "Vulkan's software driver, 1.3 to 5 times as fast"
	Command string // to type, or the option to give: "sudo apt-get install ..."; "" where it depends on the system
}

// String is "; faster: " and what and how, to stand behind the name of an adapter; "" where nothing faster is known.
func (v Advice) String() string {
	switch {
	case v == Advice{}:
		return ""
	case v.Command == "":
		return "; faster: " + v.What
	}
	return fmt.Sprintf("; faster: %s: %s", v.What, v.Command)
}

// Faster tells whether there is an adapter of a better class, or a driver that makes one.
func (a Adapter) Faster() (Advice, error) {
	if a.Class() == Hardware {
		return Advice{}, nil
	}
	all, err := Adapters()
	if err != nil {
		return Advice{}, err
	}
	return faster(a, all, installCommand()), nil
}

func faster(a Adapter, all []Adapter, install string) Advice {
	best, err := choose(all, "")
	switch {
	case err == nil && best.Class() > a.Class():
		return Advice{What: best.String(), Command: fmt.Sprintf("--adapter %d", best.Index)}
	case a.Class() == SoftwareGL:
		return Advice{What: "Vulkan's software driver, 1.3 to 5 times as fast", Command: install}
	}
	return Advice{}
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
	if err != nil || best.Class() > SoftwareGL {
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
