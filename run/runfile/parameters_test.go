package runfile

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/optim"
)

// another gives a parameter another value where those that its type suggests change nothing or are out of its range; over is what it takes for
// the parameter to count.
var another = map[string]struct {
	value string
	over  []string
}{
	"adafactor.min_dim_size_to_factor": {value: "4", over: []string{"optimizer.multiply_by_parameter_scale=false"}},
	"adafactor.decay_offset":           {value: "-3"},
	"adafactor.dtype_momentum":         {over: []string{"optimizer.momentum=0.5"}},
	"adafactor.weight_decay_rate":      {over: []string{"optimizer.weight_decay=0"}},
	"adafactor.eps":                    {value: "0.1"},
	"adafactor.factored":               {over: []string{"optimizer.min_dim_size_to_factor=4"}},
	"adamw.weight_decay":               {over: []string{"optimizer.weight_decay=0"}},
	"adamw.state_dtype":                {value: "8bit"},
	"lion.state_dtype":                 {value: "8bit"},
	"mars.state_dtype":                 {value: "8bit"},
	"muon.ns_coeffs":                   {value: "[3, -4, 2]"},
	"muon.weight_decay":                {over: []string{"optimizer.weight_decay=0"}},
	"muon.weight_decay_mask":           {value: "[wte]", over: []string{"optimizer.weight_decay=0", "optimizer.parameters={weight_decay: 0.1}"}},
	"muon.adam_weight_decay":           {over: []string{"optimizer.weight_decay=0"}},
	"muon.adamw":                       {value: "[attn]"},
	"quad.block_size":                  {value: "4"},
	"quad.max_size_dense":              {value: "4"},
	"quad.noise_scale":                 {value: "0.1", over: []string{"optimizer.weight_decay=0"}},
	"quad.lr_style":                    {value: "none"},
	"quad.refresh":                     {value: "{every: 2}"},
	"quad.scanned_layers":              {value: "[stack]"},
	"quad.whiten":                      {value: "gradient"},
	"quad.weight_decay":                {over: []string{"optimizer.weight_decay=0"}},
	"quad.weight_decay_mask":           {value: "[wte]", over: []string{"optimizer.weight_decay=0", "optimizer.parameters={weight_decay: 0.1}"}},
	"rmsprop.eps_in_sqrt":              {over: []string{"optimizer.eps=0.1"}},
	"rmsprop.nesterov":                 {over: []string{"optimizer.momentum=0.5"}},
	"soap.basis_damping":               {over: []string{"optimizer.parameters={refresh: {every: 2}}"}},
	"soap.block_size":                  {value: "4"},
	"soap.max_size_dense":              {value: "4"},
	"soap.refresh":                     {value: "{every: 2}"},
	"soap.whiten":                      {value: "momentum"},
	"sgd.nesterov":                     {over: []string{"optimizer.momentum=0.5"}},
	"sgd.weight_decay":                 {over: []string{"optimizer.weight_decay=0"}},
}

// changed are values of a parameter that are not its default, one of which is to count.
func changed(t *testing.T, optimizer string, p optim.Parameter) (values, over []string) {
	t.Helper()
	name := optimizer
	if name == "skew" {
		name = "quad"
	}
	a := another[name+"."+p.Name]
	if a.value != "" {
		return []string{a.value}, a.over
	}
	switch v := p.Default.(type) {
	case bool:
		return []string{fmt.Sprint(!v)}, a.over
	case int:
		return []string{fmt.Sprint(v + 1)}, a.over
	case float64:
		if v == 0 {
			return []string{"0.5"}, a.over
		}
		return []string{fmt.Sprint(v / 2), "0.1", "0.01"}, a.over
	case *float64:
		return []string{"0.5", "0.01"}, a.over
	case string:
		return []string{"bf16", "f32"}, a.over
	}
	require.Fail(t, "a parameter without another value", "%s.%s", optimizer, p.Name)
	return nil, nil
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
	for i, shape := range [][]int{{8, 6}, {6, 8}, {6}, {2, 4, 4}, {64, 64}} {
		h := buffers.Host{Path: []string{"wte.weight", "h.0.attn.weight", "h.0.ln_1.bias", "stack", "h.1.attn.weight"}[i], Shape: shape}
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

// Every parameter of every optimizer changes what updates come to, or what is kept between them, in each of the numerics, or these refuse it by name.
func TestEveryParameterOfEveryOptimizerCounts(t *testing.T) {
	used := map[string]bool{}
	for _, name := range optim.Names() {
		d, err := optim.Describe(name)
		require.NoError(t, err)
		for _, p := range d.Parameters {
			values, over := changed(t, name, p)
			used[name+"."+p.Name] = true
			over = append([]string{"optimizer.name=" + name, "optimizer.schedule.type=constant", "optimizer.schedule.warmup_steps=0", "optimizer.learning_rate=0.1"}, over...)
			for _, n := range []optim.Numerics{optim.Stable, optim.EFormer} {
				set := func(value string) []string {
					return slices.Concat(over, []string{"optimizer.numerics=" + string(n), fmt.Sprintf("optimizer.parameters.%s=%s", p.Name, value)})
				}
				if p.Numerics != "" && p.Numerics != n {
					c, err := ReadAll(nil, nil, set(values[0]))
					require.NoError(t, err)
					o, err := c.OptimizerConfig()
					require.NoError(t, err, "whether the run began with it is not known yet")
					_, err = o.Build()
					assert.ErrorContains(t, err, fmt.Sprintf("%s: found %s, wanted %v: %s numerics do not read it", p.Name, values[0], p.Default, n))
					continue
				}
				plain := after(t, slices.Concat(over, []string{"optimizer.numerics=" + string(n)}))
				assert.True(t, slices.ContainsFunc(values, func(value string) bool { return !reflect.DeepEqual(plain, after(t, set(value))) }),
					"%s: %s: none of %v changes anything in %s numerics", name, p.Name, values, n)
			}
			value := values[0]
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
