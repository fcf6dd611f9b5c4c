package gpu

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MatrixUnits are an adapter's units that multiply matrices of f16 and add up in f32: a subgroup of a kernel's invocations makes a product together.
// WebGPU does not have them. Where Vulkan's driver does, a hook below the library reaches them (native_matrix.c), on Linux, in builds without the tag
// nomatrix.
type MatrixUnits struct {
	Shapes    []MatrixShape
	Lanes     int // invocations of the smallest subgroup that a kernel may ask for
	Subgroups int // of a workgroup, at most
}

// MatrixShape is C[M,N] += A[M,K] B[K,N].
type MatrixShape struct{ M, N, K int }

func (s MatrixShape) String() string { return fmt.Sprintf("%dx%dx%d", s.M, s.N, s.K) }

// String is "16x16x16, 16x8x16 by 32 invocations", "none" without shapes.
func (m MatrixUnits) String() string {
	if len(m.Shapes) == 0 {
		return "none"
	}
	shapes := make([]string, len(m.Shapes))
	for i, s := range m.Shapes {
		shapes[i] = s.String()
	}
	return fmt.Sprintf("%s by %d invocations", strings.Join(shapes, ", "), m.Lanes)
}

// matrixUse is how a kernel uses matrix units; zero: not at all.
type matrixUse struct {
	shape            MatrixShape
	lanes, subgroups int
}

// does tells whether the units are those that a kernel uses.
func (m MatrixUnits) does(u matrixUse) bool {
	return slices.Contains(m.Shapes, u.shape) && u.lanes == m.Lanes && u.subgroups <= m.Subgroups
}

var matrixForm = regexp.MustCompile(`(?m)^const matrix_unit = vec4<u32>\((\d+)u, (\d+)u, (\d+)u, (\d+)u\);`)

// matrixUseOf reads what a source that imports shared/matrix.wgsl says of its units.
func matrixUseOf(source string, workgroup [3]int) matrixUse {
	if !strings.Contains(source, "matrix_unit") { // a search that most sources end at once
		return matrixUse{}
	}
	m := matrixForm.FindStringSubmatch(source)
	if m == nil {
		return matrixUse{}
	}
	var n [4]int
	for i, figures := range m[1:] {
		n[i], _ = strconv.Atoi(figures)
	}
	return matrixUse{MatrixShape{n[0], n[1], n[2]}, n[3], workgroup[0] * workgroup[1] * workgroup[2] / n[3]}
}
