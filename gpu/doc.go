// Package gpu runs compute kernels written in WGSL on any adapter that speaks Vulkan, Metal, Direct3D 12 or OpenGL. It knows
// bytes and bindings, not shapes and trees.
//
// An Adapter is opened as a Device. A Kernel is a source and what it says of itself: bindings, workgroup, params. A Recording
// lists dispatches and copies, checks each in Go as it is recorded and keeps the first error; made into a Program it has its
// pipelines, bind groups and one uniform buffer, and submitting it, once or a million times, makes nothing more. Results come
// back by Read, which waits, or by a Readback, a ring from which results are taken one or more submits late.
//
// Invariants, which tests hold:
//
//  1. Nothing that the driver would refuse is submitted: its answer would be to end the process. What the library still
//     finds while encoding comes back as an error, and nothing of that submit has run.
//  2. Submitting a Program creates no pipeline, bind group or buffer (Counters).
//  3. Every wait ends: done, ErrTimeout, the context's end, or ErrDeviceLost.
//  4. Every byte of every buffer is in the account (Counters.LiveBytes), the package's own staging included.
//  5. Commands take effect in the order recorded, programs in the order submitted, a Write before the next submit.
//  6. At most two submits are under way.
//
// On software adapters a program may read its operands as texels (texels.go): Mesa compiles a load from a storage buffer to a loop over lanes, but a
// read of a storage texture to straight vector loads. shaders.Texels rewrites a kernel's source at the binding and its reads, so there is one source
// for each kernel, and adapters without texels get it byte for byte as written. Which kernels use them follows from a measured ratio of the two
// loads (texelprobe.go), from Kernel.Reuse and from sizes. Only loads change, so a run need not record the choice.
// What kernels alone read and write, as the keys and values of texts that go on, may be of texels from the start (NewTexels): no pass copies it.
//
// A kernel with matrix units is WGSL like any other. It calls the functions of shaders/shared/matrix.wgsl, whose bodies do by plain code what a unit
// does, so the kernel runs and is tested on every adapter. Where units are on, matrix_module.go puts instructions in place of the calls as the
// pipeline is made; bindings, hazards, memory and read-backs stay the library's. What this relies on is probed when a device is opened
// (matrixprobe.go): one module a pipeline, made on the calling thread; which invocations are a subgroup; that operands round to even; that f16
// below its normal numbers counts. Where something does not hold, the units are off and a line says why.
//
// A Device without hardware, Dry, checks and prints recordings; tests of other packages compare them as text.
//
// The library underneath is wgpu-native 0.19 as github.com/cogentcore/webgpu links it. Of that binding only the library
// is used: its callbacks give C the addresses of Go variables. native.go and the C files next to it are what replaces
// it. Matrix units are reached by a hook between the library and Vulkan (MatrixUnits).
package gpu
