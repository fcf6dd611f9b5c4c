// Package kron preconditions updates with blocked Kronecker factors: Quad and Skew; SOAP, which turns blocks of the same kinds, is in files of its
// own (SOAP, SOAPState, SOAPTwin). It knows leaves by path and shape, and trees of
// buffers; of models and of learning rates it knows nothing.
//
// A leaf is merged to a matrix and cut into blocks of at most BlockSize by BlockSize. A block G with factors Ql, Qr becomes
//
//	QlᵀQl G QrᵀQr
//
// and the factors follow the gradients so that the result is white: its Gram matrices come near to a multiple of the
// identity. A side longer than MaxSizeDense has a diagonal for a factor, and so has a leaf of one dimension.
//
// Plan lists the blocks of a model. Twin is the definition, in float64. State is the same on a device: blocks of a size
// class lie in stacks, and one dispatch treats a stack, so that their number does not grow with the layers. Random
// numbers are addressed by global block index and element; a model gives the same bits however its leaves are spread
// over devices.
//
// A block is stored at its true size, rounded up to a quarter octave, and still has the numbers of a full block. Ql and Qr are state; QlᵀQl and
// QrᵀQr are kept beside them, and computed again after each refresh and after a restore. Of a symmetric product half is computed. Which updates
// refresh is a function of their number, so a resumed run decides alike; an update without a refresh is a program of its own, made before the first
// step.
package kron
