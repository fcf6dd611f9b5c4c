//go:build window

// Package screen is for tests that look at a window: an X server without hardware.
package screen

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Screen is an X server without hardware (Xvfb), whose screen a test can see.
type Screen struct {
	Display string // as $DISPLAY has it, which is set for the test
	file    string
}

// New starts an X server that ends with the test. Without Xvfb the test is skipped, or fails where
// GPUTRAIN_REQUIRE_WINDOW is 1.
func New(t testing.TB, width, height int) *Screen {
	t.Helper()
	if _, err := exec.LookPath("Xvfb"); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_WINDOW") == "1" {
			t.Fatalf("GPUTRAIN_REQUIRE_WINDOW=1: %v", err)
		}
		t.Skipf("skipped, needs Xvfb (Debian, Ubuntu: apt-get install xvfb): %v", err)
	}
	dir := t.TempDir()
	number, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer number.Close()
	server := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", fmt.Sprintf("%dx%dx24", width, height), "-fbdir", dir, "-nolisten", "tcp")
	server.ExtraFiles = []*os.File{theirs}
	err = server.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(number).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb tells no display: %v", err)
	}
	s := &Screen{Display: ":" + strings.TrimSpace(line), file: filepath.Join(dir, "Xvfb_screen0")}
	t.Setenv("DISPLAY", s.Display)
	return s
}

// Picture is what is on the screen now.
func (s *Screen) Picture(t testing.TB) *image.RGBA {
	t.Helper()
	raw, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	// The file is an X window dump: big-endian words, then a colour map, then 32 bits a pixel.
	word := func(i int) int { return int(binary.BigEndian.Uint32(raw[4*i:])) }
	width, height, stride, colors := word(4), word(5), word(12), word(19)
	if word(11) != 32 || word(7) != 0 {
		t.Fatalf("%s: found %d bits a pixel, byte order %d, wanted 32 and 0", s.file, word(11), word(7))
	}
	pixels := raw[word(0)+12*colors:]
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			p := pixels[y*stride+4*x:]
			out.SetRGBA(x, y, color.RGBA{R: p[2], G: p[1], B: p[0], A: 255})
		}
	}
	return out
}

// Keep writes a picture to $GPUTRAIN_SCREENSHOTS/name.png, where that is set.
func Keep(t testing.TB, picture image.Image, name string) {
	t.Helper()
	dir := os.Getenv("GPUTRAIN_SCREENSHOTS")
	if dir == "" {
		return
	}
	f, err := os.Create(filepath.Join(dir, name+".png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, picture); err != nil {
		t.Fatal(err)
	}
}
