package kron

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"gputrain/gpu"
	"gputrain/shaders"
)

// kernels holds each specialisation once: a big tile is a hundred kilobytes of text.
var kernels sync.Map // of file and variant, *gpu.Kernel

var (
	bindingPattern   = regexp.MustCompile(`@group\(0\)\s*@binding\((\d+)\)\s*var<([^>]*)>\s*(\w+)`)
	workgroupPattern = regexp.MustCompile(`@workgroup_size\((\d+), 1, 1\)`)
)

// kernelOf specialises shaders/kron_<name>.wgsl; its bindings, in order, and its workgroup are read from the source. The suffix tells
// variants apart in labels.
func kernelOf(name, suffix string, v shaders.Variant) (*gpu.Kernel, error) {
	key := fmt.Sprint(name, suffix, v.Flags, v.Constants)
	if k, ok := kernels.Load(key); ok {
		return k.(*gpu.Kernel), nil
	}
	source, err := shaders.Source("kron_"+name+".wgsl", v)
	if err != nil {
		return nil, fmt.Errorf("kron: kernel %s%s: %w", name, suffix, err)
	}
	k := &gpu.Kernel{Label: "gputrain.kron." + name + suffix, Source: source, Reuse: name == "product"}
	access := map[string]gpu.Access{"uniform": gpu.Uniform, "storage, read": gpu.Read, "storage, read_write": gpu.ReadWrite}
	for i, m := range bindingPattern.FindAllStringSubmatch(source, -1) {
		a, ok := access[m[2]]
		if !ok || m[1] != strconv.Itoa(i) {
			return nil, fmt.Errorf("kron: kernel %s%s: binding %s var<%s> %s: want them in order from 0, uniform or storage with its access",
				name, suffix, m[1], m[2], m[3])
		}
		k.Bindings = append(k.Bindings, gpu.Binding{Name: m[3], Access: a})
	}
	m := workgroupPattern.FindStringSubmatch(source)
	if m == nil {
		return nil, fmt.Errorf("kron: kernel %s%s: want @workgroup_size(n, 1, 1)", name, suffix)
	}
	lanes, err := strconv.Atoi(m[1])
	if err != nil {
		return nil, fmt.Errorf("kron: kernel %s%s: workgroup: %w", name, suffix, err)
	}
	k.Workgroup = [3]int{lanes, 1, 1}
	kernels.Store(key, k)
	return k, nil
}

// paramBytes is a struct of 32-bit words as a kernel's uniform sees it, padded to 16 bytes.
func paramBytes(params any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, params); err != nil {
		panic(fmt.Sprintf("kron: params %T: %v", params, err)) // a struct of our own that is not of fixed size
	}
	for b.Len()%16 != 0 {
		b.WriteByte(0)
	}
	return b.Bytes()
}

// isSoftware tells adapters that run on the processor: registers are worth more there than occupancy.
func isSoftware(dev *gpu.Device) bool { return dev.Adapter().Type == "cpu" }
