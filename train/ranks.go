package train

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gputrain/checkpoint"
	"gputrain/cluster"
	"gputrain/data"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/state"
	"gputrain/train/runfile"
	"gputrain/transport"
)

// Rank 0 of several writes and says everything. The others make the same steps, and see of the run directory only its checkpoints. What
// ranks decide is a function of metrics, which are equal, or agreed on: once before every step.
//
// Where the stages of a model are on several ranks, so many in a row have a replica of it between them. They read the same of the text, and do together
// whatever the state does, equally often: a rank that fails there ends all.

// leads tells whether this process writes the run's files: it is alone, or rank 0.
func (c Config) leads() bool { return c.Ranks == nil || c.Ranks.Rank() == 0 }

// follower is the configuration of a rank that writes and says nothing. Those that have stages of the model which rank 0 draws samples from, draw
// them too.
func (c Config) follower(samples bool) Config {
	c.Progress, c.Output = "none", io.Discard
	c.Hooks, c.Watchers, c.HistogramEvery = nil, nil, 0
	if !samples {
		c.Sample.Tokens, c.State.Sampling = 0, false
	}
	return c
}

// ranksOf says on which ranks the stages of a target are; nil: all are here.
func ranksOf(target Target) *pipeline.Ranks {
	if on, ok := target.(interface{ Ranks() *pipeline.Ranks }); ok {
		return on.Ranks()
	}
	return nil
}

// perReplica is how many ranks have a replica of the model between them.
func perReplica(target Target) int {
	if r := ranksOf(target); r != nil {
		return r.PerReplica()
	}
	return 1
}

// spread tells whether a replica is on several ranks.
func (t *trainer) spread() bool { return perReplica(t.target) > 1 }

// replica is which of how many replicas of the model this rank has, or has stages of.
func (t *trainer) replica() (replica, replicas int) {
	g := t.config.Ranks
	if g == nil {
		return 0, 1
	}
	n := perReplica(t.target)
	return g.Rank() / n, g.Size() / n
}

// checkSpread refuses what no rank has everything for where stages are on several.
func (c Config) checkSpread() error {
	if c.HistogramEvery+int64(len(c.Watchers)) > 0 {
		return fmt.Errorf("train: config: histogram_every: %d, watchers: %d, wanted none where stages are on several ranks (pipeline.adapters): no rank has all tensors",
			c.HistogramEvery, len(c.Watchers))
	}
	return nil
}

// together is the context of what all ranks of a replica do at the same time: who wants to stop says so where all meet.
func (t *trainer) together(ctx context.Context) context.Context {
	if t.spread() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// endsAll takes note of an error of what all ranks of a replica do together: the others are still at it.
func (t *trainer) endsAll(err error) error {
	t.apart = t.apart || err != nil && t.spread()
	return err
}

// own are the devices of the stages that are on this rank, each once.
func (t *trainer) own() []*gpu.Device {
	return slices.DeleteFunc(distinct(t.target.Devices()), (*gpu.Device).Dry)
}

// join compares the ranks, and makes what adds up their gradients.
func (t *trainer) join(ctx context.Context) error {
	c := &t.config
	facts := cluster.Facts{Program: programText(), Data: c.Fingerprint}
	for _, s := range c.Settings {
		if r := runfile.ResumeOf(s.Key); r == runfile.ByContent || r == runfile.ByPlace || s.Dir {
			continue // a path, which may be another on another machine
		}
		value, err := json.Marshal(s.Value)
		if err != nil {
			return fmt.Errorf("train: settings: key %q: %w", s.Key, err)
		}
		facts.Settings = append(facts.Settings, cluster.Fact{Key: s.Key, Value: string(value)})
	}
	sum, err := model.Fingerprint(c.Params)
	if err != nil {
		return fmt.Errorf("train: parameters to begin with: %w", err)
	}
	facts.Settings = append(facts.Settings, cluster.Fact{Key: "parameters to begin with (checksum)", Value: sum})
	for _, d := range t.own() {
		facts.Adapters = append(facts.Adapters, cluster.Adapter{Index: d.Adapter().Index, Name: state.AdapterName(d)})
	}
	joined, err := c.Ranks.Join(ctx, facts)
	if err != nil {
		return err
	}
	t.notes, c.State.Adapter = t.rankNotes(joined), joined.Adapter()
	if c.Sums.Microbatches = c.State.Microbatches; t.spread() {
		c.Sums.Members = ranksOf(t.target).Alike()
	}
	if t.sums, err = cluster.NewReducer(ctx, c.Ranks, c.Sums, t.own()...); t.sums != nil {
		c.State.Reducer = t.sums
	}
	return err
}

// rankNotes are what there is to say of ranks.
func (t *trainer) rankNotes(joined cluster.Joined) (notes []string) {
	g, micro := t.config.Ranks, t.config.State.Microbatches
	var hosts []string
	for rank := range g.Size() {
		if h := g.Host(rank); !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	said := fmt.Sprintf("%d ranks on %s, %d batches an update", g.Size(), strings.Join(hosts, ", "), micro)
	_, replicas := t.replica()
	who := "ranks"
	if t.spread() {
		who = "replicas"
	}
	switch {
	case replicas == 1:
		said += ", of a model whose stages are on all of them"
	case t.spread():
		said += fmt.Sprintf(" divided over %d replicas of the model, each on %d ranks", replicas, perReplica(t.target))
	default:
		said += " divided over them"
	}
	notes = append(notes, said)
	if idle := replicas - micro; idle > 0 {
		notes = append(notes, fmt.Sprintf("warning: %d of the %s compute nothing: raise train.accumulate x pipeline.microbatches, %d, to %d", idle, who, micro, replicas))
	}
	return append(notes, joined.Notes...)
}

// probeTries is how often a rank looks for what rank 0 has written in the run directory, a tenth of a second apart: shared directories take their time.
var probeTries = 50

// probeForm is how the files begin that tell whether the run directory is shared.
const probeForm = ".gputrain.ranks-"

// shareDir makes sure that all ranks see the run directory that rank 0 has taken.
func (t *trainer) shareDir(ctx context.Context) error {
	g := t.config.Ranks
	name := probeForm + rand.Text()
	var failed error
	if t.config.leads() {
		failed = t.dir.probe(name)
	}
	if _, err := g.Agree(ctx, failed, cluster.Fatal, nil); err != nil {
		return err
	}
	raw, err := g.Share(ctx, "probe of the run directory", []byte(name))
	if err == nil && !t.config.leads() {
		failed = t.sees(string(raw))
	}
	if err == nil {
		_, err = g.Agree(ctx, failed, cluster.Fatal, nil)
	}
	if t.config.leads() {
		err = errors.Join(err, os.Remove(t.dir.join(name)))
	}
	return err
}

// probe writes a file for other ranks to find; those that ranks which were killed have left go.
func (d *runDir) probe(name string) error {
	left, err := filepath.Glob(d.join(probeForm + "*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err == nil {
		err = d.replace(name, nil)
	}
	return err
}

// sees looks for the probe.
func (t *trainer) sees(probe string) error {
	c := t.config
	for range probeTries {
		if _, err := os.Stat(filepath.Join(c.Dir, probe)); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	path, err := filepath.Abs(c.Dir)
	if err != nil {
		path = c.Dir
	}
	g := c.Ranks
	return &DirError{c.Dir, fmt.Errorf("%s does not find in %s what %s has written: wanted a directory that all hosts share, by the same path: name one with --run-dir",
		transport.Name(g.Rank(), g.Host(g.Rank())), path, transport.Name(0, g.Host(0)))}
}

// restart is where rank 0 goes on from.
type restart struct {
	Checkpoint  string `json:"checkpoint"` // name of its directory; "": the run begins
	Fingerprint string `json:"fingerprint"`
	Reschedule  bool   `json:"reschedule"`
}

// follow makes the state that rank 0 makes.
func (t *trainer) follow(ctx context.Context) error {
	raw, err := t.config.Ranks.Share(ctx, "checkpoint to go on from", nil)
	if err != nil {
		return err
	}
	var from restart
	if err := json.Unmarshal(raw, &from); err != nil {
		return fmt.Errorf("train: checkpoint to go on from: %w", err)
	}
	c := t.config
	if from.Checkpoint == "" {
		return t.begin(ctx)
	}
	path := filepath.Join(c.Dir, checkpointsDir, from.Checkpoint)
	found, err := checkpoint.Fingerprint(c.State.FS, path)
	if err != nil {
		return err
	}
	if found != from.Fingerprint {
		g := c.Ranks
		return &DirError{c.Dir, fmt.Errorf("%s: %s: found another checkpoint than %s: wanted a directory that all hosts share",
			transport.Name(g.Rank(), g.Host(g.Rank())), from.Checkpoint, transport.Name(0, g.Host(0)))}
	}
	c.State.Reschedule = from.Reschedule
	loaded, record, err := t.target.Load(ctx, c.State, path)
	if err != nil {
		return err
	}
	t.state = loaded
	t.resume(record, path)
	return nil
}

// lead tells the other ranks where to go on from.
func (t *trainer) lead(ctx context.Context, path string, reschedule bool) error {
	if t.config.Ranks == nil {
		return nil
	}
	from := restart{Reschedule: reschedule}
	if path != "" {
		fingerprint, err := checkpoint.Fingerprint(t.config.State.FS, path)
		if err != nil {
			return err
		}
		from.Checkpoint, from.Fingerprint = filepath.Base(path), fingerprint
	}
	raw, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("train: checkpoint to go on from: %w", err)
	}
	_, err = t.config.Ranks.Share(ctx, "checkpoint to go on from", raw)
	return err
}

// logged is what rank 0 has found in the logs, which decides what is due.
type logged struct {
	Evaluated int64  `json:"evaluated"`
	Sampled   int64  `json:"sampled"`
	EvalLoss  Number `json:"eval_loss"`
	Peak      Number `json:"peak"`
}

// level makes equal on all ranks what only rank 0 has read, or each has measured of its own.
func (t *trainer) level(ctx context.Context) error {
	g := t.config.Ranks
	if g == nil {
		return nil
	}
	raw, err := json.Marshal(logged{t.evaluated, t.sampled, Number(t.evalLoss), Number(t.peak)})
	if err != nil {
		return err
	}
	all, err := g.Gather(ctx, "place in the run", raw)
	if err != nil {
		return err
	}
	peak := 0.0
	for rank, one := range all {
		var l logged
		if err := json.Unmarshal(one, &l); err != nil {
			return fmt.Errorf("train: place in the run: %w", err)
		}
		if rank == 0 {
			t.evaluated, t.sampled, t.evalLoss = l.Evaluated, l.Sampled, float64(l.EvalLoss)
		}
		if peak += float64(l.Peak); l.Peak == 0 {
			peak = math.NaN() // one does not know its own
		}
	}
	t.peak = 0
	if peak > 0 {
		t.peak = peak
	}
	return nil
}

// share are the rows of a batch that this rank reads; nil: all.
func (c Config) share() *data.Share {
	if c.Ranks == nil {
		return nil
	}
	s := c.State.Share()
	return &data.Share{First: s.First * c.State.Batch, Rows: s.Count * c.State.Batch}
}

// StartPatience is how long ranks wait for others before the first step is measured: what drivers take to compile everything, and what reading a
// checkpoint takes, at most.
const StartPatience = 15 * time.Minute

// Waits for others last as long as what they do, as it is expected, so many times over.
const workPatience = 20

// expect tells the ranks how long what they wait for may take.
func (t *trainer) expect(ctx context.Context) error {
	g := t.config.Ranks
	if g == nil {
		return nil
	}
	f := &t.forecast
	raw, err := json.Marshal([]time.Duration{f.steps.each, f.evaluations.each + f.samples.each + f.checkpoints.each})
	if err != nil {
		return err
	}
	all, err := g.Gather(ctx, "forecast", raw)
	if err != nil {
		return err
	}
	var step, between time.Duration
	for _, one := range all {
		var of []time.Duration
		if err := json.Unmarshal(one, &of); err != nil {
			return fmt.Errorf("train: forecast: %w", err)
		}
		step, between = max(step, of[0]), max(between, of[1])
	}
	f.steps.each = step // all are as slow as the slowest
	g.Expect(workPatience * (step + between))
	return nil
}

// wish is what a rank says before every step.
type wish struct {
	Late bool `json:"late,omitempty"` // it is time for a checkpoint
}

// agree lets the ranks make the next step together, or end together; err is why this one is to end. What all are to do is known behind it.
func (t *trainer) agree(ctx context.Context, err error) error {
	g := t.config.Ranks
	if g == nil {
		return err
	}
	if t.apart {
		g.Fail(err)
		return err
	}
	raw, failed := json.Marshal(wish{Late: t.overdue()})
	if failed != nil {
		return failed
	}
	if wanted := stopOf(ctx, err); wanted != nil {
		err = wanted
	}
	all, err := g.Agree(ctx, err, kindOfEnd(ctx, err), raw)
	if err != nil {
		return likewise(err)
	}
	t.saves.late = false
	for _, one := range all {
		var w wish
		if err := json.Unmarshal(one, &w); err != nil {
			return fmt.Errorf("train: agreement: %w", err)
		}
		t.saves.late = t.saves.late || w.Late
	}
	return nil
}

// conclude ends a run on all ranks for one reason.
func (t *trainer) conclude(ctx context.Context, err error) error {
	return t.config.conclude(ctx, err, t.apart)
}

func (c Config) conclude(ctx context.Context, err error, apart bool) error {
	switch {
	case c.Ranks == nil:
		return err
	case apart:
		c.Ranks.Fail(err)
		return err
	}
	return likewise(c.Ranks.Conclude(ctx, err, kindOfEnd(ctx, err)))
}

// leave waits until rank 0 has written its last file: the end of any rank may be that of all.
func (t *trainer) leave(ctx context.Context) {
	if g := t.config.Ranks; g != nil && !t.apart {
		_, _ = g.Gather(ctx, "end", nil) // the run has ended, whatever comes of it
	}
}

// kindOfEnd says what kind of end an error is.
func kindOfEnd(ctx context.Context, err error) cluster.Weight {
	switch {
	case err == nil:
		return cluster.GoOn
	case stopOf(ctx, err) != nil:
		return cluster.Stop
	case isSound(err):
		return cluster.Sound
	}
	return cluster.Fatal
}

// likewise makes of another rank's reason to end one of this rank.
func likewise(err error) error {
	var peer *cluster.PeerError
	if !errors.As(err, &peer) {
		return err
	}
	switch {
	case peer.Weight == cluster.Stop && !errors.Is(err, ErrStopped):
		return stopError{cause: err}
	case peer.Weight == cluster.Sound && !isSound(err):
		return soundError{err}
	}
	return err
}

// ownPart are the batches of an evaluation that this rank's replica computes: n from first on.
func (t *trainer) ownPart() (first, n int) {
	all := t.validation.Batches()
	replica, replicas := t.replica()
	first = replica * all / replicas
	return first, (replica+1)*all/replicas - first
}

// ownBatches is how many they are.
func (t *trainer) ownBatches() int {
	_, n := t.ownPart()
	return n
}

// measure computes the loss of the validation text, each replica that of some batches; its bits are those of one that computes all.
func (t *trainer) measure(ctx context.Context) (state.EvalResult, error) {
	g := t.config.Ranks
	if g == nil {
		return t.state.Evaluate(ctx, t.validation)
	}
	part, err := t.validation.Part(t.ownPart())
	if err != nil {
		return state.EvalResult{}, err
	}
	losses, err := t.state.BatchLosses(context.WithoutCancel(ctx), part) // who wants to stop says so where all meet
	if t.endsAll(err) != nil {
		return state.EvalResult{}, err
	}
	if g.Rank()%perReplica(t.target) > 0 {
		losses = nil // the replica's first rank gives them
	}
	raw, err := json.Marshal(bitsOfLosses(losses))
	if err != nil {
		return state.EvalResult{}, err
	}
	all, err := g.Gather(ctx, "losses of an evaluation", raw)
	if err != nil {
		return state.EvalResult{}, likewise(err)
	}
	var whole []state.BatchLoss
	for _, one := range all {
		var bits [][2]uint32
		if err := json.Unmarshal(one, &bits); err != nil {
			return state.EvalResult{}, fmt.Errorf("train: evaluation: %w", err)
		}
		for _, b := range bits {
			whole = append(whole, state.BatchLoss{Sum: math.Float32frombits(b[0]), Tokens: int(b[1])})
		}
	}
	return state.MeanLoss(whole)
}

// clusterCost is how the ranks have spent a step that took so long.
func (t *trainer) clusterCost(took time.Duration) *ClusterCost {
	if t.sums == nil {
		return nil
	}
	c := &ClusterCost{}
	var transfer, hidden time.Duration
	for rank, u := range t.sums.Uses() {
		ms := Number(milliseconds(u.Passes))
		c.PassesMS = append(c.PassesMS, ms)
		if ms > c.PassesMS[c.Slowest] {
			c.Slowest = rank
		}
		transfer, hidden = transfer+u.Transfer, hidden+u.Hidden
		c.Bytes += u.Sent
	}
	c.Transfer = Number(transfer.Seconds() / took.Seconds() / float64(len(c.PassesMS)))
	if transfer > 0 {
		c.Hidden = Number(hidden.Seconds() / transfer.Seconds())
	}
	return c
}

// bitsOfLosses are the losses as they travel, not finite ones too.
func bitsOfLosses(losses []state.BatchLoss) [][2]uint32 {
	out := make([][2]uint32, len(losses))
	for i, l := range losses {
		out[i] = [2]uint32{math.Float32bits(l.Sum), uint32(l.Tokens)}
	}
	return out
}
