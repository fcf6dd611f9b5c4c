//go:build linux

// Command netns runs a command on the first of two hosts, which are network namespaces of this machine with names and addresses of their own. The link
// between them has a rate and a delay, and can be cut. mpirun enters them with an agent in place of ssh.
//
//	netns [-rate MBIT] [-delay DURATION] COMMAND...
//
// The command finds OMPI_MCA_ and PRTE_MCA_ variables that make mpirun take --host hosta:2,hostb:1; GPUTRAIN_TEST_HOSTS, that list; and two commands
// of the shell: GPUTRAIN_TEST_CUT has the link cut in the middle of the next large message, and GPUTRAIN_TEST_MEND mends it.
// Where namespaces are not allowed it says so and does nothing.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// inside is set for the process that is in namespaces of its own.
const inside = "GPUTRAIN_TEST_NETNS"

// errSkipped is something that this machine does not have or allow.
var errSkipped = errors.New("skipped")

func main() {
	rate := flag.Float64("rate", 1000, "of the link, in Mbit/s each way")
	delay := flag.Duration("delay", time.Millisecond, "of the link, each way")
	flag.Parse()
	code, err := 0, errors.New("found no command, wanted one")
	switch {
	case flag.NArg() == 0:
	case os.Getenv(inside) == "":
		code, err = unshare()
	default:
		w := &wire{bytesPerSecond: *rate * 1e6 / 8, delay: *delay}
		w.left.Store(math.MaxInt64)
		code, err = run(flag.Args(), w)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netns:", err)
		if code = 1; errors.Is(err, errSkipped) {
			code = 0
		}
	}
	os.Exit(code)
}

// unshare runs this program again in namespaces of its own: its end is the end of all that it has started.
func unshare() (int, error) {
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), inside+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("%w: no namespaces here: %w", errSkipped, err)
	}
	err := c.Wait()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return 0, err
	}
	return c.ProcessState.ExitCode(), nil
}

var hosts = []struct{ name, device, address string }{{"hosta", "ta", "10.77.0.1"}, {"hostb", "tb", "10.77.0.2"}}

// enter is to mpirun what ssh would be.
const enter = `#!/bin/sh
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
`

// run makes the hosts and the link, and runs the command on the first.
func run(command []string, w *wire) (int, error) {
	if err := private(); err != nil {
		return 0, fmt.Errorf("%w: mounts are not allowed: %w", errSkipped, err)
	}
	var ends [2]*os.File
	for i, h := range hosts {
		tun, err := openTun(h.device)
		if err != nil {
			return 0, fmt.Errorf("%w: no network device for the link: %w", errSkipped, err)
		}
		ends[i] = tun
		for _, args := range []string{
			"netns add " + h.name, "link set " + h.device + " netns " + h.name, "-n " + h.name + " link set lo up",
			"-n " + h.name + " addr add " + h.address + "/24 dev " + h.device, "-n " + h.name + " link set " + h.device + " up mtu 9000",
		} {
			if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
				return 0, fmt.Errorf("%w: ip %s: %w: %s", errSkipped, args, err, out)
			}
		}
	}
	go w.carry(ends[0], ends[1])
	go w.carry(ends[1], ends[0])
	orders := make(chan os.Signal, 1)
	signal.Notify(orders, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for o := range orders {
			if o == syscall.SIGUSR1 {
				fmt.Fprintln(os.Stderr, "netns: the link is cut in the middle of the next large message")
				w.left.Store(cutAfter)
				continue
			}
			fmt.Fprintln(os.Stderr, "netns: the link is mended")
			w.left.Store(math.MaxInt64)
		}
	}()
	c := exec.Command(agent, append([]string{hosts[0].name}, quoted(command)...)...)
	c.Env = append(os.Environ(), "OMPI_MCA_plm_rsh_agent="+agent, "OMPI_MCA_btl=tcp,self", "OMPI_MCA_btl_tcp_if_include=10.77.0.0/24",
		"OMPI_MCA_oob_tcp_if_include=10.77.0.0/24",
		"PRTE_MCA_plm_ssh_agent="+agent, "PRTE_MCA_prte_if_include=10.77.0.0/24", // Open MPI 5's names of the agent and of the network
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"GPUTRAIN_TEST_HOSTS=hosta:2,hostb:1", "GPUTRAIN_TEST_CUT=kill -USR1 1", "GPUTRAIN_TEST_MEND=kill -USR2 1") // this is process 1
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return 0, err
	}
	return c.ProcessState.ExitCode(), nil
}

const agent = "/run/enter"

// private makes what ip and names of hosts need, for the processes in here alone.
func private() error {
	names := "127.0.0.1 localhost\n"
	for _, h := range hosts {
		names += h.address + " " + h.name + "\n"
	}
	return errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""),
		os.WriteFile(agent, []byte(enter), 0o700),
		os.WriteFile(filepath.Join("/run", "hosts"), []byte(names), 0o600),
		unix.Mount("/run/hosts", "/etc/hosts", "", unix.MS_BIND, ""))
}

// quoted are words for the shell of the agent.
func quoted(words []string) []string {
	var all []string
	for _, w := range words {
		all = append(all, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return all
}

// wire carries packets.
type wire struct {
	bytesPerSecond float64
	delay          time.Duration
	left           atomic.Int64 // bytes of full packets until it is cut
}

// What ranks say to each other beside gradients takes no full packet, and the gradients of a step take more than cutAfter.
const (
	full     = 4_000
	cutAfter = 50_000
)

// packet is on its way.
type packet struct {
	b   []byte
	due time.Time
}

// queued is how many packets wait for the link at most; more are lost, as on any network.
const queued = 1000

// carry takes packets from one end to the other.
func (w *wire) carry(from, to *os.File) {
	way := make(chan packet, queued)
	go func() {
		for p := range way {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.b) // a device that is full loses it
		}
	}()
	free := time.Now()
	for {
		b := make([]byte, 1<<14)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if now := time.Now(); free.Before(now) {
			free = now
		}
		if n >= full {
			w.left.Add(-int64(n))
		}
		if w.left.Load() < 0 {
			continue
		}
		sent := free.Add(time.Duration(float64(n) / w.bytesPerSecond * float64(time.Second)))
		select {
		case way <- packet{b[:n], sent.Add(w.delay)}:
			free = sent
		default:
		}
	}
}

// openTun makes a network device whose packets are read and written.
func openTun(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "tun "+name), nil
}
