package gpu

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// String is "4x1x1".
func (g Grid) String() string { return fmt.Sprintf("%dx%dx%d", g.X, g.Y, g.Z) }

// String is the recording as text, a line a command, the same for the same commands whatever the device: golden tests
// compare it. Params are shown as 32-bit words in hexadecimal.
func (r *Recording) String() string { return describeCommands(r.label, r.commands) }

func describeCommands(label string, commands []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "recording %q\n", label)
	for i := range commands {
		fmt.Fprintf(&b, "%d %s\n", i, &commands[i])
	}
	return b.String()
}

func (c *command) String() string {
	switch c.kind {
	case kindGroup:
		return "group " + c.label
	case kindRefresh:
		return fmt.Sprintf("refresh %s <- %s", c.dst, c.src)
	case kindCopy:
		return fmt.Sprintf("copy %s <- %s", c.dst, c.src)
	case kindZero:
		return fmt.Sprintf("zero %s", c.dst)
	case kindReadBack:
		name := "nil"
		if c.readback != nil {
			name = c.readback.label
		}
		return fmt.Sprintf("readback %s <- %s", name, c.src)
	}
	if c.kernel == nil {
		return "dispatch nil"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "dispatch %s %s", c.label, c.grid)
	bindings := c.kernel.Bindings
	if c.params != nil {
		b.WriteString(" params")
		for i := 0; i < len(c.params); i += 4 {
			fmt.Fprintf(&b, " %x", binary.LittleEndian.Uint32(c.params[i:]))
		}
		if len(bindings) > 0 {
			bindings = bindings[1:]
		}
	}
	for i, r := range c.bind {
		name, access := "?", Access(-1)
		if i < len(bindings) {
			name, access = bindings[i].Name, bindings[i].Access
		}
		sign := map[Access]string{Uniform: "@", Read: "<", ReadWrite: "=", Texels: "~", WrittenTexels: "~="}[access]
		fmt.Fprintf(&b, " %s%s%s", name, sign, r)
	}
	return b.String()
}
