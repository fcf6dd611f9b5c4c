package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// resolved is a scene in which some settings are explained and planned: for cards that are not here, and kernel by
// kernel.
func resolved(name string, args ...string) scene {
	given := func(words string, more ...string) command { return append(append(on(words), args...), more...) }
	return scene{name: name, commands: []command{
		given("config explain"),
		given("plan --json --memory 24GiB"),
		given("plan --memory", "rtx 4060"),
		given("plan --step --memory 24GiB"),
	}}
}

// trained is the scene with a short training besides: run.yaml, every other file, and every line that the run says.
func (s scene) trained(args ...string) scene {
	s.measured = true
	s.commands = append(s.commands, append(on("train --progress none --run-dir @/run"), args...))
	return s
}

// planCases are the resolved run files.
func planCases(w *world) (all []work, err error) {
	var scenes []scene
	for _, table := range []func(*world) ([]scene, error){pageScenes, keyScenes, wrongScenes, optimizerScenes, familyScenes, modelScenes, tuneScenes, resumeScenes, commandScenes} {
		more, err := table(w)
		if err != nil {
			return nil, err
		}
		scenes = append(scenes, more...)
	}
	for _, s := range scenes {
		all = append(all, s.work())
	}
	return all, nil
}

var fenced = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// pageScenes are the run files of pages, and those beside them.
func pageScenes(w *world) (all []scene, err error) {
	pages, err := filepath.Glob(filepath.Join(w.before, "docs", "*"))
	if err != nil {
		return nil, err
	}
	for _, path := range append(pages, filepath.Join(w.before, "README.md")) {
		ext := filepath.Ext(path)
		if ext != ".md" && ext != ".yaml" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		blocks := [][][]byte{{nil, text}}
		if ext == ".md" {
			blocks = fenced.FindAllSubmatch(text, -1)
		}
		for i, b := range blocks {
			name := fmt.Sprintf("page/%s-%d", filepath.Base(path), i+1)
			s := resolved(name, "@/run.yaml")
			s.files = map[string]string{"run.yaml": string(b[1])}
			s.commands = append(s.commands, append(on("plan --json --memory 80GiB --ranks 8 --network 10Gbit"), append([]string{"@/run.yaml"}, set("data.text=text.txt", "data.jsonl=[]", "data.mixture=[]", "model.from=")...)...))
			all = append(all, s)
		}
	}
	return all, nil
}

// keyScenes are the default run with each key set otherwise, by --set, by a variable and in a file, and what a short
// run makes of it.
func keyScenes(w *world) (all []scene, err error) {
	keys, err := w.keys()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if !slices.ContainsFunc(changes, func(c change) bool { return c.key == key }) {
			all = append(all, scene{name: "key/" + key, copies: []string{"there is no row in keys.go"}})
		}
	}
	for _, c := range changes {
		args := append([]string{"keyed.yaml"}, set(append(slices.Clone(c.over), c.key+"="+c.value)...)...)
		s := resolved("key/"+c.key+"="+c.value, args...)
		if len(c.over) > 0 {
			s.name += " over " + strings.Join(c.over, ", ")
		}
		s.files = map[string]string{"change.yaml": strings.ReplaceAll(c.key, ".", ": {") + ": " + c.value + strings.Repeat("}", strings.Count(c.key, ".")) + "\n"}
		over := set(c.over...)
		s.commands = append(s.commands,
			append(on("config explain keyed.yaml @/change.yaml"), over...),
			append(command{variable(c.key) + "=" + c.value}, append(on("config explain keyed.yaml"), over...)...),
		)
		all = append(all, s.trained(args...))
	}
	return all, nil
}

func variable(key string) string {
	return "GPUTRAIN_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// keys are those of the run file, as the program of the commit before lists them.
func (w *world) keys() (keys []string, err error) {
	text, err := output(w.old.program, "config", "template")
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, line := range strings.Split(text, "\n") {
		found := keyLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		groups = append(groups[:len(found[1])/2], found[2])
		if found[3] != "" {
			keys = append(keys, strings.Join(groups, "."))
		}
	}
	return keys, nil
}

var keyLine = regexp.MustCompile(`^( *)([a-z_]+):(.*)$`)

// wrongScenes are values that no key, or hardly one, takes, and keys and files that are none.
func wrongScenes(w *world) (all []scene, err error) {
	keys, err := w.keys()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		s := scene{name: "wrong/" + key}
		for _, value := range []string{"wrong", "-7", "1.5", "null", "[1, 2]", "{a: 1}", "''"} {
			s.commands = append(s.commands, on("plan --json --memory 24GiB keyed.yaml", set(key+"="+value)...))
		}
		s.commands = append(s.commands, on("config explain", set(key+"x=1")...), command{variable(key) + "S=1", "config", "explain"})
		all = append(all, s)
	}
	for name, text := range map[string]string{
		"no yaml": "model: {", "a list": "- 1\n", "a key twice": "train: {steps: 1, steps: 2}\n", "an unknown group": "modle: {kind: llama}\n", "empty": "", "two documents": "train: {steps: 1}\n---\ntrain: {steps: 2}\n",
		"an anchor": "train: &a {steps: 1}\npipeline: *a\n", "a tag": "train: !!str {steps: 1}\n", "bytes": "train: {steps: \xff}\n", "a text in place of a group": "train: hello\n",
	} {
		s := resolved("wrong/file/"+name, "@/run.yaml")
		s.files = map[string]string{"run.yaml": text}
		all = append(all, s)
	}
	return append(all, scene{name: "wrong/commands", commands: []command{
		on("train none.yaml"), on("plan none.yaml"), on("plan keyed.yaml --memory foo"), on("plan keyed.yaml --memory 1kB"), on("plan keyed.yaml --ranks -1"),
		on("plan keyed.yaml --ranks 0 --memory 8GiB"),
		on("plan keyed.yaml --ranks 2 --network fast"), on("plan --step --ranks 2 keyed.yaml"), on("plan keyed.yaml --adapter none"), on("train keyed.yaml --adapter none"),
		on("train keyed.yaml --set train.steps"),
		on("tune"), on("tune models/llama"), on("tune models/none few.jsonl"), on("tune models/llama none.jsonl"), on("config"), on("nothing"), on("launch"),
		on("launch -n 0 -- train keyed.yaml"),
		on("launch -n 2 -- sample x"), on("launch --hosts none -- train keyed.yaml"), on("launch -n 2 -- train none.yaml"), on("train keyed.yaml --serve nowhere"),
		on("train keyed.yaml --progress loud"),
		on("compare keyed.yaml --optimizers none"), on("compare keyed.yaml --optimizers adamw --rate sgd=1"), on("compare keyed.yaml --seeds 0"),
		on("compare keyed.yaml --optimizers adamw=tiny.yaml"),
		on("compare keyed.yaml --optimizers adamw,adamw"), on("compare keyed.yaml --steps -1"), on("sample none"), on("eval none"), on("export none --to x"),
		on("merge none --to x"), on("chat none"),
	}}), nil
}

var parameterLine = regexp.MustCompile(`^    ([a-z_0-9]+): (.*)$`)

// optimizerScenes are every optimizer, and each of its own parameters set otherwise.
func optimizerScenes(w *world) (all []scene, err error) {
	for _, name := range optimizers {
		over := []string{"optimizer.name=" + name, "optimizer.learning_rate=0.003"}
		args := append([]string{"tiny.yaml"}, set(over...)...)
		all = append(all, resolved("optimizer/"+name, args...), scene{name: "optimizer/" + name + "/help", commands: []command{on("optimizers " + name)}})
		text, err := output(w.old.program, "optimizers", name)
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(text, "\n") {
			found := parameterLine.FindStringSubmatch(line)
			if found == nil {
				continue
			}
			other := map[string]string{`"f32"`: "bf16", `""`: "bf16", `"adam"`: "none", "true": "false", "false": "true", "null": "0.5", "0": "0.25", "1": "2", "128": "64"}[found[2]]
			switch {
			case strings.HasSuffix(found[1], "mask") || found[1] == "scanned_layers":
				other = "['c_fc']"
			case found[1] == "adamw":
				other = "['^wte']"
			case other == "" && strings.HasPrefix(found[2], "{"):
				other = "{every: 2, anneal: true}"
			case other == "" && strings.HasPrefix(found[2], "["):
				other = "[3.4, -4.7, 2.0]"
			case other == "":
				other = "0.5"
			}
			values := []string{other}
			if found[1] == "state_dtype" {
				values = append(values, "8bit", "4bit")
			}
			for _, value := range values {
				all = append(all, resolved("optimizer/"+name+"/"+found[1]+"="+value, append(slices.Clone(args), set("optimizer."+found[1]+"="+value)...)...))
			}
		}
	}
	return append(all, scene{name: "optimizers", commands: []command{on("optimizers"), on("optimizers none"), on("config template"), on("config schema"), on("completion bash")}}), nil
}

// familyScenes are new models of published sizes.
func familyScenes(w *world) (all []scene, err error) {
	for _, f := range families {
		for _, size := range []string{"0.1M", "100M", "1B", "8B"} {
			text, err := output(w.old.program, "config", "template", "--family", f, "--size", size, "--vocab", "448", "--context", "256")
			if err != nil {
				return nil, err
			}
			args := append([]string{"@/run.yaml"}, set("data.text=text.txt")...)
			s := resolved("family/"+f+"/"+size, args...)
			s.files = map[string]string{"run.yaml": text}
			s.commands = append(s.commands, on("config template --vocab 448 --context 256 --family "+f+" --size "+size))
			if size == "1B" || size == "8B" {
				s.commands = slices.Concat(s.commands[:2], s.commands[3:]) // planning what is large takes its time
				all = append(all, s)
				continue
			}
			for _, more := range [][]string{
				{"train.batch=16", "train.accumulate=4"},
				{"pipeline.stages=4", "train.batch=8", "pipeline.microbatches=8"},
				{"train.storage=bf16", "train.memory_limit=6GiB"},
				{"optimizer.state_dtype=8bit"},
			} {
				s.commands = append(s.commands, append(on("plan --json --memory 24GiB"), append(slices.Clone(args), set(more...)...)...))
			}
			s.commands = append(s.commands, append(on("plan --json --memory 80GiB --ranks 8 --network 100Gbit"), args...))
			all = append(all, s)
		}
	}
	return append(all, scene{name: "family/wrong", commands: []command{
		on("config template --family lama --size 1B"), on("config template --family llama --size 1"),
		on("config template --family llama"), on("config template --size 1B"), on("config template --family llama --size big"),
	}}), nil
}

// modelPaths are models of others and of the program before: directories of every family, GGUF files, run directories.
func (w *world) modelPaths() (all []string, err error) {
	for _, f := range families {
		all = append(all, "models/"+f)
	}
	for _, name := range sortedKeys(ggufs) {
		all = append(all, "models/"+name+".gguf")
	}
	all = append(all, "made/gemma2", "begun/lora", "adapters", "docs", "text.txt")
	if !w.shared {
		return all, nil
	}
	for _, pattern := range []string{"shared/hf/models/*", "shared/hf/lora/*/base", "shared/hf/pairs/*", "shared/golden/*", "shared/hf/nf4/*"} {
		found, err := filepath.Glob(filepath.Join(w.old.root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			name, err := filepath.Rel(w.old.root, path)
			if err != nil {
				return nil, err
			}
			all = append(all, name)
		}
	}
	return all, nil
}

// modelScenes are runs that begin with each model: whole, frozen, with adapters, on every storage of the base.
func modelScenes(w *world) (all []scene, err error) {
	paths, err := w.modelPaths()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		s := scene{name: "model/" + path, commands: []command{on("show " + path), on("inspect " + path), on("tokenize show " + path)}}
		over := []string{"model.from=" + path, "data.text=text.txt", "data.tokens=bytes", "model.context=32"}
		for _, more := range [][]string{
			nil,
			{"model.context=100000"},
			{"model.dropout=0.1"},
			{"lora.rank=2", "lora.target=all-linear"},
			{"lora.rank=2", "lora.target=all-linear", "model.base=bf16"},
			{"lora.rank=2", "lora.target=all-linear", "model.base=nf4"},
			{"lora.rank=2", "lora.target=all-linear", "model.base=nf4-nested"},
			{"model.quantize.mode=affine"},
			{"pipeline.stages=2"},
			{"data.tokens=auto"},
			{"train.products=f16", "train.storage=bf16"},
		} {
			sets := set(append(slices.Clone(over), more...)...)
			s.commands = append(s.commands, on("plan --json --memory 24GiB", sets...))
			if len(more) == 2 || more == nil {
				s.commands = append(s.commands, on("config explain", sets...), on("plan --step --memory 24GiB", sets...))
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// tuneScenes are what tune would choose for cards that are not here.
func tuneScenes(w *world) (all []scene, err error) {
	paths, err := w.modelPaths()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		s := scene{name: "tune/" + path}
		for _, card := range []string{"8GiB", "rtx 4060", "400kB", "1MB"} {
			s.commands = append(s.commands, on("tune "+path+" docs/tuning/chats.jsonl --memory", card))
		}
		all = append(all, s)
	}
	for _, data := range []string{"docs/tuning/world.jsonl", "docs/tuning/chats.jsonl docs/tuning/held.jsonl", "docs/tuning/pairs.jsonl", "text.txt", "documents.jsonl", "few.jsonl", "alpaca.jsonl", "sharegpt.jsonl", "unknown.jsonl", "broken.jsonl", "none.jsonl"} {
		s := scene{name: "tune data/" + data}
		for _, m := range []string{"models/llama", "models/qwen3", "models/gpt2", "models/llama-q8.gguf"} {
			s.commands = append(s.commands, on("tune "+m+" "+data+" --memory 8GiB"))
		}
		all = append(all, s)
	}
	if w.shared {
		found, err := filepath.Glob(filepath.Join(w.old.root, "shared", "reports", "*", "*.jsonl*"))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			name, err := filepath.Rel(w.old.root, path)
			if err != nil {
				return nil, err
			}
			all = append(all, scene{name: "tune data/" + name, commands: []command{
				on("tune models/llama --memory 8GiB " + name), on("data show --set model.context=64 --set data.tokenizer=tok --set data.validation=0 --set data.jsonl=" + name),
			}})
		}
	}
	for _, sets := range [][]string{
		{"lora.rank=4"},
		{"lora.rank=4", "lora.alpha=3"},
		{"lora.target=q_proj"},
		{"lora.target=none"},
		{"lora.dora=true"},
		{"model.base=bf16"},
		{"model.base=nf4"},
		{"model.base=nf4-nested"},
		{"model.context=32"},
		{"model.context=128"},
		{"train.batch=4"},
		{"train.accumulate=4"},
		{"train.batch=3", "train.accumulate=2"},
		{"train.steps=7"},
		{"data.epochs=2"},
		{"data.epochs=2", "train.steps=3"},
		{"optimizer.name=muon"},
		{"optimizer.name=lion"},
		{"optimizer.learning_rate=0.001"},
		{"optimizer.schedule.type=constant"},
		{"optimizer.schedule.warmup_steps=3"},
		{"optimizer.weight_decay=0.1"},
		{"optimizer.state_dtype=8bit"},
		{"train.recompute=layers"},
		{"train.memory_limit=1MB"},
		{"train.memory_limit=3GiB"},
		{"train.sample_tokens=0"},
		{"train.sample_tokens=5"},
		{"train.temperature=1"},
		{"train.eval_every=10"},
		{"train.save_every=10"},
		{"train.keep=1"},
		{"data.validation=0"},
		{"data.validation=0.3"},
		{"data.packing=none"},
		{"data.long=split"},
		{"data.long=keep_end"},
		{"data.roles=[user]"},
		{"data.learn_last=true"},
		{"data.template=chatml"},
		{"data.format=messages"},
		{"train.storage=bf16"},
		{"train.products=f16"},
		{"model.from=models/qwen3"},
		{"data.jsonl=few.jsonl"},
		{"preference.loss=orpo"},
		{"pipeline.stages=2"},
		{"train.seed=1"},
		{"lora.from=adapters"},
		{"lora.from=begun/lora"},
		{"lora.rank=0"},
		{"model.quantize.mode=nf4"},
		{"cluster.wire=bf16"},
		{"lora.b_rate=4"},
		{"lora.layers=[0]"},
		{"train.prompt=hello"},
		{"train.nonsense=1"},
	} {
		s := scene{name: "tune set/" + strings.Join(sets, ", ")}
		for _, card := range []string{"8GiB", "600kB"} {
			s.commands = append(s.commands, append(on("tune models/llama docs/tuning/chats.jsonl --memory", card), set(sets...)...))
		}
		s.commands = append(s.commands, append(on("tune models/gemma2 few.jsonl --progress none --run-dir @/tuned"), set(append(slices.Clone(sets), "train.steps=2", "train.eval_tokens=32")...)...))
		s.measured = true
		all = append(all, s)
	}
	return all, nil
}

// resumeScenes are runs that the program of the commit before has begun, and whose newest checkpoint is gone: with
// the same settings, and with each key set otherwise.
func resumeScenes(w *world) (all []scene, err error) {
	for _, b := range begun {
		words := "train --progress none --run-dir @/" + b.name
		if b.tunes {
			words = "tune models/llama docs/tuning/chats.jsonl --progress none --run-dir @/" + b.name
		}
		last := scene{copies: []string{"begun/" + b.name}, without: b.name + "/checkpoints/step-0000000[68]", measured: true}
		resume := func(name string, args ...string) {
			s := last
			s.name = "resumed/" + b.name + "/" + name
			s.commands = []command{append(append(on(words), b.args...), args...)}
			all = append(all, s)
		}
		resume("as it was")
		resume("fresh", "--fresh")
		resume("moved base", set("model.from=models/qwen3")...)
		resume("longer", set("train.steps=10")...)
		resume("longer, as wanted", append(set("train.steps=10"), "--reschedule")...)
		resume("another rate, as wanted", append(set("optimizer.learning_rate=0.0001"), "--reschedule")...)
		resume("another schedule, as wanted", append(set("optimizer.schedule.type=linear"), "--reschedule")...)
		done := last
		done.name, done.without = "resumed/"+b.name+"/done", ""
		done.commands = []command{append(on(words), b.args...)}
		all = append(all, done)
		lost := last
		lost.name, lost.without = "resumed/"+b.name+"/without run.yaml", b.name+"/run.yaml"
		record := append(on("config record"), b.args...)
		if b.tunes {
			record = on("config record")
		}
		lost.commands = []command{append(record, set("train.steps=8")...), append(slices.Clone(record), "--run-dir", "@/"+b.name), append(on(words), b.args...)}
		all = append(all, lost)
		read := last
		read.name = "resumed/" + b.name + "/read"
		read.commands = nil
		for _, words := range []string{"inspect", "inspect --optimizer", "show", "report", "eval --text text.txt", "sample --tokens 8", "export --to @/exported", "merge --to @/merged", "chat --prompt Hi --temperature 0", "plan --memory 24GiB --set model.context=64 --set data.text=text.txt --set model.from="} {
			fields := strings.Fields(words)
			if strings.HasSuffix(words, "model.from=") {
				read.commands = append(read.commands, on(words+"@/"+b.name))
			} else {
				read.commands = append(read.commands, append(command{fields[0], "@/" + b.name}, fields[1:]...))
			}
		}
		all = append(all, read)
	}
	for _, c := range changes {
		if len(c.over) > 0 {
			continue
		}
		s := scene{
			name: "resumed/key/" + c.key + "=" + c.value, copies: []string{"begun/tiny"}, without: "tiny/checkpoints/step-0000000[68]", measured: true,
			commands: []command{on("train tiny.yaml --progress none --run-dir @/tiny", set(c.key+"="+c.value)...)},
		}
		all = append(all, s)
	}
	for _, sets := range [][]string{
		{"lora.rank=3"},
		{"lora.alpha=1"},
		{"lora.target=q_proj"},
		{"lora.dora=true"},
		{"lora.dropout=0.1"},
		{"lora.b_rate=2"},
		{"lora.layers=[0]"},
		{"lora.save=lm_head"},
		{"model.base=bf16"},
		{"model.base=nf4"},
		{"lora.from=adapters"},
		{"data.roles=[user]"},
		{"data.template=chatml"},
		{"data.jsonl=few.jsonl"},
		{"data.packing=none"},
		{"preference.loss=orpo"},
		{"train.save_frozen=true"},
	} {
		for _, b := range []int{2, 3, 4, 7} {
			words := "train --progress none --run-dir @/" + begun[b].name
			if begun[b].tunes {
				words = "tune models/llama docs/tuning/chats.jsonl --progress none --run-dir @/" + begun[b].name
			}
			all = append(all, scene{
				name: "resumed/" + begun[b].name + "/" + sets[0], copies: []string{"begun/" + begun[b].name}, without: begun[b].name + "/checkpoints/step-0000000[68]", measured: true,
				commands: []command{append(append(on(words), begun[b].args...), set(sets...)...)},
			})
		}
	}
	return all, nil
}

// commandScenes are commands that open models and data without training.
func commandScenes(w *world) (all []scene, err error) {
	for _, path := range []string{"models/llama", "models/gpt2", "models/gemma3_text", "models/llama-q8.gguf", "made/qwen3", "begun/lora", "begun/nf4", "adapters"} {
		s := scene{name: "command/" + path, measured: true}
		for _, words := range []string{
			"eval %s --text text.txt", "sample %s --tokens 12 --prompt The", "sample %s --tokens 12 --temperature 0", "chat %s --prompt Hi --temperature 0", "export %s --to @/bf16 --dtype bf16", "export %s --to @/f16.gguf --type f16", "export %s --to @/q4.gguf --type q4_0 --ollama ours",
			"merge %s --to @/merged", "tokenize encode --tokenizer %s hello", "train --progress none --run-dir @/run --set model.from=%[1]s --set model.context=64 --set data.jsonl=docs/tuning/chats.jsonl --set train.steps=2 --set train.batch=2 --set train.eval_tokens=64 --set train.sample_tokens=4",
		} {
			s.commands = append(s.commands, on(fmt.Sprintf(words, path)))
		}
		all = append(all, s)
	}
	all = append(all,
		scene{name: "command/compare", measured: true, commands: []command{on("compare keyed.yaml --optimizers adamw,sgd@0.5 --seeds 2 --steps 4 --out @/compared --progress none"), on("compare keyed.yaml --optimizers adamw,sgd@0.5 --seeds 2 --steps 4 --out @/compared --progress none")}},
		scene{name: "command/default folders", measured: true, commands: []command{
			on("train keyed.yaml --progress none --set train.steps=1"),
			on("train --progress none keyed.yaml tiny.yaml --set train.steps=2"), on("tune models/qwen2 few.jsonl --progress none --set train.steps=2"),
		}},
		scene{name: "command/merge beside", measured: true, commands: []command{
			on("merge models/llama adapters --to @/merged"),
			on("merge models/qwen3 adapters --to @/merged2"), on("merge models/llama.gguf adapters --to @/merged3"),
		}},
	)
	for _, sets := range [][]string{
		{"data.text=text.txt"},
		{"data.jsonl=documents.jsonl"},
		{"data.jsonl=docs/tuning/chats.jsonl", "data.tokenizer=tok"},
		{"data.jsonl=docs/tuning/pairs.jsonl", "data.tokenizer=tok", "preference.loss=orpo"},
		{"data.jsonl=few.jsonl", "data.tokenizer=tok", "data.packing=stream"},
		{"data.mixture=[{text: text.txt, weight: 3}, {jsonl: documents.jsonl, weight: 1}]"},
	} {
		all = append(all, scene{name: "command/data show/" + sets[0], commands: []command{on("data show", set(append(sets, "model.context=64")...)...)}})
	}
	if w.shared {
		chats, err := filepath.Glob(filepath.Join(w.old.root, "shared", "hf", "chat", "*"))
		if err != nil {
			return nil, err
		}
		tokenizers, err := filepath.Glob(filepath.Join(w.old.root, "shared", "hf", "tokenizers", "*"))
		if err != nil {
			return nil, err
		}
		for _, path := range append(chats, tokenizers...) {
			name, err := filepath.Rel(w.old.root, path)
			if err != nil {
				return nil, err
			}
			all = append(all, scene{name: "command/" + name, commands: []command{
				on("tokenize show " + name), on("tokenize encode --tokenizer "+name, "Hello, you 123"),
				on("data show", set("model.context=256", "data.tokenizer="+name, "data.jsonl=few.jsonl")...),
			}})
		}
	}
	return all, nil
}
