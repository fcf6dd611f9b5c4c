package gpu_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	abiStruct   = regexp.MustCompile(`(?s)typedef struct (WGPU\w+) \{(.*?)\n\} \w+;`)
	abiField    = regexp.MustCompile(`(\w+);`)
	abiConstant = regexp.MustCompile(`(?m)^\s+(WGPU\w+) = `)
	abiFunction = regexp.MustCompile(`(?m)^[\w *]+?(wgpu[A-Z]\w+)\((.*)\);$`)
)

// TestABI compares native_abi.h and surface_abi.h with the headers that come with the linked library: sizes, offsets and constants by a C
// program compiled against either, and the declarations of functions by assigning one to the other.
func TestABI(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("skipped, needs a C compiler: %v", err)
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cogentcore/webgpu").Output()
	require.NoError(t, err)
	lib := filepath.Join(strings.TrimSpace(string(dir)), "wgpu", "lib")
	var ours []byte
	for _, name := range []string{"native_abi.h", "surface_abi.h"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		ours = append(ours, text...)
	}
	here, err := filepath.Abs(".")
	require.NoError(t, err)

	var body strings.Builder
	structs := abiStruct.FindAllStringSubmatch(string(ours), -1)
	require.Greater(t, len(structs), 25)
	for _, s := range structs {
		fmt.Fprintf(&body, "printf(\"%s %%zu\\n\", sizeof(%s));\n", s[1], s[1])
		for _, f := range abiField.FindAllStringSubmatch(s[2], -1) {
			fmt.Fprintf(&body, "printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", s[1], f[1], s[1], f[1], s[1], f[1])
		}
	}
	constants := abiConstant.FindAllStringSubmatch(string(ours), -1)
	require.Greater(t, len(constants), 30)
	for _, c := range constants {
		fmt.Fprintf(&body, "printf(\"%s %%d\\n\", (int)%s);\n", c[1], c[1])
	}
	functions := abiFunction.FindAllStringSubmatch(string(ours), -1)
	require.Greater(t, len(functions), 40)
	for _, f := range functions {
		// The number of parameters; their widths follow from the library's own prototypes being callable with ours.
		args := strings.Repeat(", 0", len(strings.Split(f[2], ",")))
		fmt.Fprintf(&body, "(void)sizeof((%s(%s), 0));\n", f[1], strings.TrimPrefix(abiArguments(f[1], args), ", "))
	}

	run := func(name, include string) []string {
		src := filepath.Join(t.TempDir(), name+".c")
		program := "#include <stdio.h>\n#include <stddef.h>\n" + include + "\nint main(void) {\n" + body.String() + "return 0;\n}\n"
		require.NoError(t, os.WriteFile(src, []byte(program), 0o600))
		bin := strings.TrimSuffix(src, ".c")
		out, err := exec.Command(cc, "-w", "-o", bin, src).CombinedOutput()
		require.NoError(t, err, "%s", out)
		out, err = exec.Command(bin).Output()
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	want := run("theirs", fmt.Sprintf("#include %q", filepath.Join(lib, "wgpu.h")))
	got := run("ours", fmt.Sprintf("#include %q", filepath.Join(here, "surface_abi.h")))
	require.Greater(t, len(want), 200)
	assert.Equal(t, want, got)
}

// abiArguments passes a zeroed structure where a function takes one by value.
func abiArguments(name, zeros string) string {
	switch name {
	case "wgpuAdapterInfoFreeMembers":
		return "(WGPUAdapterInfo){0}"
	case "wgpuSurfaceCapabilitiesFreeMembers":
		return "(WGPUSurfaceCapabilities){0}"
	}
	return zeros
}
