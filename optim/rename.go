package optim

import "slices"

// renamed gives the slots of a transformation other names, in the state and in the equations.
func renamed(t Transform, names map[string]string) Transform {
	t.elements = slices.Clone(t.elements)
	for i, e := range t.elements {
		e.Slots = slices.Clone(e.Slots)
		for k, s := range e.Slots {
			if to, ok := names[s.Name]; ok {
				e.Slots[k].Name = to
			}
		}
		e.WGSL = placeholder.ReplaceAllStringFunc(e.WGSL, func(name string) string {
			if to, ok := names[name[1:]]; ok {
				return "$" + to
			}
			return name
		})
		t.elements[i] = e
	}
	return t
}
