package train

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
)

// The matrix of ranks. A row of numbers of ranks is those of a run's processes, one after the other: each but the last stops after a step, and the next goes
// on.
var (
	matrixRanks      = [][]int{{1}, {2}, {3}, {4}, {4, 1, 3}}
	matrixBatches    = []int{1, 3, 8} // of an update
	matrixOptimizers = []struct{ name, parameters string }{
		{"adamw", `{}`},
		{"muon", `{"normuon_b2":0.9}`},
		{"quad", `{"block_size":8,"max_size_dense":28,"refresh":{"every":2}}`},
		{"skew", `{"block_size":8,"max_size_dense":28,"whiten":"gradient"}`},
		{"adafactor", `{"min_dim_size_to_factor":8}`},
		{"soap", `{"block_size":8,"max_size_dense":28,"refresh":{"every":2},"basis_damping":0.01}`},
	}
)

// matrixCell is a place of the matrix: indices, and whether the update is divided, the model cut in two, and adapters are trained upon a base in nf4.
type matrixCell struct {
	ranks, batches, optimizer int
	divided, staged, adapted  bool
}

func (m matrixCell) String() string {
	return fmt.Sprintf("%v ranks, %d batches, %s, divided %v, staged %v, adapted %v", matrixRanks[m.ranks], matrixBatches[m.batches], matrixOptimizers[m.optimizer].name, m.divided, m.staged, m.adapted)
}

// matrixCells are all of them, or so many that each two values of anything meet in one.
func matrixCells(all bool) (cells []matrixCell) {
	for ranks := range matrixRanks {
		for optimizer := range matrixOptimizers {
			if !all {
				sum := ranks + optimizer
				cells = append(cells, matrixCell{ranks, sum % len(matrixBatches), optimizer, sum%2 == 0, (sum/2+ranks)%2 == 0, (optimizer/2+ranks)%2 == 1})
				continue
			}
			for batches := range matrixBatches {
				for i := range 8 {
					cells = append(cells, matrixCell{ranks, batches, optimizer, i&1 != 0, i&2 != 0, i&4 != 0})
				}
			}
		}
	}
	return cells
}

// The selection leaves out no two values that could go wrong together.
func TestMatrixOfRanksMeetsEachTwo(t *testing.T) {
	met := map[string]bool{}
	for _, c := range matrixCells(false) {
		values := []string{fmt.Sprint("r", c.ranks), fmt.Sprint("b", c.batches), fmt.Sprint("o", c.optimizer), fmt.Sprint("s", c.staged), fmt.Sprint("a", c.adapted)}
		if c.ranks > 0 { // one rank has nothing to divide
			values = append(values, fmt.Sprint("d", c.divided))
		}
		for i, one := range values {
			for _, other := range values[:i] {
				met[one+" "+other] = true
			}
		}
	}
	r, b, o := len(matrixRanks), len(matrixBatches), len(matrixOptimizers)
	assert.Len(t, met, r*b+r*o+r*2+(r-1)*2+b*o+b*2+b*2+o*2+o*2+2*2+2*(r+b+o+2+2))
}

// Steps of a run of the matrix: one for each of its processes, and one more.
const matrixSteps = 4

// matrixRun is a run whose rates count from the first update, with a clip that is at work. Its text is over within an update of 8 batches, and has fewer
// windows for evaluation than there may be ranks.
func matrixRun(t *testing.T, of matrixCell) Config {
	t.Helper()
	c, text := tinyRun(t, t.TempDir()), shortText(t, 30)
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 8, Vocab: 256, Context: 16, ResidualDropout: 0.1})
	require.NoError(t, err)
	clip, optimizer := 0.3, matrixOptimizers[of.optimizer]
	c.State.Definition, c.State.Batch, c.State.Microbatches, c.State.Evaluation = def, 1, matrixBatches[of.batches], 1
	c.State.Optimizer = optim.Config{Name: optimizer.name, Parameters: json.RawMessage(optimizer.parameters), Options: c.State.Optimizer.Options}
	c.State.Optimizer.Options.Schedule = optim.ScheduleConfig{LearningRate: 1e-2}
	c.State.Optimizer.Options.ClipGrad = &clip
	o := &c.State.Optimizer.Options
	if of.optimizer%2 == 0 {
		around(&c)
	} else {
		o.UpdateFloor = 3
	}
	if of.optimizer%3 == 0 {
		o.Hyperball, o.CautiousDecay, o.WeightDecay = optim.Hyperball{Hidden: true}, true, 0.1
	}
	c.Train, c.Validation = text.Train, text.Validation
	c.Steps, c.EvalEvery, c.SaveEvery, c.SampleEvery, c.Sample.Tokens = matrixSteps, 2, Every(matrixSteps), 0, 0
	return c
}

// exportDrawn writes a network with drawn parameters into a directory.
func exportDrawn(t *testing.T, dir string, network model.Definition) {
	t.Helper()
	hosts := model.Init(network, 5)
	require.NoError(t, model.Export(dir, network, func(path string) ([]float32, error) {
		return hosts[slices.IndexFunc(hosts, func(h buffers.Host) bool { return h.Path == path })].Data, nil
	}, model.ExportOptions{}))
}

// upon is c with adapters of its network and a norm that is trained whole, upon a base that is in a directory.
func upon(t *testing.T, c Config, base string) Config {
	t.Helper()
	def, err := model.WithLoRA(c.State.Definition, model.LoRA{Rank: 3, Target: []string{model.AllLinear}, DoRA: true, Dropout: 0.1, Save: []string{"ln_f"}})
	require.NoError(t, err)
	files := hub.Open(base)
	t.Cleanup(func() { assert.NoError(t, files.Close()) })
	weights, err := files.Weights(c.State.Definition)
	require.NoError(t, err)
	c.Params, _ = weights.ParamsOf(def, c.State.Seed)
	c.From, c.State.Base, c.State.Definition, c.State.FrozenDType = base, base, def, buffers.NF4
	job, err := state.NewJob(c.State)
	require.NoError(t, err)
	c.State = job.Config // what adapters stand on is frozen
	return c
}

// Whatever the number of ranks, of batches, of stages, and the optimizer, with its update divided or not, and whoever goes on with what others have begun: a run
// leaves what one process leaves that nothing has disturbed, byte for byte. GPUTRAIN_SOAK=1 takes all cells, otherwise each two values meet in one, and with
// -short each value is in some.
func TestSoakMatrixOfRanks(t *testing.T) {
	t.Setenv("GPUTRAIN_TEXELS", "off") // this is about the sums of ranks, and texels have the same bits
	dev := gputest.Device(t)
	base := filepath.Join(t.TempDir(), "base")
	exportDrawn(t, base, matrixRun(t, matrixCell{}).State.Definition)
	run := func(t *testing.T, of matrixCell) Config {
		t.Helper()
		c := matrixRun(t, of)
		if of.adapted {
			c = upon(t, c, base)
		}
		return c
	}
	wants := map[matrixCell]map[string]string{}
	all := os.Getenv("GPUTRAIN_SOAK") == "1"
	for _, cell := range matrixCells(all) {
		if testing.Short() && !all && (2*cell.ranks+cell.optimizer)%5 > 0 {
			continue // one of each number of ranks, and one of each optimizer
		}
		of := matrixCell{batches: cell.batches, optimizer: cell.optimizer, adapted: cell.adapted}
		if wants[of] == nil {
			c := run(t, of)
			ran(t, dev, c)
			wants[of] = leftBy(t, c.Dir)
		}
		t.Run(cell.String(), func(t *testing.T) {
			c := run(t, cell)
			runCell(t, dev, c, cell)
			requireSame(t, wants[of], leftBy(t, c.Dir))
			left, err := filepath.Glob(filepath.Join(c.Dir, ".gputrain*"))
			require.NoError(t, err)
			assert.Equal(t, []string{filepath.Join(c.Dir, markerFile)}, left, "the probe is gone")
			lines := stepsIn(t, c.Dir)
			if n := matrixRanks[cell.ranks]; n[len(n)-1] > 1 {
				assert.Len(t, lines[matrixSteps-1].Cluster.PassesMS, n[len(n)-1])
				assert.Positive(t, lines[matrixSteps-1].Cluster.Bytes)
			}
		})
	}
}

// runCell is a run by one number of ranks after the other; every other time the update is divided the other way.
func runCell(t *testing.T, dev *gpu.Device, c Config, of matrixCell) {
	t.Helper()
	target := Target(oneDevice{device: dev})
	if of.staged {
		target = Pipelined([]*gpu.Device{dev, dev}, twoStages(t, c.State))
	}
	for i, n := range matrixRanks[of.ranks] {
		c.State.ShardOptimizer = of.divided != (i%2 == 1)
		reached, last := int64(i+1), i == len(matrixRanks[of.ranks])-1
		c.Hooks = nil
		if !last {
			c.Hooks = []Hook{on(StepEnd, reached, func(context.Context, Event) error { return ErrStopped })}
		}
		for rank, err := range alike(t, target, n, c) {
			if last {
				require.NoError(t, err, "rank %d of %d", rank, n)
			} else {
				require.ErrorIs(t, err, ErrStopped, "rank %d of %d", rank, n)
				require.EqualValues(t, reached, newestStep(t, c.Dir))
			}
		}
	}
}

// stopped runs c on so many ranks and stages. It is stopped after each of the steps, and goes on.
func stopped(t *testing.T, dev *gpu.Device, c Config, ranks, stages int, stops []int64) {
	t.Helper()
	target := Target(oneDevice{device: dev})
	if stages == 2 {
		target = Pipelined([]*gpu.Device{dev, dev}, twoStages(t, c.State))
	}
	for _, step := range append(stops, 0) {
		c.Hooks = nil
		if step > 0 {
			c.Hooks = []Hook{on(StepEnd, step, func(context.Context, Event) error { return ErrStopped })}
		}
		for rank, err := range alike(t, target, ranks, c) {
			if step > 0 {
				require.ErrorIs(t, err, ErrStopped, "rank %d", rank)
			} else {
				require.NoError(t, err, "rank %d", rank)
			}
		}
	}
}

// alike runs c on n ranks that do the same, or by itself where n is 1, as a process that mpirun has started alone.
func alike(t *testing.T, target Target, n int, c Config) []error {
	t.Helper()
	if n == 1 {
		_, err := RunOn(t.Context(), target, c)
		return []error{err}
	}
	_, errs := ranksOn(t, slices.Repeat([]Target{target}, n), c, nil)
	return errs
}

// A rank may have any number of devices of its own: of three ranks the stages of one are on two, in either order, and those of another on one.
func TestRanksOfSeveralDevices(t *testing.T) {
	t.Setenv("GPUTRAIN_TEXELS", "off")
	devices := gputest.Several(t, 2)
	c := matrixRun(t, matrixCell{batches: 1})
	_, err := Run(t.Context(), devices[0], c)
	require.NoError(t, err)
	want := leftBy(t, c.Dir)

	c.Dir = t.TempDir()
	c.State.ShardOptimizer = true
	var targets []Target
	for _, of := range [][]*gpu.Device{{devices[0], devices[1]}, {devices[1], devices[0]}, {devices[1], devices[1]}} {
		targets = append(targets, Pipelined(of, twoStages(t, c.State)))
	}
	_, errs := ranksOn(t, targets, c, nil)
	for rank, err := range errs {
		require.NoError(t, err, "rank %d", rank)
	}
	requireSame(t, want, leftBy(t, c.Dir))
}
