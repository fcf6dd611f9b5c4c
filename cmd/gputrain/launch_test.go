package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLaunchIsCheckedOnce(t *testing.T) {
	dir := t.TempDir()
	hosts, run := filepath.Join(dir, "hosts"), filepath.Join(dir, "run.yaml")
	require.NoError(t, os.WriteFile(hosts, []byte("a slots=2\nb\n"), 0o600))
	require.NoError(t, os.WriteFile(run, []byte("train: {steps: 3}\n"), 0o600))
	good := []string{"train", run, "--set", "train.batch=2"}
	job, err := (&launchCmd{Hosts: hosts, Restarts: 1, Shrink: true, Command: append([]string{"--"}, good...)}).job()
	require.NoError(t, err)
	assert.Equal(t, 3, job.ranks)
	assert.Equal(t, good, job.command[1:])
	stages := append(good, "--set", "pipeline.stages=2", "--set", "pipeline.adapters=['0:0', '1:0']")
	job, err = (&launchCmd{Hosts: hosts, Command: stages}).job()
	require.NoError(t, err)
	assert.Equal(t, 2, job.ranks, "of three slots")
	for want, c := range map[string]launchCmd{
		"found 3 ranks, wanted a multiple of the 2":   {Ranks: 3, Command: stages},
		"found -n 0, wanted 1 to 1048576 ranks":       {Command: good},
		"found -n 1048577, wanted 1 to 1048576 ranks": {Ranks: 1<<20 + 1, Command: good},
		"found -n 4 and 3 slots":                      {Ranks: 4, Hosts: hosts, Command: good},
		"found --restarts -1, wanted 0 or more":       {Ranks: 2, Restarts: -1, Command: good},
		"wanted also --hosts":                         {Ranks: 2, Restarts: 1, Shrink: true, Command: good},
		"and --restarts":                              {Hosts: hosts, Shrink: true, Command: good},
		`found "plan", wanted train`:                  {Ranks: 2, Command: []string{"plan"}},
		`unknown flag --freesh, did you mean "--fres`: {Ranks: 2, Command: []string{"--", "train", "--freesh"}},
		"no such file or directory":                   {Ranks: 2, Command: []string{"train", filepath.Join(dir, "none.yaml")}},
		"train.stepps":                                {Ranks: 2, Command: []string{"train", "--set", "train.stepps=1"}},
	} {
		_, err := c.job()
		assert.ErrorContains(t, err, want)
	}
}

// A launch starts a run over once: what is there after that is wanted.
func TestStartedOver(t *testing.T) {
	dir := t.TempDir()
	mark := func(launch string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".gputrain"), []byte(`{"format":1,"from":"","launch":"`+launch+`"}`), 0o600))
	}
	t.Setenv("GPUTRAIN_LAUNCH", "/tmp/this")
	assert.False(t, startedOver(dir), "no run yet")
	mark("other")
	assert.False(t, startedOver(dir))
	mark("this")
	assert.True(t, startedOver(dir))
	mark("")
	t.Setenv("GPUTRAIN_LAUNCH", "")
	assert.False(t, startedOver(dir), "of no launch")
}

// understood reads a command line of an example as the program would.
func understood(t *testing.T, args []string) *cli {
	t.Helper()
	var c cli
	_, err := kong.Must(&c, kong.Name("gputrain"), kong.NamedMapper("path", kong.MapperFunc(somePath))).Parse(args)
	require.NoError(t, err, "%q", args)
	return &c
}

// The example for Slurm does what it says, with programs in place of Slurm's that write down what they are given.
func TestSlurmExample(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash: ", err)
	}
	script, err := filepath.Abs("../../docs/cluster/slurm.sh")
	require.NoError(t, err)
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	for _, directive := range []string{"--signal=USR1@120", "--requeue"} {
		assert.Contains(t, string(text), "\n#SBATCH "+directive+"\n")
	}
	for _, c := range []struct {
		code, restarts string
		requeued       bool
	}{
		{"0", "", false},
		{"1", "", false},
		{"3", "", true},
		{"4", "", false},
		{"9", "", true},
		{"137", "99", true},
		{"3", "100", true},
		{"9", "100", false},
		{"137", "100", false},
	} {
		dir := t.TempDir()
		for name, body := range map[string]string{"srun": `printf '%s\n' "$@" >srun.args; exit ` + c.code, "scontrol": `echo "$@" >scontrol.args`} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700))
		}
		run := exec.Command(bash, script, "my run.yaml")
		run.Dir, run.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_JOB_ID=17", "SLURM_RESTART_COUNT="+c.restarts)
		_ = run.Run()
		assert.Equal(t, c.code, strconv.Itoa(run.ProcessState.ExitCode()))
		requeue, err := os.ReadFile(filepath.Join(dir, "scontrol.args"))
		assert.Equal(t, c.requeued, err == nil, "%v", c)
		if c.requeued {
			assert.Equal(t, "requeue 17\n", string(requeue))
		}
		given, err := os.ReadFile(filepath.Join(dir, "srun.args"))
		require.NoError(t, err)
		own, args, found := strings.Cut(string(given), "gputrain\n")
		require.True(t, found, "%s", given)
		assert.Contains(t, own, "--mpi=pmix\n")
		line := understood(t, strings.Split(strings.TrimSpace(args), "\n"))
		assert.Equal(t, []string{"my run.yaml"}, line.Train.Files)
	}
}

// What the example for Kubernetes starts are commands and flags that exist.
func TestMPIJobExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/cluster/mpijob.yaml")
	require.NoError(t, err)
	type pod struct {
		Replicas int
		Template struct {
			Spec struct {
				Containers []struct {
					Command      []string
					VolumeMounts []struct{ Name string } `yaml:"volumeMounts"`
				}
				Volumes []struct{ Name string }
			}
		}
	}
	var job struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Spec       struct {
			MPIReplicaSpecs struct {
				Launcher pod `yaml:"Launcher"`
				Worker   pod `yaml:"Worker"`
			} `yaml:"mpiReplicaSpecs"`
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &job))
	assert.Equal(t, "kubeflow.org/v2beta1 MPIJob", job.APIVersion+" "+job.Kind)
	launcher := job.Spec.MPIReplicaSpecs.Launcher
	require.Len(t, launcher.Template.Spec.Containers, 1)
	command := launcher.Template.Spec.Containers[0].Command
	require.Equal(t, "gputrain", command[0])
	c := understood(t, command[1:])
	assert.Equal(t, "/etc/mpi/hostfile", c.Launch.Hosts)
	assert.Positive(t, c.Launch.Restarts)
	require.Equal(t, "--", c.Launch.Command[0])
	understood(t, c.Launch.Command[1:])
	for _, p := range []pod{launcher, job.Spec.MPIReplicaSpecs.Worker} {
		assert.Positive(t, p.Replicas)
		assert.Equal(t, p.Template.Spec.Volumes[0].Name, p.Template.Spec.Containers[0].VolumeMounts[0].Name)
	}
}
