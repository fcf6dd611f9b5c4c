package reward

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"gputrain/internal/terminal"
)

const (
	mostLine  = 64 << 10 // bytes of an answer
	mostSaid  = 64 << 10 // bytes of stderr that are logged of a batch
	mostPiece = 4 << 10  // bytes of a line of stderr; a longer one is several
)

// A process is one start of a command. Its goroutines are over when end returns.
type process struct {
	cmd     *exec.Cmd
	group   *group
	stdin   *os.File
	said    *sayings
	answers chan answer   // closed at the end of its stdout
	closing chan struct{} // closed where nobody takes answers any more
	gone    chan struct{} // closed once the process has ended
	state   error         // how, then
	running sync.WaitGroup
}

// An answer is a line.
type answer struct {
	value float64
	text  string // as an error has it
	more  bool   // whether other bytes came with it
	err   error
}

// start starts a command, in a group of its own: what it starts ends with it.
func start(args []string, dir string, said *sayings) (p *process, err error) {
	p = &process{
		cmd: exec.Command(args[0], args[1:]...), said: said,
		answers: make(chan answer), closing: make(chan struct{}), gone: make(chan struct{}),
	}
	var files [6]*os.File // read and write ends
	defer func() {
		theirs := []*os.File{files[0], files[3], files[5]}
		if err != nil {
			theirs = files[:]
		}
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
	}()
	for i := 0; i < len(files); i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("command %q: %w", args[0], err)
		}
	}
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.stdin = dir, files[0], files[3], files[5], files[1]
	if p.group, err = started(p.cmd); err != nil {
		return nil, fmt.Errorf("command %q: %w: wanted a program that may be run, and its arguments as items of the list", terminal.Text(args[0]), err)
	}
	stdout, stderr := files[2], files[4]
	var reading sync.WaitGroup
	reading.Go(func() { p.read(stdout) })
	reading.Go(func() { said.read(stderr) })
	p.running.Go(func() {
		p.state = p.cmd.Wait()
		p.group.kill() // what it has left
		close(p.gone)
		read := make(chan struct{})
		go func() { reading.Wait(); close(read) }()
		select {
		case <-read:
		case <-time.After(leftPatience): // one that left the group has the pipes
		}
		stdout.Close()
		stderr.Close()
		p.group.release()
		<-read
	})
	return p, nil
}

// read reads answers until one is wrong, one ahead of ask.
func (p *process) read(stdout io.Reader) {
	defer close(p.answers)
	r := bufio.NewReaderSize(stdout, mostLine)
	for {
		text, err := r.ReadSlice('\n')
		if len(text) == 0 {
			return
		}
		a := answerOf(text)
		if errors.Is(err, bufio.ErrBufferFull) {
			a.err = fmt.Errorf("found a line of more than %d bytes, wanted a number or null: %s", mostLine, a.text)
		}
		a.more = r.Buffered() > 0
		select {
		case p.answers <- a:
		case <-p.closing:
			_, _ = io.Copy(io.Discard, stdout) // until it has ended, which it may do by saying more
			return
		}
		if a.err != nil || err != nil {
			return
		}
	}
}

// answerOf reads a line.
func answerOf(line []byte) (a answer) {
	line = bytes.TrimSpace(line)
	a.text = shown(string(line[:min(len(line), mostShown)]))
	if len(line) > mostShown {
		a.text = shown(string(line))
	}
	if string(line) == "null" {
		a.value = math.NaN()
		return a
	}
	v, err := strconv.ParseFloat(string(line), 64)
	switch {
	case len(line) == 0 || len(bytes.Trim(line, "0123456789+-.eE")) > 0 || err != nil && !errors.Is(err, strconv.ErrRange):
		a.err = fmt.Errorf("found %s, wanted a number or null", a.text)
	case math.IsInf(v, 0):
		a.err = fmt.Errorf("found %s, wanted a number that is finite in 64 bits, or null", a.text)
	}
	a.value = v
	return a
}

// write writes to the stdin of the process, and closes done when all is written or nothing can be.
func (p *process) write(text []byte) (done chan struct{}) {
	done = make(chan struct{})
	p.running.Go(func() {
		defer close(done)
		_, _ = p.stdin.Write(text) // what is not read is not answered
	})
	return done
}

// ended is the error of a process that says no more, after n answers.
func (p *process) ended(samples []Sample, n int) error {
	how := "its stdout is closed"
	select {
	case <-p.gone:
		how = "it has ended"
		if p.state != nil {
			how += " (" + p.state.Error() + ")"
		}
	case <-time.After(leftPatience):
	}
	p.end(0)
	if last := p.said.lastLine(); last != "" {
		how += ", and wrote last " + last
	}
	return fmt.Errorf("row %d: found %d of %d answers: %s; wanted a line a row for as long as its stdin is open", samples[n].ID, n, len(samples), how)
}

// end ends the process: by the end of its stdin, and, when grace is over, by force.
func (p *process) end(grace time.Duration) {
	select {
	case <-p.closing: // it has been
		return
	default:
	}
	close(p.closing)
	p.stdin.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		p.group.kill()
	}
	p.running.Wait()
}

// sayings are what a command writes to stderr: so much of each batch is logged, as a terminal may have it.
type sayings struct {
	name string
	to   func(line string)

	mu   sync.Mutex
	had  int // bytes since renew
	out  int // bytes that were left out
	last string
}

// read logs lines to the end.
func (s *sayings) read(stderr io.Reader) {
	r := bufio.NewReaderSize(stderr, mostPiece)
	for {
		text, _, err := r.ReadLine()
		if err != nil {
			return
		}
		s.add(text)
	}
}

func (s *sayings) add(text []byte) {
	s.mu.Lock()
	had := s.had
	s.had += len(text) + 1
	if had+len(text) > mostSaid {
		s.out += len(text) + 1
		s.mu.Unlock()
		return
	}
	if len(bytes.TrimSpace(text)) > 0 {
		s.last = shown(string(text))
	}
	s.mu.Unlock()
	s.tell(string(text))
}

// tell logs a line.
func (s *sayings) tell(line string) {
	if s.to != nil {
		s.to(fmt.Sprintf("reward %q: %s", s.name, terminal.Text(line)))
	}
}

// renew begins another batch, and tells what was left out of the one before.
func (s *sayings) renew() {
	s.mu.Lock()
	out := s.out
	s.had, s.out = 0, 0
	s.mu.Unlock()
	if out > 0 {
		s.tell(fmt.Sprintf("[%d bytes of its stderr are left out]", out))
	}
}

// lastLine is the last one that was logged, as an error has it.
func (s *sayings) lastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
