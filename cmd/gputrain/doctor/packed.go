package doctor

import (
	"context"
	"fmt"
	"io/fs"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state"
)

// packedCase is case.json of kind packed: rows of documents one behind the other, for a model that lies beside the case.
type packedCase struct {
	Model     string  `json:"model"` // its folder, from that of the case
	Batch     int     `json:"batch"`
	SeqLen    int     `json:"seq_len"`
	Loss      float64 `json:"loss"`
	Tolerance struct {
		Loss   tolerance `json:"loss"`
		Logits tolerance `json:"logits"`
		Grads  tolerance `json:"grads"`
	} `json:"tolerance"`

	def                       model.Definition
	initial                   []buffers.Host
	tokens, labels, positions []int32 // [batch, seq_len]; positions in documents
}

func loadPacked(c *goldenCase, dir fs.FS) (*packedCase, error) {
	p := &packedCase{}
	err := c.decode(p)
	if err != nil {
		return nil, err
	}
	if p.def, p.initial, err = readModel(dir, p.Model, nil); err != nil {
		return nil, err
	}
	if p.tokens, err = c.integers("tokens", p.Batch, p.SeqLen); err != nil {
		return nil, err
	}
	if p.labels, err = c.integers("labels", p.Batch, p.SeqLen); err != nil {
		return nil, err
	}
	segments, err := c.integers("segments", p.Batch, p.SeqLen)
	if err != nil {
		return nil, err
	}
	p.positions = make([]int32, len(segments))
	for i, s := range segments {
		if i%p.SeqLen > 0 && segments[i-1] == s {
			p.positions[i] = p.positions[i-1] + 1
		}
	}
	return p, nil
}

// runPacked compares logits, loss and gradients on the devices.
func runPacked(ctx context.Context, devices []*gpu.Device, c *goldenCase, dir fs.FS) (*comparison, error) {
	p, err := loadPacked(c, dir)
	if err != nil {
		return nil, err
	}
	built, values, names, err := p.build(c)
	if err != nil {
		return nil, err
	}
	if len(devices) > 1 {
		return p.onStages(ctx, devices, c, names)
	}
	dev := devices[0]
	tree, err := buffers.Upload(dev, "params", p.initial, buffers.F32)
	if err != nil {
		return nil, err
	}
	defer tree.Release()
	var targets []compile.Target
	for i, v := range values {
		targets = append(targets, compile.Target{Name: names[i], Value: v})
	}
	found, err := computed(ctx, dev, "packed", built.Graph, compile.Options{Label: "doctor.packed", Params: tree, Targets: targets}, p.feed().Write)
	if err != nil {
		return nil, err
	}
	return p.compare(c, names, found)
}

// build is the graph for rows of documents, and what the case expects of it: the loss, the logits, and the gradients that it has.
func (p *packedCase) build(c *goldenCase) (*model.Built, []*graph.Value, []string, error) {
	built, err := p.def.Build(p.Batch, p.SeqLen, model.Options{Loss: true, Logits: true, Documents: true})
	if err != nil {
		return nil, nil, nil, err
	}
	grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
	if err != nil {
		return nil, nil, nil, err
	}
	values, names := []*graph.Value{built.Loss, built.Logits}, []string{"loss", "logits"}
	for i, param := range p.def.Params() {
		if _, _, there := c.tensors.Info("expect/grads/" + param.Path); there {
			values, names = append(values, grads[i]), append(names, param.Path)
		}
	}
	return built, values, names, nil
}

// feed is the case's batch. Its loss is a mean over the labels that count.
func (p *packedCase) feed() state.Feed {
	b := data.Batch{Rows: p.Batch, Tokens: p.tokens, Labels: p.labels, Positions: p.positions}
	return state.Feed{Batch: b, LossScale: 1 / float32(max(1, data.Counted(p.labels)))}
}

// compare holds what was found of each name against the case.
func (p *packedCase) compare(c *goldenCase, names []string, found map[string][]float32) (*comparison, error) {
	seen := &comparison{}
	for _, name := range names {
		switch got := found[name]; name {
		case "loss":
			seen.near("loss", float64(got[0]), p.Loss, p.Tolerance.Loss)
		case "logits":
			seen.tensor(name, got, c.floats("expect/logits"), p.Tolerance.Logits)
		default:
			seen.tensor(name, got, c.floats("expect/grads/"+name), p.Tolerance.Grads)
		}
	}
	if len(names) < 3 {
		return nil, fmt.Errorf("tensors.safetensors: found no gradient of the model's parameters below expect/grads")
	}
	return seen, c.err
}
