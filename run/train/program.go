package train

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"gputrain/gpu"
)

// modulePath is the module that this package is of.
const modulePath = "gputrain"

// version is what `make dist` says of the source that it builds.
var version string

// Program names what trains: the version of this module and its commit where they are known, Go, the system, and wgpu.
func Program() string {
	named, revision := "of a source tree", ""
	if version != "" {
		named = version
	} else if info, ok := debug.ReadBuildInfo(); ok {
		own := info.Main
		for _, d := range info.Deps {
			if d.Path == modulePath {
				own = *d
			}
		}
		if own.Path == modulePath && own.Version != "" && own.Version != "(devel)" {
			named = own.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && info.Main.Path == modulePath {
				revision = ", revision " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return fmt.Sprintf("%s %s%s, %s, %s/%s, wgpu %s", modulePath, named, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, gpu.Library)
}
