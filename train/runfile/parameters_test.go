package runfile

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/optim"
)

// another gives a parameter another value than its default where that is more than half of the number, one more, or the other of two; over is
// what it takes for the parameter to count.
var another = map[string]struct {
	value string
	over  []string
}{
	"adafactor.min_dim_size_to_factor": {value: "4", over: []string{"optimizer.multiply_by_parameter_scale=false"}},
	"adafactor.decay_offset":           {value: "-3"},
	"adafactor.clipping_threshold":     {value: "0.1"},
	"adafactor.momentum":               {value: "0.5"},
	"adafactor.dtype_momentum":         {value: "bf16", over: []string{"optimizer.momentum=0.5"}},
	"adafactor.weight_decay_rate":      {value: "0.1", over: []string{"optimizer.weight_decay=0"}},
	"adafactor.eps":                    {value: "0.1"},
	"adafactor.factored":               {value: "false", over: []string{"optimizer.min_dim_size_to_factor=4"}},
	"adamw.eps":                        {value: "0.1"},
	"adamw.weight_decay":               {value: "0.1", over: []string{"optimizer.weight_decay=0"}},
	"lion.b1":                          {value: "0.01"},
	"lion.b2":                          {value: "0.01"},
	"mars.epsilon":                     {value: "0.1"},
	"mars.gamma":                       {value: "0.1"},
	"mars.max_grad_norm":               {value: "0.01"},
	"muon.ns_coeffs":                   {value: "[3, -4, 2]"},
	"muon.eps":                         {value: "0.1"},
	"muon.weight_decay":                {value: "0.1", over: []string{"optimizer.weight_decay=0"}},
	"muon.weight_decay_mask":           {value: "[wte]", over: []string{"optimizer.weight_decay=0", "optimizer.parameters={weight_decay: 0.1}"}},
	"muon.adam_weight_decay":           {value: "0.1", over: []string{"optimizer.weight_decay=0"}},
	"muon.adamw":                       {value: "[attn]"},
	"quad.block_size":                  {value: "4"},
	"quad.max_size_dense":              {value: "4"},
	"quad.noise_scale":                 {value: "0.1", over: []string{"optimizer.numerics=eformer", "optimizer.weight_decay=0"}},
	"quad.lr_style":                    {value: "none"},
	"quad.refresh":                     {value: "{every: 2}"},
	"quad.scanned_layers":              {value: "[stack]"},
	"quad.weight_decay":                {value: "0.1", over: []string{"optimizer.weight_decay=0"}},
	"quad.weight_decay_mask":           {value: "[wte]", over: []string{"optimizer.weight_decay=0", "optimizer.parameters={weight_decay: 0.1}"}},
	"rmsprop.eps":                      {value: "0.1"},
	"rmsprop.eps_in_sqrt":              {value: "false", over: []string{"optimizer.eps=0.1"}},
	"rmsprop.momentum":                 {value: "0.5"},
	"rmsprop.nesterov":                 {value: "true", over: []string{"optimizer.momentum=0.5"}},
	"sgd.nesterov":                     {value: "true", over: []string{"optimizer.momentum=0.5"}},
	"sgd.weight_decay":                 {value: "0.1", over: []string{"optimizer.weight_decay=0"}},
	"adafactor.decay_rate":             {value: "0.3"},
}

// changed is a value of a parameter that is not its default.
func changed(t *testing.T, optimizer string, p optim.Parameter) (string, []string) {
	t.Helper()
	name := optimizer
	if name == "skew" {
		name = "quad"
	}
	if a, ok := another[name+"."+p.Name]; ok {
		return a.value, a.over
	}
	switch v := p.Default.(type) {
	case bool:
		return fmt.Sprint(!v), nil
	case int:
		return fmt.Sprint(v + 1), nil
	case float64:
		if v == 0 {
			return "0.5", nil
		}
		return fmt.Sprint(v / 2), nil
	case string:
		return "bf16", nil
	}
	require.Fail(t, "a parameter without another value", "%s.%s", optimizer, p.Name)
	return "", nil
}

// after are the parameters and all state of some updates of a small tree, in float64, as the run file has the optimizer.
func after(t *testing.T, sets []string) []buffers.Host {
	t.Helper()
	c, err := ReadAll(nil, nil, sets)
	require.NoError(t, err, sets)
	o, err := c.OptimizerConfig()
	require.NoError(t, err, sets)
	tx, err := o.Build()
	require.NoError(t, err, sets)
	var params []buffers.Host
	for i, shape := range [][]int{{8, 6}, {6, 8}, {6}, {2, 4, 4}} {
		h := buffers.Host{Path: []string{"wte.weight", "h.0.attn.weight", "h.0.ln_1.bias", "stack"}[i], Shape: shape}
		params = append(params, filled(h, i))
	}
	twin, err := optim.NewTwin(tx, params)
	require.NoError(t, err, sets)
	for step := range 4 {
		var grads []buffers.Host
		for i, p := range params {
			grads = append(grads, filled(buffers.Host{Path: p.Path, Shape: p.Shape}, 10*step+i+7))
		}
		require.NoError(t, twin.Update(grads), sets)
	}
	return append(twin.Params(), twin.Tensors()...)
}

// filled has numbers about 0, others for another seed.
func filled(h buffers.Host, seed int) buffers.Host {
	n := 1
	for _, d := range h.Shape {
		n *= d
	}
	for i := range n {
		h.Data = append(h.Data, float32(math.Sin(float64(seed*1000+i*i))))
	}
	return h
}

// Every parameter of every optimizer changes what updates come to, or what is kept between them.
func TestEveryParameterOfEveryOptimizerCounts(t *testing.T) {
	used := map[string]bool{}
	for _, name := range optim.Names() {
		d, err := optim.Describe(name)
		require.NoError(t, err)
		for _, p := range d.Parameters {
			value, over := changed(t, name, p)
			used[name+"."+p.Name] = true
			over = append([]string{"optimizer.name=" + name, "optimizer.schedule.type=constant", "optimizer.schedule.warmup_steps=0", "optimizer.learning_rate=0.1"}, over...)
			plain := after(t, over)
			given := after(t, append(over, fmt.Sprintf("optimizer.parameters={%s: %s}", p.Name, value)))
			assert.False(t, reflect.DeepEqual(plain, given), "%s: %s=%s changes nothing", name, p.Name, value)
			file, environment, set := New(), New(), New()
			require.NoError(t, file.Parse("run.yaml", fmt.Appendf(nil, "optimizer: {parameters: {%s: %s}}", p.Name, value)))
			require.NoError(t, environment.Environment([]string{fmt.Sprintf("GPUTRAIN_OPTIMIZER_PARAMETERS={%s: %s}", p.Name, value)}))
			require.NoError(t, set.Set("optimizer.parameters."+p.Name+"="+value))
			assert.Equal(t, file.Run, environment.Run, "%s.%s", name, p.Name)
			assert.Equal(t, file.Run, set.Run, "%s.%s", name, p.Name)
		}
	}
	for key := range another {
		assert.True(t, used[key], "%s is no parameter", key)
	}
}
