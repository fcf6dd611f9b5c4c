package state

import (
	"errors"
	"fmt"

	"gputrain/gpu"
)

// ErrSpent says that a value has been handed on: what it had is another's.
var ErrSpent = errors.New("spent")

// Value is a training state as a value: what Fields lists, on one device. It owns what it is made of, and there is one owner: a method that
// returns a Value hands everything on to that, and the one it was called on, with all copies of it, is spent, as a buffer that was donated is in
// JAX. So no step copies anything, and none works by mistake on what an earlier one has left.
//
//	v, err = v.ApplyGradients(ctx, grads) // the usual way to write it
//
// Every later use of a spent value is ErrSpent, and the zero Value is spent. To keep a state and go on with it, Clone it. A method that fails hands
// nothing on. A Value is used from one goroutine; its last owner calls Release.
type Value struct{ owner *owner }

// owner is what all copies of a Value share.
type owner struct{ held *held }

// held is what a value owns, and what it has made of it.
type held struct {
	Fields
	updater *Updater // with the gradients of the newest call; nil before the first
	view    *Model
}

// New makes a value of its parts, which it takes over. Parts that do not go together are a *FieldsError; then all stay the caller's.
func New(f Fields) (Value, error) {
	f, err := f.complete()
	if err != nil {
		return Value{}, fmt.Errorf("state: value: %w", err)
	}
	return holding(&held{Fields: f}), nil
}

func holding(h *held) Value { return Value{&owner{h}} }

// use gives what the value has, for an operation.
func (v Value) use(operation string) (*held, error) {
	if v.owner == nil || v.owner.held == nil {
		return nil, fmt.Errorf("state: value: %s: %w", operation, ErrSpent)
	}
	return v.owner.held, nil
}

// pass hands everything on.
func (v Value) pass() Value {
	h := v.owner.held
	v.owner.held = nil
	return holding(h)
}

// Fields are the parts of the value, which stay the value's: trees may be read and written, not released.
func (v Value) Fields() (Fields, error) {
	h, err := v.use("fields")
	if err != nil {
		return Fields{}, err
	}
	return h.Fields, nil
}

// Size is what params, optimizer state and other variables take on the device, in bytes; nothing of a spent value.
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
		v.owner.held = nil
		h.release()
	}
}

func (h *held) release() {
	h.forget()
	h.releaseUnless(Fields{})
}

// forget drops what was made of the parts.
func (h *held) forget() {
	h.updater.Release()
	if h.view != nil {
		h.view.Release()
	}
	h.updater, h.view = nil, nil
}

func (f Fields) size() (params, optimizer, other uint64) {
	if f.OptimizerState != nil {
		optimizer = f.OptimizerState.Bytes()
	}
	if f.Other != nil {
		other = f.Other.Bytes()
	}
	for _, tree := range f.params() {
		params += tree.Bytes()
	}
	return params, optimizer, other
}

// String tells what the fields are in one line.
func (f Fields) String() string {
	kind := "trees"
	if f.Definition != nil {
		kind = f.Definition.Kind()
	}
	params, optimizer, other := f.size()
	elements := 0
	for _, tree := range f.params() {
		elements += tree.Layout().Elements()
	}
	text := fmt.Sprintf("%s with %d parameters%s at step %d, params %s", kind, elements, frozenText(f.Frozen), f.Step, gpu.SizeText(params))
	if f.OptimizerState != nil {
		text += fmt.Sprintf(", %s state %s", f.Transform.Name(), gpu.SizeText(optimizer))
	}
	if f.Other != nil {
		text += ", other variables " + gpu.SizeText(other)
	}
	return text
}
