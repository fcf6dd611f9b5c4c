package gpu

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gputrain/shaders"
)

// Access says what a kernel does with a binding.
type Access int

const (
	Uniform       Access = iota // var<uniform>
	Read                        // var<storage, read>
	ReadWrite                   // var<storage, read_write>
	Texels                      // texture_storage_2d<rgba32float, read>, see texels.go
	WrittenTexels               // texture_storage_2d<rgba32float, write>
)

func (a Access) String() string {
	return [...]string{"uniform", "read", "read_write", "texels", "written texels"}[a]
}

func (a Access) writes() bool { return a == ReadWrite || a == WrittenTexels }

// Binding is one @group(0) @binding(i) of a kernel.
type Binding struct {
	Name   string
	Access Access
}

// Kernel is a shader and what it says of itself. Its pipeline is cached in the device by its source.
type Kernel struct {
	Label    string    // gputrain.<package>.<name>
	Source   string    // final WGSL, entry main
	Bindings []Binding // @group(0) @binding(i), in this order

	// Reuse says that each element of what the kernel reads is read many times.
	Reuse bool

	workgroup [3]int // zeros for the shaders of a sheet
	shared    int    // bytes of workgroup memory
	params    []word // of the uniform at binding 0, where there is one
	err       error
	known     *sync.Map // types of Go that match params: thousands of dispatches have few
	passes    *passes   // see Moved
	matrix    matrixUse // units that it multiplies by
	forms     *sync.Map // that read texels, by their number
}

var kernels sync.Map // of label, file and variant, *Kernel: a big tile is a hundred kilobytes of text

// NewKernel is a file of package shaders, "kron_begin", in a variant. The first recording that dispatches it returns its error.
func NewKernel(label, file string, v shaders.Variant) *Kernel {
	parts := []string{label, file}
	for name, on := range v.Flags {
		parts = append(parts, name+strconv.FormatBool(on))
	}
	for name, value := range v.Constants {
		parts = append(parts, name+"="+value)
	}
	slices.Sort(parts[2:])
	key := strings.Join(parts, "\n")
	if known, ok := kernels.Load(key); ok {
		return known.(*Kernel)
	}
	source, err := shaders.Source(file+".wgsl", v)
	k := KernelOf(label, source)
	if k.Reuse = shaders.Reuses(file); err != nil {
		k.err = err
	}
	known, _ := kernels.LoadOrStore(key, k)
	return known.(*Kernel)
}

// KernelOf is a kernel of final WGSL: bindings in group 0, in order from 0.
func KernelOf(label, source string) *Kernel {
	k := &Kernel{Label: label, Source: source, known: &sync.Map{}, passes: &passes{}, forms: &sync.Map{}}
	k.err = k.reflect()
	return k
}

// Params lays a value out as the kernel's uniform at binding 0, to a multiple of 16 bytes: a struct with the fields of the shader's, by name,
// type and order, or numbers of its types. Words that the shader calls pad may be missing. Nil is no params.
func (k *Kernel) Params(value any) ([]byte, error) {
	if k.err != nil || value == nil {
		return nil, k.err
	}
	if err := k.matches(value); err != nil {
		return nil, err
	}
	raw := make([]byte, alignUp(4*uint64(len(k.params)), 16))
	copy(raw, Bytes(value))
	return raw, nil
}

// Bytes are numbers, and structs and lists of them, as they lie on a device. Bytes are themselves.
func Bytes(table any) []byte {
	if raw, ok := table.([]byte); ok {
		return raw
	}
	raw, err := binary.Append(nil, binary.LittleEndian, table)
	if err != nil {
		panic(fmt.Sprintf("gpu: bytes of %T: %v", table, err)) // a type of ours that is not of fixed size
	}
	return raw
}
