package gputest

import (
	"crypto/sha1"
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

// The headers that the binding brings, and those that its libraries of wgpu-native 22.1.0.5 were built with, as git knows the contents of the published
// ones: webgpu.h is one text, and of wgpu.h only numbers from 0x1A on and the type of a field differ.
var (
	webgpuHeader = "cb423fc0749e11f9ffc8a9c546da17e41ed15fc3"
	wgpuHeader22 = "28a51f62919558189e4f499f1c20ca48ceb3e0db"
	wgpuChange22 = strings.NewReplacer(
		"    WGPUNativeFeature_ShaderUnusedVertexOutput = 0x0003001A,\n", "",
		"Nv12 = 0x0003001B", "Nv12 = 0x0003001A",
		"AccelerationStructure = 0x0003001C", "AccelerationStructure = 0x0003001B",
		"RayQuery = 0x0003001D", "RayQuery = 0x0003001C",
		"ShaderF64 = 0x0003001E", "ShaderF64 = 0x0003001D",
		"ShaderI16 = 0x0003001F", "ShaderI16 = 0x0003001E",
		"PrimitiveIndex = 0x00030020", "PrimitiveIndex = 0x0003001F",
		"DepthTest = 0x00030021", "DepthTest = 0x00030020",
		"WGPUBool desired", "uint32_t desired",
	)
)

// libraryHeaders is a folder with the headers of each version of the library that the binding links on some system.
func libraryHeaders(t testing.TB) map[string]string {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cogentcore/webgpu").Output()
	require.NoError(t, err)
	lib := filepath.Join(strings.TrimSpace(string(dir)), "wgpu", "lib")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(lib, name))
		require.NoError(t, err)
		return string(text) + "\n"
	}
	webgpu, wgpu := read("webgpu.h"), wgpuChange22.Replace(read("wgpu.h"))
	require.Equal(t, webgpuHeader, gitHash(webgpu))
	require.Equal(t, wgpuHeader22, gitHash(wgpu))
	newer := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(newer, "webgpu.h"), []byte(webgpu), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(newer, "wgpu.h"), []byte(wgpu), 0o600))
	return map[string]string{"0.19.4": lib, "22.1.0": newer}
}

// gitHash is git's name of a text.
func gitHash(text string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)))
}

// CompareABI compares headers of ours with those of each library that the binding brings: sizes, offsets and constants by a C program compiled
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
	got := run("ours", fmt.Sprintf("#include %q", filepath.Base(headers[len(headers)-1])))
	require.Greater(t, len(got), 200)
	for version, folder := range libraryHeaders(t) {
		want := run("theirs", fmt.Sprintf("#include %q", filepath.Join(folder, "wgpu.h")))
		assert.Equal(t, want, got, version)
	}
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
