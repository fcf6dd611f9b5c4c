package bench

import (
	"fmt"
	"slices"
	"time"

	"gputrain/cmd/gputrain/doctor"
	"gputrain/gpu"
)

// Card is what is known of an adapter: card.json as it stands, of which the page is made. docs/cards/README.md explains every member.
type Card struct {
	Format    int             `json:"format"`
	Program   string          `json:"program"`
	Begun     time.Time       `json:"begun"`
	Seconds   float64         `json:"seconds"`
	Scale     string          `json:"scale"`
	Ended     string          `json:"ended,omitempty"` // why, before its time
	Adapter   CardAdapter     `json:"adapter"`
	Processor string          `json:"processor,omitempty"`
	Cores     int             `json:"cores"`
	Memory    uint64          `json:"memory_bytes,omitempty"` // that the machine can give; 0: nothing tells
	Parts     []cardPart      `json:"parts"`
	Starts    []cardStart     `json:"starts,omitempty"` // with cold caches, then with warm ones
	Checks    []doctor.Result `json:"checks"`
	Models    []CardModel     `json:"models"`
	Gaps      []gap           `json:"gaps"`
}

// CardAdapter is who the adapter is, and what it allows.
type CardAdapter struct {
	Name       string            `json:"name"`
	Backend    string            `json:"backend"`
	Type       string            `json:"type"`
	Class      string            `json:"class"`
	Driver     string            `json:"driver"`
	Timestamps bool              `json:"timestamps"`
	Texels     int               `json:"texel_bindings"`
	Limits     map[string]uint64 `json:"limits"`
}

// cardPart is how a part went, with its figures.
type cardPart struct {
	Name    string   `json:"name"`
	Seconds float64  `json:"seconds"`
	Budget  float64  `json:"budget_seconds"`
	Done    int      `json:"done"`
	Of      int      `json:"of"`
	Short   string   `json:"short,omitempty"` // why it is not all there
	Failed  string   `json:"failed,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
}

// Err is what failed of a card: checks and parts.
func (c Card) Err() error {
	checks, parts := 0, 0
	for _, r := range c.Checks {
		if !r.Pass {
			checks++
		}
	}
	for _, p := range c.Parts {
		if p.Failed != "" {
			parts++
		}
	}
	if checks+parts == 0 {
		return nil
	}
	return fmt.Errorf("bench: %d checks and %d parts failed", checks, parts)
}

func cardAdapter(a gpu.Adapter) CardAdapter {
	l := a.Limits
	return CardAdapter{
		Name: a.Name, Backend: a.Backend, Type: a.Type, Class: a.Class(), Driver: a.Driver, Timestamps: a.Timestamps, Texels: l.TexelBindings,
		Limits: map[string]uint64{
			"buffer_bytes": l.BufferBytes, "binding_bytes": l.BindingBytes, "uniform_bytes": l.UniformBytes, "storage_buffers": uint64(l.StorageBuffers),
			"invocations_per_workgroup": uint64(l.Invocations), "workgroup_bytes": uint64(l.WorkgroupBytes), "workgroups_per_dimension": uint64(l.Workgroups),
			"workgroup_size_x": uint64(l.WorkgroupSize[0]), "workgroup_size_y": uint64(l.WorkgroupSize[1]), "workgroup_size_z": uint64(l.WorkgroupSize[2]),
			"storage_align_bytes": l.StorageAlign, "uniform_align_bytes": l.UniformAlign,
			"registers": uint64(l.Registers.Budget), "multiprocessors": uint64(l.Multiprocessors),
		},
	}
}

// A Scale is how much of an adapter is measured.
type Scale struct {
	Name   string
	Checks func([]gpu.Check) []gpu.Check // of the doctor, those that are run; nil: all
	Cases  bool                          // the golden ones too
	sizes
	start   []string // what sets the run file of starts to other than the default run
	models  []cardModel
	budgets map[string]time.Duration // of parts
	rest    time.Duration            // of each part that has none there
	step    time.Duration            // of each model; 0: rest
	limit   time.Duration            // of all
}

// Limit is how long all of it takes at most.
func (s Scale) Limit() time.Duration { return s.limit }

// cardModel is a model by what sets a run file to it, but for its batch: half of it is tried where memory is too small for the whole.
type cardModel struct {
	name  string
	set   []string
	batch int
	rank  int // of adapters on all linear layers, around a base in bf16; 0: all is trained
}

// inF16 is the model with products of f16, by the adapter's matrix units.
func (c cardModel) inF16() cardModel {
	c.name, c.set = c.name+", products of f16", append(slices.Clip(c.set), "train.products=f16", "device.matrix=auto")
	return c
}

// tunedModels are those that rates of tuning on small devices are published of: adapters of rank 8 and 512 tokens.
var tunedModels = []cardModel{
	{"SmolLM2-135M, adapters", append(slices.Clone(smolLM2), "model.context=512"), 1, 8},
	{"TinyLlama 1.1B, adapters", []string{
		"model.kind=llama", "model.layers=22", "model.heads=32", "model.kv_heads=4", "model.width=2048", "model.intermediate=5632", "model.vocab=32000",
		"model.context=512",
	}, 1, 8},
}

var smolLM2 = []string{
	"model.kind=llama", "model.layers=30", "model.heads=9", "model.kv_heads=3", "model.width=576", "model.intermediate=1536", "model.vocab=49152",
	"model.tie_head=true",
}

var cardShapes = sizes{
	products: []matmulShape{
		{1024, 1024, 1024, "nn"},
		{1024, 1024, 1024, "nt"},
		{1024, 1024, 1024, "tn"},
		{4096, 4096, 4096, "nn"},
		{4096, 4096, 4096, "nt"},
		{4096, 4096, 4096, "tn"},
		// Of GPT-2 124M at 4,096 tokens: forward, then the gradients of activations and of weights.
		{4096, 768, 2304, "nn"},
		{4096, 768, 768, "nn"},
		{4096, 768, 3072, "nn"},
		{4096, 3072, 768, "nn"},
		{4096, 3072, 768, "nt"},
		{4096, 768, 3072, "nt"},
		{768, 4096, 3072, "tn"},
		{768, 4096, 768, "tn"},
		{4096, 768, 8192, "nt"},
		{1024, 128, 128, "nn"},
		{4096, 64, 64, "nn"}, // narrow
	},
	attention: []attentionShape{{4, 1024, 12, 64}, {1, 1024, 16, 128}, {8, 128, 4, 32}},
	elements:  figureElements, side: 768, kron: 4096,
}

// FullScale is that of cards.
func FullScale() Scale {
	return Scale{
		Name: "full", Cases: true, sizes: cardShapes, limit: 10 * time.Minute, rest: 35 * time.Second,
		budgets: map[string]time.Duration{"start": 40 * time.Second, "doctor": 110 * time.Second},
		step:    55 * time.Second, models: append([]cardModel{
			{"GPT-2 124M", []string{
				"model.kind=gpt2", "model.layers=12", "model.heads=12", "model.width=768", "model.vocab=50257", "model.context=1024",
			}, 4, 0},
			{"SmolLM2-135M", append(slices.Clone(smolLM2), "model.context=1024"), 4, 0},
			{"Qwen3-0.6B", []string{
				"model.kind=qwen3", "model.layers=28", "model.heads=16", "model.kv_heads=8", "model.head_dim=128", "model.width=1024", "model.intermediate=3072",
				"model.vocab=151936", "model.tie_head=true", "model.context=1024",
			}, 1, 0},
		}, tunedModels...),
	}
}

// SmallScale is that of software adapters: the same parts in some two minutes, the models with fewer and narrower layers.
func SmallScale() Scale {
	return Scale{
		Name: "small", Cases: true, limit: 4 * time.Minute, rest: 12 * time.Second,
		budgets: map[string]time.Duration{"start": 30 * time.Second, "doctor": 40 * time.Second},
		sizes: sizes{
			products:  append(benchShapes[:3:3], matmulShape{256, 256, 768, "nn"}, matmulShape{256, 768, 256, "nt"}, matmulShape{256, 256, 768, "tn"}, matmulShape{1024, 128, 128, "nn"}),
			attention: []attentionShape{{8, 128, 4, 32}, {1, 256, 4, 64}}, elements: 1 << 22, side: 256, kron: 256,
		},
		models: smallModels(2, 256, 4096, 128),
	}
}

// TestScale is that of tests: all parts, each as small as it can be, and no golden cases.
func TestScale() Scale {
	s := SmallScale()
	s.Name, s.Cases, s.start = "test", false, []string{"model.layers=1", "model.width=32", "model.context=32"}
	s.products = []matmulShape{{64, 64, 64, "nn"}, {64, 64, 32, "tn"}}
	s.attention, s.elements, s.side, s.kron = []attentionShape{{1, 32, 2, 16}}, 1<<16, 128, 128
	s.models = smallModels(1, 32, 64, 32)
	return s
}

// smallModels have the kinds of layers of those of FullScale.
func smallModels(layers, width, vocab, context int) []cardModel {
	small := func(kind string, more ...string) cardModel {
		set := []string{
			"model.kind=" + kind, fmt.Sprintf("model.layers=%d", layers), "model.heads=4", fmt.Sprintf("model.width=%d", width),
			fmt.Sprintf("model.vocab=%d", vocab), fmt.Sprintf("model.context=%d", context),
		}
		return cardModel{"small " + kind, append(set, more...), 2, 0}
	}
	tuned := small("llama", "model.kv_heads=2")
	tuned.name, tuned.rank = "small llama, adapters", 8
	return []cardModel{
		small("gpt2"),
		small("llama", "model.kv_heads=2", "model.tie_head=true"),
		small("qwen3", "model.kv_heads=2", "model.tie_head=true"),
		tuned,
	}
}
