package state

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gputrain/buffers"
	"gputrain/gpu"
)

// ErrSpent says that a value has been handed on: what it had is another's.
var ErrSpent = errors.New("spent")

// Value is a training state as a value: what Fields lists, on any number of devices. It owns what it is made of, and there is one owner: a method
// that returns a Value hands everything on to that, and the one it was called on, with all copies of it, is spent, as a buffer that was donated is in
// JAX. So no step copies anything, and none works by mistake on what an earlier one has left.
//
//	v, err = v.ApplyGradients(ctx, grads) // the usual way to write it
//
// Every later use of a spent value is ErrSpent, and the zero Value is spent. To keep a state and go on with it, Clone it. A method that fails hands
// nothing on. A Value is used from one goroutine; its last owner calls Release.
type Value struct{ content *content }

// content is what all copies of a Value share: its fields, and what it has made of them. The content of a spent value is empty.
type content struct {
	Fields
	updater *updater        // of the newest call; nil before the first
	grads   []*buffers.Tree // that it reads
	view    *Model
}

// New makes a value of its parts, which it takes over. Parts that do not go together are a *FieldsError; then all stay the caller's.
func New(f Fields) (Value, error) {
	f, err := f.complete()
	if err != nil {
		return Value{}, fmt.Errorf("state: value: %w", err)
	}
	return holding(f), nil
}

func holding(f Fields) Value { return Value{&content{Fields: f}} }

// use gives what the value has, for an operation.
func (v Value) use(operation string) (*content, error) {
	if v.content == nil || v.content.Params == nil && v.content.Stages == nil {
		return nil, fmt.Errorf("state: value: %s: %w", operation, ErrSpent)
	}
	return v.content, nil
}

// whole is use of a value that must lie on one device.
func (v Value) whole(operation string) (*content, error) {
	h, err := v.use(operation)
	if err == nil && h.Stages != nil {
		err = fmt.Errorf("state: value: %s: %w", operation, &FieldsError{"Stages", strconv.Itoa(len(h.Stages)), "none: Place the value on one device first"})
	}
	return h, err
}

// pass hands everything on.
func (v Value) pass() Value {
	next := *v.content
	*v.content = content{}
	return Value{&next}
}

// Fields are the parts of the value, which stay the value's: trees may be read and written, not released.
func (v Value) Fields() (Fields, error) {
	h, err := v.use("fields")
	if err != nil {
		return Fields{}, err
	}
	f := h.Fields
	f.Stages = slices.Clone(f.Stages)
	return f, nil
}

// Size is what params, optimizer state and other variables take on all devices, in bytes; nothing of a spent value.
func (v Value) Size() (params, optimizer, other uint64) {
	h, err := v.use("size")
	if err != nil {
		return 0, 0, 0
	}
	return h.size()
}

// String tells what the value is in one line.
func (v Value) String() string {
	h, err := v.use("text")
	if err != nil {
		return err.Error()
	}
	return h.String()
}

// Release gives the memory back; the value is spent. Of a spent value it does nothing.
func (v Value) Release() {
	if h, err := v.use("release"); err == nil {
		h.forget()
		h.releaseUnless(Fields{})
		*h = content{}
	}
}

// forget drops what was made of the parts.
func (h *content) forget() {
	h.updater.Release()
	h.view.Release()
	h.updater, h.grads, h.view = nil, nil, nil
}

func (f Fields) size() (params, optimizer, other uint64) {
	for _, r := range f.residents() {
		for _, tree := range buffers.Given(r.Params, r.Frozen) {
			params += tree.Bytes()
		}
		if r.State != nil {
			optimizer += r.State.Bytes()
		}
		if r.Other != nil {
			other += r.Other.Bytes()
		}
	}
	return params, optimizer, other
}

// String tells what the fields are in one line.
func (f Fields) String() string {
	text := "trees"
	if f.Definition != nil {
		text = f.Definition.Kind()
	}
	bytes, optimizer, other := f.size()
	params, frozen, rest := trees(f.residents())
	text += fmt.Sprintf(" with %d parameters", elements(params)+elements(frozen))
	if len(frozen) > 0 {
		text += fmt.Sprintf(", %d of them frozen", elements(frozen))
	}
	text += fmt.Sprintf(" at step %d", f.Step)
	if f.Stages != nil {
		text += fmt.Sprintf(" on %d stages", len(f.Stages))
	}
	text += ", params " + gpu.SizeText(bytes)
	if len(states(f.residents())) > 0 {
		text += fmt.Sprintf(", %s state %s", f.Transform.Name(), gpu.SizeText(optimizer))
	}
	if len(rest) > 0 {
		text += ", other variables " + gpu.SizeText(other)
	}
	return text
}

func elements(trees []*buffers.Tree) (n int) {
	for _, tree := range trees {
		n += tree.Layout().Elements()
	}
	return n
}
