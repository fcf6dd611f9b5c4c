//go:build linux

// Command slurm runs a command on a Slurm cluster of its own, whose two nodes are this machine, and ends the cluster with it.
//
//	slurm COMMAND...
//
// The command finds SLURM_CONF, with which sinfo, srun and sbatch find the cluster, and GPUTRAIN_TEST_SLURM. Where Slurm is not installed it says so and does nothing.
package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	nodes    = 2
	patience = 30 * time.Second // of what takes a second or two
)

// configuration is for one machine: nodes that differ in name, port and folders, no cgroups, and nothing that must be root's.
const configuration = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmUser=%[3]s
SlurmdUser=%[3]s
AuthInfo=socket=%[4]s/munge.socket
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/spool.%%n
TmpFS=%[4]s/tmp.%%n
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmdPidFile=%[4]s/slurmd.%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
SchedulerParameters=sched_interval=1
PartitionName=all Nodes=ALL Default=YES
`

func main() {
	code, err := 0, errors.New("found no command, wanted one")
	if len(os.Args) > 1 {
		code, err = run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurm:", err)
		if code = 1; errors.Is(err, exec.ErrNotFound) {
			code = 0
		}
	}
	os.Exit(code)
}

// run starts the cluster, runs the command and ends the cluster.
func run(command []string) (int, error) {
	runtime.LockOSThread() // Linux takes the thread for the parent of the daemons
	for _, name := range []string{"munged", "slurmctld", "slurmd", "srun"} {
		if _, err := exec.LookPath(name); err != nil {
			return 0, fmt.Errorf("skipped: %w (Debian, Ubuntu: apt-get install slurmctld slurmd slurm-client munge)", err)
		}
	}
	dir, err := os.MkdirTemp("", "gputrain-slurm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := configure(dir); err != nil {
		return 0, err
	}
	if err := errors.Join(os.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf")), os.Setenv("GPUTRAIN_TEST_SLURM", "1")); err != nil {
		return 0, err
	}
	socket := filepath.Join(dir, "munge.socket")
	munged, err := daemon(dir, "munged", "--foreground", "--force", "--key-file="+filepath.Join(dir, "munge.key"), "--socket="+socket,
		"--pid-file="+filepath.Join(dir, "munge.pid"), "--log-file="+filepath.Join(dir, "munge.log"), "--seed-file="+filepath.Join(dir, "munge.seed"))
	if err != nil {
		return 0, err
	}
	defer end(munged)
	if err := until("munged", func() bool { _, err := os.Stat(socket); return err == nil }); err != nil {
		return 0, err
	}
	controller, err := daemon(dir, "slurmctld", "-D", "-i")
	if err != nil {
		return 0, err
	}
	defer end(controller)
	for i := range nodes {
		node, err := daemon(dir, "slurmd", "-D", "-N", fmt.Sprint("node", i+1))
		if err != nil {
			return 0, err
		}
		defer end(node)
	}
	if err := until("the nodes", func() bool { return says("sinfo", "-h", "-t", "idle", "-o", "%D") == fmt.Sprint(nodes) }); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, logs(dir))
	}
	c := exec.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	failed := (*exec.ExitError)(nil)
	if err := c.Run(); err != nil && !errors.As(err, &failed) {
		return 0, err
	}
	says("scancel", "--partition=all")
	return c.ProcessState.ExitCode(), until("the end of all jobs", func() bool { return says("squeue", "-h") == "" })
}

// configure writes what the daemons read.
func configure(dir string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	ports, err := freePorts(nodes + 1)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(configuration, host, ports[nodes], me.Username, dir)
	folders := []string{"state"}
	for i := range nodes {
		name := fmt.Sprint("node", i+1)
		text += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=16 Gres=gpu:1\n", name, host, ports[i])
		folders = append(folders, "spool."+name, "tmp."+name)
	}
	for _, f := range folders {
		if err := os.Mkdir(filepath.Join(dir, f), 0o755); err != nil {
			return err
		}
	}
	key := make([]byte, 128)
	_, _ = rand.Read(key) // which never fails
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o600),
		os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "gres.conf"), []byte("Name=gpu File=/dev/null\n"), 0o600)) // a device must be one
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// daemon starts one in the foreground, which ends with this process. What it says goes to a file.
func daemon(dir, name string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return c, c.Start()
}

func end(c *exec.Cmd) {
	_ = c.Process.Signal(syscall.SIGTERM)
	hard := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
	_ = c.Wait()
	hard.Stop()
}

// says is what a command of Slurm writes, nothing where it fails.
func says(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(out))
}

func until(what string, there func() bool) error {
	for begin := time.Now(); !there(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > patience {
			return fmt.Errorf("found nothing of %s in %v", what, patience)
		}
	}
	return nil
}

func logs(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
