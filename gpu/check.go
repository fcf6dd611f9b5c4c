package gpu

import (
	"cmp"
	"fmt"
)

// What the driver would abort on, or refuse with less to say, is found here when a command is recorded.

func (r *Recording) checkDispatch(c *command) error {
	k, lim := c.kernel, r.device.limits
	if err := k.check(lim); err != nil {
		return err
	}
	for i, n := range [3]uint32{c.grid.X, c.grid.Y, c.grid.Z} {
		if n > lim.Workgroups {
			return &LimitError{fmt.Sprintf("grid %s: dimension %d", c.grid, i), uint64(n), uint64(lim.Workgroups), "Workgroups"}
		}
	}
	bindings := k.Bindings
	if c.params != nil {
		if len(bindings) == 0 || bindings[0].Access != Uniform {
			return fmt.Errorf("params given, but binding 0 is not a uniform")
		}
		if n := uint64(len(c.params)); n > lim.UniformBytes {
			return &LimitError{"params", n, lim.UniformBytes, "UniformBytes"}
		}
		bindings = bindings[1:]
	}
	if err := r.device.CheckBindings(bindings, c.bind...); err != nil {
		return err
	}
	return cmp.Or(checkAliases(bindings, c.bind), r.device.formOf(c).err)
}

func (d *Device) checkBinding(b Binding, g Range) error {
	lim := d.limits
	if err := g.check(d); err != nil {
		return err
	}
	isUniform := g.Buffer.usage&usageUniform == usageUniform
	if b.Access == Uniform {
		switch {
		case !isUniform:
			return fmt.Errorf("%s: is a storage buffer, want one from NewUniform", g)
		case g.Offset%lim.UniformAlign != 0:
			return fmt.Errorf("%s: offset %d is not a multiple of UniformAlign %d", g, g.Offset, lim.UniformAlign)
		case g.Bytes > lim.UniformBytes:
			return &LimitError{g.String(), g.Bytes, lim.UniformBytes, "UniformBytes"}
		}
		return nil
	}
	switch {
	case isUniform:
		return fmt.Errorf("%s: is a uniform buffer, want storage", g)
	case g.Buffer.usage == usageTexels && g.Offset > 0:
		return fmt.Errorf("%s: is of texels, want it from its start on", g)
	case g.Offset%lim.StorageAlign != 0:
		return fmt.Errorf("%s: offset %d is not a multiple of StorageAlign %d", g, g.Offset, lim.StorageAlign)
	case g.Bytes > lim.BindingBytes:
		return &LimitError{g.String(), g.Bytes, lim.BindingBytes, "BindingBytes"}
	}
	return nil
}

// checkAliases refuses one buffer both read and written by a dispatch (usage is tracked by buffer, also at disjoint
// ranges), and overlapping ranges written twice.
func checkAliases(bindings []Binding, bind []Range) error {
	for i, a := range bindings {
		for j := range bindings[:i] {
			b := bindings[j]
			if a.Access == Uniform || b.Access == Uniform || bind[i].Buffer != bind[j].Buffer {
				continue
			}
			if a.Access != b.Access {
				return fmt.Errorf("buffer %q is bound %s as %q and %s as %q: bind both read_write at disjoint ranges, or use two buffers",
					bind[i].Buffer.label, b.Access, b.Name, a.Access, a.Name)
			}
			if a.Access == ReadWrite && bind[i].overlaps(bind[j]) {
				return fmt.Errorf("%q and %q overlap: %s and %s", b.Name, a.Name, bind[j], bind[i])
			}
		}
	}
	return nil
}

func (r *Recording) checkCopy(dst, src Range) error {
	if err := dst.checkMoved(r.device); err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	if err := src.checkMoved(r.device); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	switch {
	case src.Buffer == dst.Buffer:
		return fmt.Errorf("%s to %s: source and destination are one buffer", src, dst)
	case src.Buffer.usage&usageStorage != usageStorage:
		return fmt.Errorf("%s: a uniform buffer cannot be copied from", src)
	case src.Bytes != dst.Bytes:
		return fmt.Errorf("%s to %s: sizes differ", src, dst)
	}
	return nil
}

// check tests a kernel against limits.
func (k *Kernel) check(lim Limits) error {
	if k.err != nil {
		return k.err
	}
	storage := 0
	for _, b := range k.Bindings {
		if b.Access != Uniform {
			storage++
		}
	}
	if storage > lim.StorageBuffers {
		return &LimitError{"storage bindings", uint64(storage), uint64(lim.StorageBuffers), "StorageBuffers"}
	}
	w := k.workgroup
	if w[0] < 1 || w[1] < 1 || w[2] < 1 {
		return fmt.Errorf("found no @workgroup_size in figures of at least 1")
	}
	for i, n := range w {
		if n > lim.WorkgroupSize[i] {
			return &LimitError{fmt.Sprintf("workgroup dimension %d", i), uint64(n), uint64(lim.WorkgroupSize[i]), "WorkgroupSize"}
		}
	}
	if n := w[0] * w[1] * w[2]; n > lim.Invocations {
		return &LimitError{"workgroup", uint64(n), uint64(lim.Invocations), "Invocations"}
	}
	if k.shared > lim.WorkgroupBytes {
		return &LimitError{"workgroup memory", uint64(k.shared), uint64(lim.WorkgroupBytes), "WorkgroupBytes"}
	}
	return nil
}
