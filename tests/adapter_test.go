package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// openGLOnly hides Vulkan's drivers from a command, and skips the test where something better than OpenGL on the processor is left, or nothing.
func openGLOnly(t *testing.T, p *place) func(*command) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("skipped, drivers are hidden as on Linux")
	}
	hide := func(c *command) { c.env = append(c.env, "VK_ICD_FILENAMES=/dev/null", "VK_DRIVER_FILES=/dev/null") }
	r := p.command("devices", "--json").withoutAdapter().with(hide).run(t)
	var found []struct{ Class string }
	if r.code != 0 || json.Unmarshal([]byte(r.out), &found) != nil || len(found) != 1 || found[0].Class != "OpenGL on the processor" {
		t.Skipf("skipped, this machine has no OpenGL on the processor, or Vulkan cannot be hidden:\n%s%s", r.out, r.err)
	}
	return hide
}

// With OpenGL on the processor alone every command says in one line what that is, and how something faster is to be had.
func TestCommandsSayWhatIsFaster(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestMakeAdapterInstallsTheDriver")
	p := newPlace(t)
	hide := openGLOnly(t, p)
	p.write(t, "bin/apt-get", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(p.path("bin", "apt-get"), 0o755))
	bare := func(c *command) {
		hide(c)
		c.env = append(c.env, "PATH="+p.path("bin"))
	}
	const says = `gl, cpu, driver .*: OpenGL on the processor; faster: Vulkan's software driver, .* times as fast: (sudo )?apt-get update && `
	listed := ok(t, p.command("devices").withoutAdapter().with(bare))
	assert.Regexp(t, `(?m)^taken: 0: .*`+says, listed.out)
	trains, line := p.train("run", "--set", "train.steps=8").withoutAdapter().with(bare).start(t), regexp.MustCompile(`(?m)^adapter 0: .*`+says)
	assert.True(t, trains.until(t, "the adapter", func() bool { return line.MatchString(trains.err.String()) }), trains.err.String())
	if !testing.Short() { // the kernels are compiled for OpenGL, to be run once
		r := trains.wait(t)
		assert.Zero(t, r.code, r.err)
	}
	copied := ok(t, p.command("bench", "copy", "--json").withoutAdapter().with(bare))
	assert.Regexp(t, `(?m)^0: .*`+says, copied.err)
	assert.NotContains(t, copied.out, "faster")
}

// make installs the driver where it can, and goes on with what there is where it cannot.
func TestMakeAdapterInstallsTheDriver(t *testing.T) {
	p := newPlace(t)
	hide := openGLOnly(t, p)
	run := func(stub string, env ...string) (string, string) {
		t.Helper()
		log := p.path("asked")
		require.NoError(t, os.RemoveAll(log))
		for name, script := range map[string]string{"apt-get": "echo $* >>" + log + "\n" + stub, "sudo": `exec "$@"`} {
			p.write(t, "bin/"+name, "#!/bin/sh\n"+script+"\n")
			require.NoError(t, os.Chmod(p.path("bin", name), 0o755))
		}
		script, err := filepath.Abs("../tools/adapter.sh")
		require.NoError(t, err)
		c := command{program: "sh", dir: p.dir, args: []string{script, program}, bare: true}
		hide(&c)
		c.env = append(append(c.env, "PATH="+p.path("bin")+":"+os.Getenv("PATH")), env...)
		r := ok(t, c)
		asked, _ := os.ReadFile(log)
		return string(asked), r.err
	}
	asked, says := run("exit 0")
	assert.Equal(t, "update\ninstall -y mesa-vulkan-drivers libvulkan1\n", asked)
	assert.Contains(t, says, "still no Vulkan adapter; going on")
	assert.Contains(t, says, "gputrain: adapter 0: ")

	asked, says = run("exit 1")
	assert.Equal(t, "update\n", asked)
	assert.Contains(t, says, "that failed")
	assert.Contains(t, says, "still no Vulkan adapter; going on")

	asked, says = run("exit 1", "GPUTRAIN_ADAPTER=0") // whoever names an adapter wants it
	assert.Empty(t, asked)
	assert.Equal(t, 1, strings.Count(says, "\n"), says)
}
