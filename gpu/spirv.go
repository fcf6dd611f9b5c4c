package gpu

import "fmt"

// Instructions and numbers of SPIR-V, as far as modules with matrix units take them.
const (
	opName               = 5
	opMemberName         = 6
	opExtension          = 10
	opExtInstImport      = 11
	opExtInst            = 12
	opMemoryModel        = 14
	opCapability         = 17
	opTypeInt            = 21
	opTypeFloat          = 22
	opTypeVector         = 23
	opTypeStruct         = 30
	opTypePointer        = 32
	opConstant           = 43
	opConstantNull       = 46
	opFunction           = 54
	opFunctionEnd        = 56
	opFunctionCall       = 57
	opVariable           = 59
	opLoad               = 61
	opStore              = 62
	opAccessChain        = 65
	opDecorate           = 71
	opMemberDecorate     = 72
	opCompositeConstruct = 80
	opCompositeExtract   = 81
	opCompositeInsert    = 82
	opFConvert           = 115
	opBitcast            = 124
	opFMul               = 133
	opControlBarrier     = 224
	opTypeMatrix         = 4456 // OpTypeCooperativeMatrixKHR
	opMatrixLoad         = 4457
	opMatrixStore        = 4458
	opMatrixMulAdd       = 4459

	capabilityFloat16     = 9
	capabilityMemoryModel = 5345 // VulkanMemoryModel
	capabilityMatrix      = 6022 // CooperativeMatrixKHR

	memoryModelLogical, memoryModelVulkan = 0, 3
	storageWorkgroup, storageBuffer       = 4, 12
	scopeSubgroup                         = 3
	nonPrivatePointer                     = 0x20
	makeAvailableAndVisible               = 0x6000
	layoutRows, layoutColumns             = 0, 1

	extExp2      = 29 // of GLSL.std.450, the only set that the library imports
	packHalf2x16 = 58

	spirvHeaderWords = 5 // magic, version, generator, bound of ids, 0
	spirvVersion13   = 0x10300
	spirvVersion15   = 0x10500
)

// instruction is one of SPIR-V: its first word is its length in words and its number.
type instruction []uint32

func (i instruction) op() int { return int(i[0] & 0xffff) }

func encode(op int, words ...uint32) instruction {
	return append(instruction{uint32(len(words)+1)<<16 | uint32(op)}, words...)
}

// text are the words of a string.
func spirvText(s string) []uint32 {
	words := make([]uint32, len(s)/4+1)
	for i := range len(s) {
		words[i/4] |= uint32(s[i]) << (8 * (i % 4))
	}
	return words
}

// instructionsOf reads a module.
func instructionsOf(code []uint32) (all []instruction, err error) {
	if len(code) < spirvHeaderWords {
		return nil, fmt.Errorf("found %d words, wanted a header of %d", len(code), spirvHeaderWords)
	}
	for at := spirvHeaderWords; at < len(code); {
		n := int(code[at] >> 16)
		if n == 0 || at+n > len(code) {
			return nil, fmt.Errorf("word %d: found an instruction of %d words, wanted 1 to %d", at, n, len(code)-at)
		}
		all = append(all, instruction(code[at:at+n]))
		at += n
	}
	return all, nil
}
