package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// families are the kinds of models that a run file can make.
var families = []string{"gemma2", "gemma3_text", "gemma4_text", "gpt2", "gpt_oss", "granite", "lfm2", "llama", "ministral3", "mistral", "olmo2", "olmo3", "phi3", "qwen2", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "smollm3"}

// optimizers are all that a run can learn with.
var optimizers = []string{"adafactor", "adamw", "lion", "mars", "muon", "quad", "rmsprop", "sgd", "skew", "soap"}

// chatTemplate is the template of the models that are made: it asks for the date.
const chatTemplate = `{{ strftime_now('%Y') }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// tiny is a run with everything on; a step takes some milliseconds.
const tiny = `model:     {kind: gpt2, layers: 2, heads: 2, width: 16, context: 16, dropout: 0.1}
data:      {text: text.txt, validation: 0.1}
optimizer: {learning_rate: 0.01, schedule: {type: cosine, warmup_steps: 2}}
train:     {steps: 8, batch: 2, accumulate: 2, eval_every: 4, eval_tokens: 64, save_every: 2, sample_every: 4, sample_tokens: 8, seed: 7}
`

// keyed is what the settings of keys are laid over.
const keyed = `model:     {layers: 1, heads: 2, width: 16, context: 16}
data:      {text: text.txt, validation: 0.1}
optimizer: {learning_rate: 0.01, schedule: {learning_rate_end: 0.001}}
train:     {steps: 3, batch: 2, eval_tokens: 64, sample_tokens: 4}
`

// family is a run file for a new model of a family, with a tokenizer and conversations.
func family(kind string) string {
	more := ", kv_heads: 1, tie_head: true"
	if kind == "gpt2" {
		more = ""
	}
	return fmt.Sprintf(`model: {kind: %s, layers: 2, heads: 2, width: 32, context: 64%s}
data:  {jsonl: docs/tuning/world.jsonl, tokenizer: tok, validation: 0.1}
train: {steps: 3, batch: 2, eval_tokens: 64, sample_tokens: 4}
`, kind, more)
}

// seeds are the commands by which the program of the commit before makes models, adapters and runs under way on
// either side.
func seeds() (all []command) {
	all = append(all, on("tokenize train tok --text docs/tuning/text.txt --vocab-size 400 --special <|endoftext|> --special <|im_start|> --special <|im_end|> --pattern llama3"))
	for _, f := range families {
		all = append(all, on("train --progress none --run-dir made/"+f+" "+f+".yaml"), on("export made/"+f+" --to models/"+f))
	}
	for name, flags := range ggufs {
		all = append(all, on("export made/"+strings.TrimSuffix(name, "-q8")+" --to models/"+name+".gguf "+flags))
	}
	for _, b := range begun {
		all = append(all, append(on("--progress none --run-dir begun/"+b.name), b.args...))
		last := len(all) - 1
		if b.tunes {
			all[last] = append(on("tune models/llama docs/tuning/chats.jsonl"), all[last]...)
		} else {
			all[last] = append(on("train"), all[last]...)
		}
	}
	return append(all, on("export begun/lora --to adapters"))
}

var ggufs = map[string]string{"llama": "--type f16", "llama-q8": "--type q8_0", "qwen3": "--type f32"}

// begun are runs whose newest checkpoint scenes take away, so that there is something to resume.
var begun = []struct {
	name  string
	tunes bool
	args  []string
}{
	{"tiny", false, on("tiny.yaml")},
	{"staged", false, on("tiny.yaml", set("pipeline.stages=2", "pipeline.microbatches=2")...)},
	{"lora", false, on("", set(chatLora...)...)},
	{"nf4", false, on("", set(append([]string{"model.base=nf4-nested"}, chatLora...)...)...)},
	{"pairs", false, on("", set(dpo...)...)},
	{"frozen", false, on("tiny.yaml", set("optimizer.rates=[{match: '^wte|^wpe', multiplier: 0}]", "model.base=bf16")...)},
	{"epochs", false, on("", set("data.epochs=1", "model.from=models/qwen3", "model.context=64", "data.jsonl=few.jsonl", "train.batch=4", "train.save_every=1", "train.sample_tokens=4")...)},
	{"tuned", true, set("train.steps=6", "train.save_every=2")},
}

// Runs of adapters, on conversations and on pairs.
var (
	chatLora = []string{
		"model.from=models/llama", "model.context=64", "lora.rank=2", "lora.target=all-linear", "data.jsonl=docs/tuning/chats.jsonl", "data.validation=0.1",
		"train.steps=8", "train.batch=2", "train.eval_every=4", "train.eval_tokens=64", "train.save_every=2", "train.sample_tokens=8",
	}
	dpo = []string{
		"model.from=models/llama", "model.context=64", "lora.rank=2", "lora.target=all-linear", "preference.loss=sigmoid", "data.jsonl=docs/tuning/pairs.jsonl", "data.validation=0.1",
		"train.steps=8", "train.batch=2", "train.eval_every=4", "train.eval_tokens=8", "train.save_every=2", "train.sample_tokens=8",
	}
)

// seed makes the inputs of both sides, by the program of the commit before.
func (w *world) seed() error {
	if _, err := os.Stat(filepath.Join(w.tree, "..", "shared")); err == nil {
		w.shared = true
	} else {
		fmt.Println("no ../shared: its cases and models are left out")
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "home"), 0o777); err != nil {
		return err
	}
	for _, s := range []*side{w.old, w.new} {
		if err := w.files(s); err != nil {
			return err
		}
	}
	// What is measured of the adapter is measured once.
	if err := w.command(w.old, on("train --progress none --run-dir made/first tiny.yaml")); err != nil {
		return err
	}
	if err := copyAll(filepath.Join(w.new.root, "seed", "cache"), filepath.Join(w.old.root, "seed", "cache")); err != nil {
		return err
	}
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i, s := range []*side{w.old, w.new} {
		both.Go(func() {
			for n, c := range seeds() {
				if errs[i] = w.command(s, c); errs[i] != nil {
					return
				}
				if n == 0 {
					errs[i] = writeFile(filepath.Join(s.root, "tok", "chat_template.jinja"), chatTemplate)
				}
			}
		})
	}
	both.Wait()
	for _, s := range []*side{w.old, w.new} {
		if err := os.Remove(s.list("seed")); err != nil {
			return err
		}
	}
	if errs[0] != nil {
		return errs[0]
	}
	return errs[1]
}

// command is one of the program of the commit before, which has to end well.
func (w *world) command(s *side, c command) error {
	p, err := s.start(w.old.program, "seed", c)
	if err != nil {
		return err
	}
	if err := p.wait(); err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%v: exit code %d: %s", c, code, p.err.String())
	}
	return nil
}

// files writes the inputs that no program makes.
func (w *world) files(s *side) error {
	if err := copyAll(filepath.Join(s.root, "docs"), filepath.Join(w.before, "docs")); err != nil {
		return err
	}
	if w.shared {
		if err := os.Symlink(filepath.Join(w.tree, "..", "shared"), filepath.Join(s.root, "shared")); err != nil {
			return err
		}
	}
	var text, documents, others strings.Builder
	for i := range 400 {
		fmt.Fprintf(&text, "line %d of %d\n", i*i%97, i)
	}
	for i := range 40 {
		short, long := fmt.Sprintf("no %02d", i%9), strings.Repeat(fmt.Sprint(i%7), 3*16)
		fmt.Fprintf(&documents, "{\"text\": %q, \"other\": %q, \"prompt\": \"what: \", \"ids\": [1, 2, 3, 4], \"counted\": [1, 0, 0, 1], \"long\": %q}\n", short, short+short, long)
		fmt.Fprintf(&others, "{\"text\": %q}\n", short+short)
	}
	chats, err := os.ReadFile(filepath.Join(w.before, "docs", "tuning", "chats.jsonl"))
	if err != nil {
		return err
	}
	written := map[string]string{
		"tiny.yaml": tiny, "keyed.yaml": keyed,
		"text.txt": text.String(), "even.txt": text.String()[:4000], "other.txt": strings.Repeat("the quick brown fox jumps over the lazy dog; ", 100),
		"epoch.txt": strings.Repeat("sixteen letters.", 16) + "!", "latin1.txt": strings.Repeat("a caf\xe9, a bar; ", 200),
		"documents.jsonl": documents.String(), "others.jsonl": others.String(),
		"few.jsonl":      strings.Join(strings.SplitAfterN(string(chats), "\n", 25)[:24], ""),
		"texts.jsonl":    strings.Repeat(`{"prompt": "2 + 2 =", "chosen": " 4", "rejected": " five"}`+"\n", 20),
		"alpaca.jsonl":   strings.Repeat(`{"instruction": "Say it", "input": "loud", "output": "IT"}`+"\n", 20),
		"sharegpt.jsonl": strings.Repeat(`{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Good day"}]}`+"\n", 20),
		"unknown.jsonl":  strings.Repeat(`{"question": "Hi", "answer": "Good day"}`+"\n", 20),
		"broken.jsonl":   `{"text": "a"}` + "\n" + `{"text": ` + "\n",
		"hosts":          "localhost slots=2\n",
	}
	for _, f := range families {
		written[f+".yaml"] = family(f)
	}
	for name, text := range written {
		if err := writeFile(filepath.Join(s.root, name), text); err != nil {
			return err
		}
	}
	return nil
}
