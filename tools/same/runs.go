package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// recorded is a run that is made whole by both programs, killed and resumed by the new one, and begun by the old one,
// killed, and resumed by the new one.
type recorded struct {
	name  string
	args  []string // of train, or what follows tune
	tunes bool
	ranks int // 0: without launch
}

func ofTiny(name string, sets ...string) recorded {
	return recorded{name: name, args: append(on("tiny.yaml"), set(sets...)...)}
}

func ofModel(name string, over []string, sets ...string) recorded {
	return recorded{name: name, args: set(append(slices.Clone(over), sets...)...)}
}

// table are the recorded runs besides optimizers and families.
var table = []recorded{
	ofTiny("two stages", "pipeline.stages=2", "pipeline.microbatches=2"),
	ofTiny("interleaved", "model.layers=4", "pipeline.stages=2", "pipeline.microbatches=2", "pipeline.schedule=interleaved"),
	{name: "two ranks", args: on("tiny.yaml"), ranks: 2},
	{name: "shard_optimizer", args: append(on("tiny.yaml"), set("cluster.shard_optimizer=true")...), ranks: 2},
	{name: "stages on two ranks", args: append(on("tiny.yaml"), set("pipeline.stages=2", "pipeline.adapters=['0:auto', '1:auto']", "pipeline.microbatches=2")...), ranks: 2},
	ofTiny("frozen", "optimizer.rates=[{match: '^wte|^wpe', multiplier: 0}]"),
	ofTiny("frozen in bf16", "optimizer.rates=[{match: '^wte|^wpe', multiplier: 0}]", "model.base=bf16", "train.save_frozen_as=bf16"),
	ofTiny("frozen in nf4", "model.width=64", "optimizer.rates=[{match: '^h', multiplier: 0}]", "model.base=nf4"),
	ofTiny("sequence", "train.accumulation=sequence"),
	ofTiny("recompute", "train.recompute=layers"),
	ofTiny("storage in bf16", "train.storage=bf16"),
	ofTiny("products in f16", "train.products=f16"),
	ofTiny("8-bit state", "model.width=64", "optimizer.state_dtype=8bit"),
	ofTiny("quad in bf16", "optimizer.name=quad", "optimizer.dtype=bf16"),
	ofTiny("skew by eformer", "optimizer.name=skew", "optimizer.numerics=eformer"),
	ofTiny("histograms", "train.histogram_every=2"),
	ofTiny("affine", "model.width=32", "model.quantize.mode=affine"),
	ofTiny("nvfp4", "model.width=32", "model.quantize.mode=nvfp4"),
	ofTiny("spikes", "train.spike_window=2", "train.spike_loss=0.1", "train.spike_update_norm=0.1"),
	ofTiny("mixture", "data.text=[]", "data.mixture=[{text: text.txt, weight: 1}, {jsonl: documents.jsonl, weight: 1}]"),
	ofTiny("packed", "data.text=[]", "data.jsonl=documents.jsonl", "model.context=32"),
	ofTiny("streamed", "data.text=[]", "data.jsonl=documents.jsonl", "data.packing=stream", "data.documents=together"),
	ofTiny("orpo from scratch", "data.text=[]", "data.jsonl=texts.jsonl", "model.context=32", "preference.loss=orpo"),
	ofModel("chats", chatLora, "lora.rank=0", "lora.target=[]"),
	ofModel("chats without packing", chatLora, "data.packing=none", "lora.rank=0", "lora.target=[]"),
	ofModel("lora", chatLora),
	ofModel("dora", chatLora, "lora.dora=true", "lora.dropout=0.1", "lora.save=norm"),
	ofModel("lora goes on", slices.DeleteFunc(slices.Clone(chatLora), func(s string) bool { return strings.HasPrefix(s, "lora.") }), "lora.from=adapters"),
	ofModel("lora on bf16", chatLora, "model.base=bf16"),
	ofModel("lora on nf4", chatLora, "model.base=nf4"),
	ofModel("lora on nested nf4", chatLora, "model.base=nf4-nested"),
	ofModel("lora on nf4, two stages", chatLora, "model.base=nf4", "pipeline.stages=2"),
	ofModel("GGUF", chatLora, "model.from=models/llama.gguf", "lora.rank=0", "lora.target=[]"),
	ofModel("lora on GGUF in q8_0", chatLora, "model.from=models/llama-q8.gguf"),
	ofModel("save_frozen", chatLora, "lora.rank=0", "lora.target=[]", "optimizer.rates=[{match: layers.0, multiplier: 0}]", "train.save_frozen=false"),
	ofModel("DPO", dpo),
	ofModel("ORPO", dpo, "preference.loss=orpo"),
	ofModel("SimPO", dpo, "preference.loss=simpo"),
	ofModel("DPO on nf4, two stages", dpo, "model.base=nf4", "pipeline.stages=2"),
	{name: "tune", tunes: true, args: append(on("models/llama docs/tuning/chats.jsonl"), set("train.steps=8", "train.save_every=2")...)},
	{name: "tune on GGUF", tunes: true, args: append(on("models/qwen3.gguf few.jsonl"), set("train.steps=8", "train.save_every=2")...)},
}

func runCases(*world) (all []work, err error) {
	var runs []recorded
	for _, o := range optimizers {
		runs = append(runs, ofTiny(o, "optimizer.name="+o, "optimizer.learning_rate=0.003"))
	}
	for _, f := range families {
		runs = append(runs, recorded{name: f, args: append(on(f+".yaml"), set("train.steps=8", "train.save_every=2", "train.eval_every=4")...)})
	}
	for _, r := range append(runs, table...) {
		all = append(all, work{r.name, r.compare})
	}
	return all, nil
}

// command is the one that makes the run, or resumes it.
func (r recorded) command() command {
	words := "train --progress none --run-dir @/run"
	if r.tunes {
		words = "tune --progress none --run-dir @/run"
	}
	if r.ranks > 0 {
		words = fmt.Sprintf("launch -n %d -- %s", r.ranks, words)
	}
	return append(on(words), r.args...)
}

func (r recorded) compare(w *world) (all []difference, err error) {
	n := w.number()
	whole := scene{name: r.name, commands: []command{r.command()}, measured: true}
	left := [2]outcome{}
	var end outcome
	for i, s := range []*side{w.old, w.new} {
		if s == w.old {
			whole.then = func(dir string) error { end, err = s.end(filepath.Join(dir, "run")); return err }
		}
		if left[i], err = whole.play(s, n); err != nil {
			return nil, err
		}
		if code := left[i]["exit code"]; s == w.old && code != "0\n" {
			return nil, fmt.Errorf("the program before ends with exit code %s: %s", strings.TrimSpace(code), left[i]["stderr"])
		}
		whole.then = nil
	}
	all = differences(left[0], left[1])
	for _, way := range []struct {
		name         string
		on           *side
		begin, after string
	}{
		{"killed and resumed: ", w.new, w.new.program, w.new.program},
		{"begun by the program before, killed and resumed: ", w.old, w.old.program, w.new.program},
	} {
		resumed, err := r.killed(way.on, fmt.Sprintf("at/%04d", n), way.begin, way.after)
		if err != nil {
			return nil, fmt.Errorf("%s%w", way.name, err)
		}
		for _, d := range differences(end, resumed) {
			d.what = way.name + d.what
			all = append(all, d)
		}
	}
	return all, nil
}

// attempts are how often a run may end before it is killed.
const attempts = 5

// killed begins the run, kills it with all its processes when it has a checkpoint, resumes it, and returns its end.
func (r recorded) killed(on *side, at, begin, after string) (outcome, error) {
	dir := filepath.Join(on.root, at)
	defer os.RemoveAll(dir)
	defer os.Remove(on.list(at))
	for range attempts {
		if err := errors.Join(os.RemoveAll(dir), scene{}.prepare(on, at)); err != nil {
			return nil, err
		}
		p, err := on.start(begin, at, r.command())
		if err != nil {
			return nil, err
		}
		if !p.killAt(filepath.Join(dir, "run", "checkpoints", "step-00000002")) {
			continue
		}
		p, err = on.start(after, at, r.command())
		if err != nil {
			return nil, err
		}
		if err := p.wait(); err != nil {
			return nil, err
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			return nil, fmt.Errorf("resumed: exit code %d: %s", code, p.err.String())
		}
		if !strings.Contains(p.err.String(), "resumed from ") {
			return nil, fmt.Errorf("not resumed: %s", p.err.String())
		}
		return on.end(filepath.Join(dir, "run"))
	}
	return nil, fmt.Errorf("has ended %d times before it could be killed", attempts)
}

// killAt kills the process and all that it has started once a path is there, and says whether it still ran then.
func (p *process) killAt(path string) bool {
	for {
		select {
		case <-p.over:
			return false
		default:
		}
		if _, err := os.Stat(path); err == nil {
			for _, pid := range append(descendants(p.cmd.Process.Pid), p.cmd.Process.Pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			<-p.over
			return p.cmd.ProcessState.ExitCode() == -1
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// descendants are the processes that one has started, and those that they have.
func descendants(pid int) (all []int) {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range found {
		raw, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(raw)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				all = append(append(all, descendants(child)...), child)
			}
		}
	}
	return all
}

// allocated are keys of metrics that go by what a process has allocated so far, and by its ranks' traffic.
var allocated = regexp.MustCompile(`^(device_bytes|device_peak_bytes|cluster)$`)

// end is what a run must have in the end, however often it was interrupted: the newest checkpoint, metrics, samples
// and histograms.
func (on *side) end(dir string) (outcome, error) {
	checkpoints, err := filepath.Glob(filepath.Join(dir, "checkpoints", "step-*[0-9]"))
	if err != nil {
		return nil, err
	}
	if len(checkpoints) == 0 {
		return nil, fmt.Errorf("%s has no checkpoint", dir)
	}
	last := slices.Max(checkpoints)
	said := outcome{"newest checkpoint": filepath.Base(last) + "\n"}
	if err := on.files(last, said); err != nil {
		return nil, err
	}
	for _, name := range []string{"metrics.jsonl", "samples.jsonl", "histograms.jsonl"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if said[name], err = maskLines(raw, on, allocated); err != nil {
			return nil, err
		}
	}
	return said, nil
}
