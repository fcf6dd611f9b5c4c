package gpu

import (
	"regexp"
	"strings"
)

// The library's C interface does not tell an adapter's driver, but its log does while it enumerates:
//
//	Adapter Vulkan AdapterInfo { name: "llvmpipe (LLVM 15.0.6, 256 bits)", ..., driver: "llvmpipe", driver_info: "Mesa 22.3.6 (LLVM 15.0.6)", ... }
//
// and for OpenGL, where those two are empty, an earlier line "Version: 4.5 (Core Profile) Mesa 22.3.6".
var (
	adapterLine = regexp.MustCompile(`^Adapter (\w+) AdapterInfo \{.* driver: "([^"]*)", driver_info: "([^"]*)"`)
	versionLine = regexp.MustCompile(`^Version: (.*)`)
)

// parseDrivers finds the drivers of the n adapters that were listed last, "" where the log does not tell.
func parseDrivers(lines []string, n int) []string {
	var found []string
	version := ""
	for _, line := range lines {
		if m := versionLine.FindStringSubmatch(line); m != nil {
			version = strings.Trim(m[1], `" `)
		}
		m := adapterLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		driver := strings.TrimSpace(m[2] + " " + m[3])
		if driver == "" && m[1] == "Gl" {
			driver = version
		}
		found = append(found, driver)
	}
	if len(found) < n {
		return make([]string, n)
	}
	return found[len(found)-n:]
}
