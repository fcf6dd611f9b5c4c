package optim

import "slices"

// renamed gives the slots of a transformation other names, in the state and in the equations.
func renamed(t Transform, names map[string]string) Transform {
	t.elements = slices.Clone(t.elements)
	for i, e := range t.elements {
		e.slots = slices.Clone(e.slots)
		for k, s := range e.slots {
			if to, ok := names[s.name]; ok {
				e.slots[k].name = to
			}
		}
		e.wgsl = placeholder.ReplaceAllStringFunc(e.wgsl, func(name string) string {
			if to, ok := names[name[1:]]; ok {
				return "$" + to
			}
			return name
		})
		t.elements[i] = e
	}
	return t
}
