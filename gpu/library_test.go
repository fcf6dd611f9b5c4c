package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The binding's libraries by system, as they name themselves: the revision of wgpu in the paths of its sources, whose releases are 0.19.4 and 22.1.0, and the
// toolchain, where it matters. What native_library.h says of a system is of that version.
func TestLibraries(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cogentcore/webgpu").Output()
	require.NoError(t, err)
	releases := map[string]string{"87576b7": "0.19.4", "5c5c8b1": "22.1.0"}
	revision := regexp.MustCompile(`wgpu-53e70f8674b08dd4[/\\]([0-9a-f]{7})`)
	for system, macros := range map[string]string{
		"linux/amd64": "-D__linux__ -D__x86_64__", "linux/arm64": "-D__linux__ -D__aarch64__", "windows/amd64": "-D_WIN32 -D__x86_64__",
		"darwin/amd64": "-D__APPLE__ -D__x86_64__", "darwin/arm64": "-D__APPLE__ -D__aarch64__", "windows/arm64": "-D_WIN32 -D__aarch64__",
	} {
		library, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "wgpu", "lib", filepath.FromSlash(system), "libwgpu_native.a"))
		require.NoError(t, err)
		found := map[string]bool{}
		for _, m := range revision.FindAllSubmatch(library, -1) {
			found[releases[string(m[1])]] = true
		}
		out, err := exec.Command("cc", append(strings.Fields(macros), "-undef", "-E", "-dM", "native_library.h")...).CombinedOutput()
		if system == "windows/arm64" {
			require.Error(t, err)
			assert.Contains(t, string(out), "one of Microsoft's toolchain")
			assert.Contains(t, string(library), "aarch64-pc-windows-msvc")
			continue
		}
		require.NoError(t, err, "%s: %s", system, out)
		says := regexp.MustCompile(`#define GT_LIBRARY "(.*)"`).FindStringSubmatch(string(out))
		require.NotNil(t, says)
		assert.Equal(t, map[string]bool{says[1]: true}, found, system)
		if system == runtime.GOOS+"/"+runtime.GOARCH {
			assert.Equal(t, says[1], Library)
		}
	}
}
