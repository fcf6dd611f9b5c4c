package texts

import (
	"fmt"
	"maps"

	"gputrain/run/data"
)

var _ data.Labelled = (*Documents)(nil)

// With lays numbers beside windows.
func (d *Documents) With(size int, name string, values []float32) (data.Source, error) {
	p, err := d.pack(d.later(), size)
	if err != nil {
		return nil, err
	}
	if n := p.Windows() * int64(p.each()); n != int64(len(values)) {
		return nil, fmt.Errorf("data: %s: found %d numbers, wanted %d for each of %d windows", name, len(values), p.each(), p.Windows())
	}
	own, laid := *d, *p
	laid.beside = maps.Clone(p.beside)
	if laid.beside == nil {
		laid.beside = map[string][]float32{}
	}
	laid.beside[name] = values
	own.laid = &laid
	return &own, nil
}
