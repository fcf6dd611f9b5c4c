package optim

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"

	"gputrain/buffers"
	"gputrain/internal/embeddings"
)

// Hyperball says which matrices keep their Frobenius norm: none, with Hidden those that are no embedding, output head or B of an adapter, or
// those of a mask, whose vectors keep none. In JSON: false, true, or the mask.
type Hyperball struct {
	Hidden bool
	Mask   *Mask
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (h Hyperball) MarshalJSON() ([]byte, error) {
	if h.Mask != nil {
		return json.Marshal(h.Mask)
	}
	return json.Marshal(h.Hidden)
}

// UnmarshalJSON reads true, false, null, or a mask.
func (h *Hyperball) UnmarshalJSON(data []byte) error {
	*h = Hyperball{}
	if json.Unmarshal(data, &h.Hidden) == nil {
		return nil
	}
	h.Mask = &Mask{}
	if err := json.Unmarshal(data, h.Mask); err != nil {
		return fmt.Errorf("hyperball: found %s, wanted true, false, a list of patterns, or an object of path to true or false", data)
	}
	return nil
}

// startsAtZero is the path of the B of an adapter.
var startsAtZero = regexp.MustCompile(`\.lora_B\.weight$`)

// mask is nil for none.
func (h Hyperball) mask() *Mask {
	if !h.Hidden {
		return h.Mask
	}
	return &Mask{choose: func(l buffers.Leaf) bool { return !embeddings.Has(l.Path) && !startsAtZero.MatchString(l.Path) }}
}

// Words of floor_by.
const (
	floorByRow    = "row"
	floorByMatrix = "matrix"
)

// lands tells whether the way of parameters is another than the step and the decay.
func (o Options) lands() bool {
	return o.Hyperball != Hyperball{} || o.UpdateFloor > 0 || o.CautiousDecay && o.WeightDecay > 0
}

// land is the end of an update, in place of the scheduled decay. U = -eta u is the update that inner makes of the direction u, eta the rate of the leaf, w
// the parameter before it; norms are Frobenius norms, of matrices (of each, where the first axis counts some) and rows.
//
//	update_floor     u_i <- max(1, floor max(|w_i|, 1e-8) / max(|u_i|, 1e-8)) u_i        rows i of matrices, outputs; by matrix: u, |w| and |u|
//	step             w'  =  w - eta u
//	hyperball        z   =  w - eta |w| u / max(|u|, 1e-10);  w' = z |w| / max(|z|, 1e-10)
//	weight_decay     w'  <- w' - eta decay w                                             for leaves of its mask that are on no sphere
//	cautious_decay   the same where u w > 0 alone, and on spheres w' <- w' - eta decay w'
func (o Options) land(lr Schedule, inner Transform) Transform {
	const name = "land"
	if o.CautiousDecay && slices.ContainsFunc(inner.elements, decays) {
		return failed(name, "cautious_decay: found a decay inside of the optimizer besides, wanted the options' weight_decay alone")
	}
	e := Element{Name: name, Scalars: []Scalar{rated("eta", lr, 1)}, FLOPs: 4}
	rule := &rowRule{floor: o.UpdateFloor, byRow: o.FloorBy != floorByMatrix, sphere: o.Hyperball.mask(), scanned: o.scanned, rates: o.Rates}
	if rule.floor > 0 || rule.sphere != nil {
		e.rows = rule
		e.WGSL = "u = $row_pull * $p + $row_stretch * u;\n"
	}
	if o.WeightDecay > 0 {
		e.FLOPs += 4
		e.Scalars = append(e.Scalars, rated("decay", lr, o.WeightDecay))
		e.columns = []column{rateColumn(o.Rates), o.decayColumn(rule)}
		shrinks := ""
		if o.CautiousDecay {
			e.WGSL = "let shrinks = ((u < vec4<f32>(0.0)) & ($p > vec4<f32>(0.0))) | ((u > vec4<f32>(0.0)) & ($p < vec4<f32>(0.0)));\n" + e.WGSL
			shrinks = "decayed = select(vec4<f32>(0.0), decayed, shrinks);\n"
		}
		e.WGSL += "if ($decays != 0.0) {\nvar decayed = $p + select(vec4<f32>(0.0), u, $decays == 2.0);\n" + shrinks + "u = u - ($decay * $rate) * decayed;\n}"
	}
	e.Twin = func(c *Cell) {
		shrinks := c.U < 0 && c.P > 0 || c.U > 0 && c.P < 0
		switch r := c.row; {
		case r.sphere:
			z := c.P + c.U*r.factor*r.radius/math.Max(r.length, sphereLeast)
			c.U = z*r.radius/math.Max(r.reached, sphereLeast) - c.P
		case r.factor > 0:
			c.U *= r.factor
		}
		if o.WeightDecay == 0 || c.columns[1] == 0 || o.CautiousDecay && !shrinks {
			return
		}
		from := c.P
		if c.columns[1] == 2 {
			from += c.U
		}
		c.U -= c.Scalars[1] * c.columns[0] * from
	}
	return Elementwise(e)
}

// decays tells whether an element adds decay.
func decays(e Element) bool {
	return e.Name == "add_decayed_weights" && e.Scalars[0].At(0) > 0
}

// decayColumn says of each leaf whether it decays: 0 not, 1 from where it was, 2 from where its sphere has it.
func (o Options) decayColumn(rule *rowRule) column {
	return column{"decays", func(leaves []buffers.Leaf, whole []string) ([]float32, error) {
		in := make([]float32, len(leaves))
		for i := range in {
			in[i] = 1
		}
		if o.WeightDecayMask != nil {
			masked, err := o.WeightDecayMask.resolve(leaves, whole)
			if err != nil {
				return nil, err
			}
			in = asFloats(masked)
		}
		rows, _, err := rule.of(leaves, whole)
		for i, g := range rows {
			switch {
			case in[i] == 0 || g.count == 0 || !g.onSphere:
			case o.CautiousDecay:
				in[i] = 2
			default:
				in[i] = 0
			}
		}
		return in, err
	}}
}
