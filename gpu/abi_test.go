package gpu_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

func TestABI(t *testing.T) { gputest.CompareABI(t, "native_abi.h") }

var vulkanStruct = regexp.MustCompile(`(?s)typedef struct (Vk\w+) \{(.*?)\n\} \w+;`)

// native_vulkan.h lays out Vulkan's structs as the installed headers do, those that they know.
func TestVulkanABI(t *testing.T) {
	headers := exec.Command("cc", "-E", "-")
	headers.Stdin = strings.NewReader("#include <vulkan/vulkan.h>\n")
	if err := headers.Run(); err != nil {
		t.Skipf("skipped, needs headers of Vulkan (Debian, Ubuntu: apt-get install libvulkan-dev): %v", err)
	}
	ours, err := os.ReadFile("native_vulkan.h")
	require.NoError(t, err)
	ours, younger, _ := bytes.Cut(ours, []byte("// Of VK_KHR_cooperative_matrix"))
	var body strings.Builder
	structs := vulkanStruct.FindAllSubmatch(ours, -1)
	require.Len(t, structs, 18)
	for _, s := range structs {
		fmt.Fprintf(&body, "printf(\"%s %%zu\\n\", sizeof(%s));\n", s[1], s[1])
		for _, f := range regexp.MustCompile(`(\w+)(\[\d+\])?[,;]`).FindAllSubmatch(s[2], -1) {
			fmt.Fprintf(&body, "printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", s[1], f[1], s[1], f[1], s[1], f[1])
		}
	}
	constants := regexp.MustCompile(`(?m)^    (VK_\w+) = `).FindAllSubmatch(ours, -1)
	require.Len(t, constants, 16)
	for _, c := range constants {
		fmt.Fprintf(&body, "printf(\"%s %%d\\n\", (int)%s);\n", c[1], c[1])
	}
	require.Contains(t, string(younger), "VkCooperativeMatrixPropertiesKHR")
	at := "printf(\"%%zu\", (size_t)%s);\n"
	assert.Equal(t, printed(t, "<vulkan/vulkan.h>", fmt.Sprintf(at, "offsetof(VkPhysicalDeviceLimits, timestampPeriod)")),
		printed(t, `"native_vulkan.h"`, fmt.Sprintf(at, "GT_TIMESTAMP_PERIOD")))
	assert.Equal(t, printed(t, "<vulkan/vulkan.h>", body.String()), printed(t, `"native_vulkan.h"`, body.String()))
}

// printed is what a program in C prints that includes a header.
func printed(t *testing.T, include, body string) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.c"), filepath.Join(dir, "main")
	text := "#include <stdio.h>\n#include <stddef.h>\n#include " + include + "\nint main(void) {\n" + body + "return 0;\n}\n"
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	out, err := exec.Command("cc", "-I"+here, "-w", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	return string(out)
}

// A device is asked for what its adapter has, also where that is all bits set, which the library would take for no wish; and what it lacks is named.
func TestAskedLimits(t *testing.T) {
	out := printed(t, `"native_limits.h"`, `
    WGPULimits asked = {.maxBufferSize = UINT64_MAX, .maxBindingsPerBindGroup = UINT32_MAX, .maxUniformBufferBindingSize = 65536}, has = asked;
    char lacks[200] = "nothing";
    gt_ask(&asked);
    printf("%llx %x %llu %d %s\n", (unsigned long long)asked.maxBufferSize, asked.maxBindingsPerBindGroup,
        (unsigned long long)asked.maxUniformBufferBindingSize, gt_lacks(&has, &asked, lacks, sizeof lacks), lacks);
    has.maxBufferSize = 1 << 28;
    printf("%d %s\n", gt_lacks(&has, &asked, lacks, sizeof lacks), lacks);
`)
	assert.Equal(t, "fffffffffffffffe fffffffe 65536 0 nothing\n1 limit maxBufferSize: found 268435456, wanted 18446744073709551614\n", out)
}
