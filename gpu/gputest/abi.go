package gputest

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

// CompareABI compares headers of ours with those that come with the linked library: sizes, offsets and constants by a C program compiled
// against either, and the declarations of functions by calling them. Each header may include those before it.
func CompareABI(t testing.TB, headers ...string) {
	t.Helper()
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
	var folders []string
	for _, name := range headers {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		ours = append(ours, text...)
		path, err := filepath.Abs(name)
		require.NoError(t, err)
		folders = append(folders, "-I"+filepath.Dir(path))
	}

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

	temporary := t.TempDir()
	run := func(name, include string) []string {
		src := filepath.Join(temporary, name+".c")
		program := "#include <stdio.h>\n#include <stddef.h>\n" + include + "\nint main(void) {\n" + body.String() + "return 0;\n}\n"
		require.NoError(t, os.WriteFile(src, []byte(program), 0o600))
		bin := strings.TrimSuffix(src, ".c")
		out, err := exec.Command(cc, append(folders, "-w", "-o", bin, src)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		out, err = exec.Command(bin).Output()
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	want := run("theirs", fmt.Sprintf("#include %q", filepath.Join(lib, "wgpu.h")))
	got := run("ours", fmt.Sprintf("#include %q", filepath.Base(headers[len(headers)-1])))
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
