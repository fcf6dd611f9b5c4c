package kron

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
)

// Leaf is a parameter as the plan sees it.
type Leaf struct {
	Path    string
	Shape   []int
	Scanned bool // the first axis counts independent matrices
	Frozen  bool // never updated: it has no blocks, but the others draw the same as with it
	LowRank bool // SOAP turns the shorter side alone
}

// Kind is how a leaf is preconditioned.
type Kind int

const (
	// Empty has no elements and no state.
	Empty Kind = iota
	// Vector has one diagonal factor a row.
	Vector
	// Dense has two dense factors a block; all dense leaves share one stack.
	Dense
	// diagonalBoth has two diagonals a matrix.
	diagonalBoth
	// diagonalLeft has a diagonal on the left and blocks of columns with a dense factor on the right.
	diagonalLeft
	// diagonalRight has blocks of rows with a dense factor on the left and a diagonal on the right.
	diagonalRight
)

func (k Kind) String() string {
	return [...]string{"empty", "vector", "dense", "diagonal both", "diagonal left", "diagonal right"}[k]
}

// Matrix is a leaf merged to Batch matrices of Rows by Cols, row-major one after the other: element (b, r, c) is element
// (b*Rows + r)*Cols + c of the leaf. A vector is one row.
type Matrix struct {
	Leaf
	Index             int // of the leaf in the plan
	Kind              Kind
	Batch, Rows, Cols int
	First, Blocks     int // blocks of the leaf: Plan.Blocks[First : First+Blocks]
}

// Block is a part of a leaf that has factors of its own.
type Block struct {
	Leaf       int // index in Plan.Leaves
	Batch      int
	Row, Col   int // where it begins in its matrix
	Rows, Cols int // its valid size
	// Stack is its place among the blocks that draw with the same base key: the global index among all dense blocks of the model, frozen leaves
	// counted, or the place in the stack of its leaf.
	Stack int
}

// Plan is the blocks of a model: leaves in order (Rules.ByPath), blocks by leaf, batch, block row, block column. It is
// immutable and knows of no device.
type Plan struct {
	Config Config
	Leaves []Matrix
	Blocks []Block
	index  map[string]int // of leaves
	dense  int            // blocks in the dense stack
	drawn  int            // places that the dense blocks of all leaves draw with, frozen ones too
}

// NewPlan lays out all leaves of a model. Errors: a configuration out of range, a path given twice, a scanned leaf without
// dimensions.
func NewPlan(leaves []Leaf, c Config) (*Plan, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("kron: %w", err)
	}
	leaves = slices.Clone(leaves)
	if c.Rules.ByPath {
		slices.SortFunc(leaves, func(a, b Leaf) int { return strings.Compare(a.Path, b.Path) })
	}
	p := &Plan{Config: c, index: map[string]int{}}
	elements := 0
	for i, leaf := range leaves {
		if _, twice := p.index[leaf.Path]; twice {
			return nil, fmt.Errorf("kron: plan: leaf %q: given twice", leaf.Path)
		}
		if leaf.Scanned && len(leaf.Shape) == 0 {
			return nil, fmt.Errorf("kron: plan: leaf %q: scanned, but a scalar has no axis to scan", leaf.Path)
		}
		p.index[leaf.Path] = i
		m := merge(leaf, c)
		p.Leaves = append(p.Leaves, m)
		elements += m.Batch * m.Rows * m.Cols
	}
	p.Blocks = make([]Block, 0, elements/(c.BlockSize*c.BlockSize)+4*len(leaves)) // a large model has very many, and most are whole
	for i, m := range p.Leaves {
		m.Index, m.First = i, len(p.Blocks)
		p.cut(m)
		if leaves[i].Frozen {
			p.Blocks, m.Kind = p.Blocks[:m.First], Empty
		}
		m.Blocks = len(p.Blocks) - m.First
		if m.Kind == Dense {
			p.dense += m.Blocks
		}
		p.Leaves[i] = m
	}
	return p, nil
}

// DenseBlocks is the number of blocks in the dense stack of the model.
func (p *Plan) DenseBlocks() int { return p.dense }

// Leaf finds a leaf by its path.
func (p *Plan) Leaf(path string) (Matrix, bool) {
	i, ok := p.index[path]
	if !ok {
		return Matrix{}, false
	}
	return p.Leaves[i], true
}

// only is the plan with the state of some of the leaves that are not dense; the others are as if they were empty.
func (p *Plan) only(own []int) *Plan {
	out := *p
	out.Leaves = slices.Clone(p.Leaves)
	for i := range out.Leaves {
		if !slices.Contains(own, i) {
			out.Leaves[i].Kind = Empty
		}
	}
	return &out
}

// BlocksOf lists the blocks of a leaf.
func (p *Plan) BlocksOf(m Matrix) []Block { return p.Blocks[m.First : m.First+m.Blocks] }

// merge makes a leaf a matrix: fewer than two dimensions, or all but one of size one, is a vector; two stay; more are split where
// the sides are nearest to each other, the first such split.
func merge(leaf Leaf, c Config) Matrix {
	m := Matrix{Leaf: leaf, Batch: 1}
	shape := leaf.Shape
	if leaf.Scanned {
		m.Batch, shape = shape[0], shape[1:]
	}
	total, longest := 1, 1
	for _, d := range shape {
		total *= d
		longest = max(longest, d)
	}
	switch {
	case m.Batch*total == 0:
		return m
	case len(shape) < 2 || total == longest && c.Method != soap:
		m.Kind, m.Rows, m.Cols = Vector, 1, total
		return m
	}
	best, left := 0.0, 1
	for _, d := range shape[:len(shape)-1] {
		left *= d
		right := total / left
		ratio := float64(max(left, right)) / float64(min(left, right))
		if best == 0 || ratio < best {
			best, m.Rows, m.Cols = ratio, left, right
		}
	}
	maxDense := c.MaxSizeDense
	if leaf.LowRank && m.Rows != m.Cols {
		maxDense = min(maxDense, min(m.Rows, m.Cols))
	}
	tall, wide := m.Rows > maxDense, m.Cols > maxDense
	switch {
	case tall && wide:
		m.Kind = diagonalBoth
	case tall:
		m.Kind = diagonalLeft
	case wide:
		m.Kind = diagonalRight
	default:
		m.Kind = Dense
	}
	return m
}

// cut appends the blocks of a leaf.
func (p *Plan) cut(m Matrix) {
	height, width := p.Config.BlockSize, p.Config.BlockSize
	switch m.Kind {
	case Empty:
		return
	case Vector, diagonalBoth:
		height, width = m.Rows, m.Cols
	case diagonalLeft:
		height = m.Rows
	case diagonalRight:
		width = m.Cols
	}
	stack := 0
	if m.Kind == Dense {
		stack = p.drawn
	}
	for batch := range m.Batch {
		for row := 0; row < m.Rows; row += height {
			for col := 0; col < m.Cols; col += width {
				p.Blocks = append(p.Blocks, Block{
					Leaf: m.Index, Batch: batch, Row: row, Col: col,
					Rows: min(height, m.Rows-row), Cols: min(width, m.Cols-col), Stack: stack,
				})
				stack++
			}
		}
	}
	if m.Kind == Dense {
		p.drawn = stack
	}
}

// Work counts the multiply-adds of an update of a leaf that refreshes its factors. What is made element by element counts nothing.
//
//	block [h, w]       twice QlᵀQl G QrᵀQr, two Grams, and what both factors take
//	block [l, w]       with a diagonal for l: twice G QrᵀQr, a Gram, and what the factor takes
//	factor [n, n]      T Q, its bound and QᵀQ; Quad: W Q W; Skew: R R, the turn and its bound; of a block, in bf16, QᵀQ once more
//
// Of a product that is symmetric half is made.
func (p *Plan) Work(m Matrix) float64 {
	sum := 0.0
	for _, b := range p.BlocksOf(m) {
		h, w := float64(b.Rows), float64(b.Cols)
		switch m.Kind {
		case Dense:
			sum += 2.5*(h*h*w+h*w*w) + p.factorWork(h) + p.factorWork(w)
			if p.Config.DType == buffers.BF16 {
				sum += (h*h*h + w*w*w) / 2
			}
		case diagonalLeft:
			sum += 2.5*h*w*w + p.factorWork(w)
		case diagonalRight:
			sum += 2.5*h*h*w + p.factorWork(h)
		}
	}
	return sum
}

// factorWork is the work of the step of a dense factor of side n.
func (p *Plan) factorWork(n float64) float64 {
	bound := boundRows * boundProducts * n * n
	if p.Config.Method == Skew {
		return 3*n*n*n + 2*bound
	}
	return 2*n*n*n + bound
}
