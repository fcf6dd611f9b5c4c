package gpu

import (
	"fmt"
	"maps"
	"slices"
)

// A module with matrix units is the one that the library has made of a kernel, in which the calls of the functions of shaders/shared/matrix.wgsl are the
// instructions of SPV_KHR_cooperative_matrix, and their structs its types. The extension wants Vulkan's memory model. There, what passes between
// invocations says so: by NonPrivatePointer where it is read and written, by MakeAvailable and MakeVisible at barriers.

// matrixMark and its number are in the body of each function that stands for an instruction.
const matrixMark = 0x6d78a000

const (
	matrixLoadA = iota + 1
	matrixLoadB
	matrixLoadC
	matrixZero
	matrixMulAdd
	matrixStore
	matrixLoadBRows
	matrixMul
	matrixExp2
	matrixStoreHalf
	matrixBarrier
	matrixLoadAColumns
	matrixKeep
	matrixFunctions
)

// matrixKind is A, B or C, as SPIR-V numbers them.
type matrixKind uint32

const (
	matrixA matrixKind = iota
	matrixB
	matrixC
)

// markedFunction is one of a module that stands for an instruction.
type markedFunction struct {
	number                 int
	result                 uint32 // type
	memory, memoryPointers uint32 // of loads and stores: the array that it reads or writes, and the type of pointers to its elements
	semantics              uint32 // of a barrier
}

// matrixWriter makes a module with units of another.
type matrixWriter struct {
	shape        MatrixShape
	instructions []instruction
	bound        uint32

	constants map[uint32]uint32 // of one word, by id
	classes   map[uint32]uint32 // storage classes of the types of pointers
	pointers  map[uint32]uint32 // types of variables and access chains
	marked    map[uint32]*markedFunction
	matrices  map[uint32]matrixKind // by the struct's type
	nulls     map[uint32]bool       // of matrices
	barriers  map[uint32]uint32     // semantics: without and with memory made available and visible
	elements  map[uint32]uint32     // types of pointers to elements, by the array
	buffers   map[uint32][]uint32   // arrays in storage buffers: the variable and the index of its member
	integer   uint32                // the types u32 and f32
	real      uint32
	functions uint32 // the set of GLSL's
	owned     uint32 // elements of C that an invocation has

	out                     []uint32
	begun                   bool // the types of matrices
	zero, rows, columns     uint32
	dimensions              [3]uint32 // M, N, K
	scope, half, halves     uint32    // halves: the type of two
	rounded                 uint32    // the type of C in f16
	declared                map[uint32]bool
	inMarked, extensionDone bool
}

// matrixModule is a module with units of some shape, of the one that the library has made.
func matrixModule(code []uint32, shape MatrixShape) ([]uint32, error) {
	all, err := instructionsOf(code)
	if err != nil {
		return nil, fmt.Errorf("gpu: module with matrix units: %w", err)
	}
	w := &matrixWriter{
		shape: shape, instructions: all, bound: code[3], constants: map[uint32]uint32{}, classes: map[uint32]uint32{}, pointers: map[uint32]uint32{},
		marked: map[uint32]*markedFunction{}, matrices: map[uint32]matrixKind{}, nulls: map[uint32]bool{}, barriers: map[uint32]uint32{},
		elements: map[uint32]uint32{}, buffers: map[uint32][]uint32{}, declared: map[uint32]bool{},
	}
	w.look()
	if err := w.complete(); err != nil {
		return nil, fmt.Errorf("gpu: module with matrix units: %w", err)
	}
	w.out = slices.Clone(code[:spirvHeaderWords])
	w.out[1] = max(w.out[1], spirvVersion13) // which the memory model takes
	for _, i := range all {
		w.rewrite(i)
	}
	w.out[3] = w.bound
	return w.out, nil
}

func (w *matrixWriter) id() uint32 {
	w.bound++
	return w.bound - 1
}

// look finds what the instructions are to be made of.
func (w *matrixWriter) look() {
	var function instruction
	for _, i := range w.instructions {
		switch i.op() {
		case opExtInstImport:
			w.functions = i[1]
		case opTypeInt:
			if i[2] == 32 && i[3] == 0 {
				w.integer = i[1]
			}
		case opTypeFloat:
			if i[2] == 32 {
				w.real = i[1]
			}
		case opTypePointer:
			w.classes[i[1]] = i[2]
		case opConstant:
			w.constants[i[2]] = i[3]
		case opFunction:
			function = i
		case opAccessChain:
			w.pointers[i[2]] = i[1]
			class := w.classes[w.pointers[i[3]]]
			if class == storageBuffer && w.buffers[i[3]] == nil {
				w.buffers[i[2]] = i[3:]
			}
			if f := w.marked[function[2]]; f != nil && (class == storageWorkgroup || w.buffers[i[3]] != nil) {
				f.memory = i[3]
			}
			if len(i) == 5 {
				w.elements[i[3]] = i[1]
			}
		case opVariable:
			w.pointers[i[2]] = i[1]
			if len(i) > 4 {
				w.mark(function, w.constants[i[4]])
			}
		case opStore:
			w.mark(function, w.constants[i[2]])
		case opControlBarrier:
			w.barriers[i[3]] = 0
			if f := w.marked[function[2]]; f != nil {
				f.semantics = i[3]
			}
		}
	}
	for _, f := range w.marked {
		f.memoryPointers = w.elements[f.memory]
		switch f.number {
		case matrixLoadA, matrixLoadAColumns:
			w.matrices[f.result] = matrixA
		case matrixLoadB, matrixLoadBRows:
			w.matrices[f.result] = matrixB
		case matrixLoadC, matrixZero, matrixMulAdd, matrixMul, matrixExp2:
			w.matrices[f.result] = matrixC
		}
	}
	for _, i := range w.instructions {
		if _, ok := w.matrices[i[min(1, len(i)-1)]]; ok && i.op() == opConstantNull {
			w.nulls[i[2]] = true
		}
	}
}

// mark notes what a function stands for when a number in it is a mark.
func (w *matrixWriter) mark(function instruction, value uint32) {
	if n := int(value) - matrixMark; function != nil && n > 0 && n < matrixFunctions {
		w.marked[function[2]] = &markedFunction{number: n, result: function[1]}
	}
}

// complete tells what a kernel lacks that multiplies by units.
func (w *matrixWriter) complete() error {
	var there [matrixFunctions]bool
	for _, f := range w.marked {
		there[f.number] = true
		touches := !slices.Contains([]int{matrixZero, matrixMulAdd, matrixMul, matrixExp2, matrixBarrier}, f.number)
		if touches && f.memoryPointers == 0 {
			return fmt.Errorf("function of mark %d: found no memory, wanted what it reads or writes", f.number)
		}
	}
	for _, n := range []int{matrixLoadA, matrixLoadB, matrixZero, matrixMulAdd, matrixStore} {
		if !there[n] {
			return fmt.Errorf("found no function of mark %d", n)
		}
	}
	if w.integer == 0 || w.real == 0 {
		return fmt.Errorf("found no types u32 and f32")
	}
	return nil
}

func (w *matrixWriter) put(op int, words ...uint32) { w.out = append(w.out, encode(op, words...)...) }

// rewrite writes an instruction of the library's module, or what takes its place.
func (w *matrixWriter) rewrite(i instruction) {
	op := i.op()
	if !w.extensionDone && op != opCapability {
		w.extensionDone = true
		for _, c := range []uint32{capabilityFloat16, capabilityMemoryModel, capabilityMatrix} {
			w.put(opCapability, c)
		}
		w.put(opExtension, spirvText("SPV_KHR_cooperative_matrix")...)
		if w.out[1] < spirvVersion15 {
			w.put(opExtension, spirvText("SPV_KHR_vulkan_memory_model")...)
		}
	}
	switch {
	case op == opFunction && w.marked[i[2]] != nil:
		w.inMarked = true
	case op == opFunctionEnd && w.inMarked:
		w.inMarked = false
	case w.inMarked:
	case op == opMemoryModel:
		w.put(opMemoryModel, memoryModelLogical, memoryModelVulkan)
	case op == opName || op == opMemberName || op == opDecorate || op == opMemberDecorate:
		w.describe(i)
	case op == opTypeInt || op == opTypeFloat:
		w.declare(i)
	case op == opTypeStruct:
		w.structure(i)
	case op == opConstantNull && w.nulls[i[2]]:
	case op == opVariable && len(i) > 4 && w.nulls[i[4]]:
		w.put(op, i[1:4]...)
	case op == opFunctionCall && w.marked[i[3]] != nil:
		w.call(i, w.marked[i[3]])
	case op == opExtInst && i[4] == packHalf2x16: // which drivers may round toward zero, and RADV does
		pair := w.id()
		w.put(opFConvert, w.halves, pair, i[5])
		w.put(opBitcast, i[1], i[2], pair)
	case op == opLoad && w.classes[w.pointers[i[3]]] == storageWorkgroup:
		w.shared(i, 4)
	case op == opStore && w.classes[w.pointers[i[1]]] == storageWorkgroup:
		w.shared(i, 3)
	case op == opControlBarrier:
		w.put(op, i[1], i[2], w.barriers[i[3]])
	default:
		w.out = append(w.out, i...)
	}
}

// describe leaves out names and decorations of what is not there any more.
func (w *matrixWriter) describe(i instruction) {
	if _, ok := w.matrices[i[1]]; !ok && i.op() != opName {
		w.out = append(w.out, i...)
	}
}

// declare writes a type of numbers once: those that matrices take come before these.
func (w *matrixWriter) declare(i instruction) {
	if !w.declared[i[1]] {
		w.declared[i[1]] = true
		w.out = append(w.out, i...)
	}
}

// structure writes a struct, or the type of matrices in its place.
func (w *matrixWriter) structure(i instruction) {
	kind, ok := w.matrices[i[1]]
	if !ok {
		w.out = append(w.out, i...)
		return
	}
	w.begin()
	of, rows, columns := w.half, w.dimensions[0], w.dimensions[2]
	switch kind {
	case matrixB:
		rows, columns = w.dimensions[2], w.dimensions[1]
	case matrixC:
		of, columns = w.real, w.dimensions[1]
	}
	use := w.constant(uint32(kind))
	w.put(opTypeMatrix, i[1], of, w.scope, rows, columns, use)
	if kind == matrixC {
		w.owned = 4 * uint32(len(i)-2)
		w.rounded = w.id()
		w.put(opTypeMatrix, w.rounded, w.half, w.scope, rows, columns, use)
	}
}

// begin declares what the types of matrices and their instructions are made of.
func (w *matrixWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	for _, i := range w.instructions {
		if op := i.op(); op == opTypeInt || op == opTypeFloat {
			w.declare(i)
		}
	}
	w.half = w.id()
	w.put(opTypeFloat, w.half, 16)
	w.halves = w.id()
	w.put(opTypeVector, w.halves, w.half, 2)
	w.scope, w.rows, w.columns = w.constant(scopeSubgroup), w.constant(layoutRows), w.constant(layoutColumns)
	w.dimensions = [3]uint32{w.constant(uint32(w.shape.M)), w.constant(uint32(w.shape.N)), w.constant(uint32(w.shape.K))}
	w.zero = w.id()
	w.put(opConstant, w.real, w.zero, 0)
	for _, id := range slices.Sorted(maps.Keys(w.barriers)) {
		w.barriers[id] = w.constant(w.constants[id] | makeAvailableAndVisible)
	}
}

// constant is the id of a new one.
func (w *matrixWriter) constant(value uint32) uint32 {
	id := w.id()
	w.put(opConstant, w.integer, id, value)
	return id
}

// call writes the instruction that a marked function stands for. The words of a call are type, id, function and arguments.
func (w *matrixWriter) call(i instruction, f *markedFunction) {
	layout := w.rows
	if f.number == matrixLoadB || f.number == matrixLoadAColumns {
		layout = w.columns
	}
	switch f.number {
	case matrixZero:
		w.put(opCompositeConstruct, i[1], i[2], w.zero)
	case matrixMulAdd:
		w.put(opMatrixMulAdd, i[1], i[2], i[4], i[5], i[6])
	case matrixMul:
		w.put(opFMul, i[1], i[2], i[4], i[5])
	case matrixExp2:
		w.exp2(i)
	case matrixBarrier:
		w.put(opControlBarrier, w.scope, w.scope, w.barriers[f.semantics])
	case matrixStore, matrixStoreHalf, matrixKeep:
		c := i[6]
		if f.number == matrixStoreHalf {
			c = w.id()
			w.put(opFConvert, w.rounded, c, i[6])
		}
		w.put(opMatrixStore, w.element(f, i[4]), c, layout, i[5], nonPrivatePointer)
	default:
		w.put(opMatrixLoad, i[1], i[2], w.element(f, i[4]), layout, i[5], nonPrivatePointer)
	}
}

// exp2 writes 2^(factor c) for each element of C that an invocation has.
func (w *matrixWriter) exp2(i instruction) {
	all := i[4]
	for n := range w.owned {
		c, x, y, with := w.id(), w.id(), w.id(), w.id()
		if n == w.owned-1 {
			with = i[2]
		}
		w.put(opCompositeExtract, w.real, c, i[4], n)
		w.put(opFMul, w.real, x, c, i[5])
		w.put(opExtInst, w.real, y, w.functions, extExp2, x)
		w.put(opCompositeInsert, i[1], with, y, all, n)
		all = with
	}
}

// element is a pointer to an element of what a function reads or writes.
func (w *matrixWriter) element(f *markedFunction, at uint32) uint32 {
	pointer := w.id()
	words := []uint32{f.memoryPointers, pointer, f.memory, at}
	if of := w.buffers[f.memory]; of != nil {
		words = slices.Concat(words[:2], of, words[3:])
	}
	w.put(opAccessChain, words...)
	return pointer
}

// shared writes a load from workgroup memory or a store to it, of so many words without memory operands.
func (w *matrixWriter) shared(i instruction, words int) {
	operands := uint32(nonPrivatePointer)
	if len(i) > words {
		operands |= i[words]
	}
	w.put(i.op(), append(slices.Clone(i[1:words]), operands)...)
	if len(i) > words+1 {
		panic("gpu: module with matrix units: operands of an access to workgroup memory") // the library writes none
	}
}
