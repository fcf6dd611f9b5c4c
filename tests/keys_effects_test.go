package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/model"
)

// apart are keys whose effect another test shows.
var apart = map[string]string{
	"cluster.bucket":          "TestSumHasTheBitsOfOneDevice",
	"cluster.shard_optimizer": "TestRanksHaveTheBitsOfOne",
	"cluster.timeout":         "TestRanksThatAreLost",
	"cluster.wire":            "TestSumInHalfTheBytes",
	"data.prefetch":           "TestPrefetchReadsAhead",
	"train.save_async":        "train.TestStepsGoOnWhileACheckpointIsWritten",
	"train.save_frozen":       "TestCheckpointsWithoutWhatIsFrozen",
	"train.save_frozen_as":    "TestCheckpointsOfWhatIsFrozenInBF16",
}

// newRuns makes the files that effects read: texts, documents, a model.
func newRuns(t *testing.T) *runs {
	t.Helper()
	r := &runs{place: newPlace(t), made: map[string]*made{}}
	p := r.place
	p.write(t, "keys.yaml", keysRun)
	p.write(t, "other.txt", strings.Repeat("the quick brown fox jumps over the lazy dog; ", 100))
	p.write(t, "epoch.txt", strings.Repeat("sixteen letters.", 16)+"!") // 16 windows of 16 and what comes behind the last
	p.write(t, "latin1.txt", strings.Repeat("a caf\xe9, a bar; ", 200))
	require.NoError(t, os.CopyFS(p.path("words"), os.DirFS(filepath.Join(tokenizers, "gpt2"))))
	p.write(t, "even.txt", lines(400)[:4000])
	var documents, others strings.Builder
	for i := range 40 {
		short, long := fmt.Sprintf("no %02d", i%9), strings.Repeat(fmt.Sprint(i%7), 3*16)
		fmt.Fprintf(&documents, "{\"text\": %q, \"other\": %q, \"prompt\": \"what: \", \"ids\": [1, 2, 3, 4], \"counted\": [1, 0, 0, 1], \"long\": %q}\n", short, short+short, long)
		fmt.Fprintf(&others, "{\"text\": %q}\n", short+short)
	}
	p.write(t, "documents.jsonl", documents.String())
	p.write(t, "labelled.jsonl", strings.Repeat(`{"prompt": "2 + 2 =", "completion": " 4", "label": true}`+"\n"+`{"prompt": "2 + 2 =", "completion": " five", "label": 0}`+"\n", 10))
	p.write(t, "pairs.jsonl", strings.Repeat(`{"prompt": "2 + 2 =", "chosen": " 4", "rejected": " five"}`+"\n", 20))
	p.write(t, "classes.jsonl", strings.Repeat(`{"text": "good day", "label": "ham"}`+"\n"+`{"text": "buy now", "label": "spam"}`+"\n"+`{"text": "buy", "label": "spam"}`+"\n", 10))
	p.write(t, "queries.jsonl", strings.Repeat(`{"query": "2+2", "positive": "four", "negatives": []}`+"\n"+`{"query": "a?", "positive": "b", "negatives": []}`+"\n"+
		`{"query": "cc?", "positive": "dd", "negatives": []}`+"\n", 10))
	p.write(t, "prompts.jsonl", strings.Repeat(`{"prompt": "2 + 2 =", "answer": "4"}`+"\n"+`{"prompt": "3 + 4 =", "answer": "7"}`+"\n", 10))
	p.write(t, "lists.jsonl", strings.Repeat(`{"ids": [[48, 32], [48, 32], [48, 32], [48, 32], [48, 32]], "logprobs": [[-1, -2], [-1, -2], [-1, -2], [-1, -2], [-1, -2]]}`+"\n", 40))
	p.write(t, "others.jsonl", others.String())
	p.write(t, "chats.jsonl", strings.Repeat(chatRow+"\n", 20))
	require.NoError(t, os.CopyFS(p.path("speaker"), os.DirFS(filepath.Join(tokenizers, "qwen2"))))
	p.write(t, "speaker/chat_template.jinja", chatTemplate)
	pretrained := r.run(t, pretrained, nil, inNone, "", "").newestCheckpoint(t)
	for _, name := range []string{"config.json", "model.safetensors"} {
		p.write(t, "pretrained/"+name, read(t, filepath.Join(pretrained, name)))
	}
	if testing.Short() {
		return r // none of its effects begins with what follows
	}
	adapters := r.run(t, with(adapted, "lora.rank=3"), nil, inNone, "", "").newestCheckpoint(t)
	for _, name := range []string{model.AdapterConfigFile, model.AdapterWeightsFile} {
		p.write(t, "adapters/"+name, read(t, filepath.Join(adapters, name)))
	}
	p.write(t, "lacking/model.safetensors", read(t, filepath.Join(r.run(t, nil, nil, inNone, "", "").newestCheckpoint(t), "model.safetensors")))
	two, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: 256, Context: 16})
	require.NoError(t, err)
	config, err := model.ConfigJSON(two, "F32")
	require.NoError(t, err)
	p.write(t, "lacking/config.json", string(config))
	return r
}

// pretrained is the run whose model others begin with; a rate of 0 keeps what it was drawn as.
var pretrained = []string{"optimizer.learning_rate=0", "optimizer.schedule.learning_rate_end=0", "model.kind=llama", "train.seed=5"}

// Settings that several effects are seen over.
var (
	still     = []string{"optimizer.learning_rate=0", "optimizer.schedule.learning_rate_end=0"}
	constant  = []string{"optimizer.schedule.type=constant"}
	linear    = []string{"optimizer.schedule.type=linear"}
	lookahead = []string{"optimizer.lookahead.scale=0.5"}
	average   = []string{"optimizer.average.horizon=2"}
	llama     = []string{"model.kind=llama"}
	wide      = []string{"model.width=32"}
	affine    = []string{"model.width=32", "model.quantize.mode=affine"}
	sgd       = []string{"optimizer.name=sgd"}
	diverging = []string{"optimizer.name=sgd", "optimizer.learning_rate=1e6", "optimizer.clip_grad=null", "optimizer.schedule.type=constant", "train.steps=8", "train.save_every=0"}
	jsonl     = []string{"data.jsonl=documents.jsonl"}
	ids       = []string{"data.jsonl=documents.jsonl", "data.field=ids"}
	chats     = []string{"data.jsonl=chats.jsonl", "data.tokenizer=speaker", "data.packing=none"}
	epoch     = []string{"data.epochs=1", "data.text=epoch.txt", "data.validation=0"}
	long      = []string{"data.jsonl=documents.jsonl", "data.field=long", "data.epochs=1"}
	words     = []string{"data.text=text.txt", "data.validation=0.1", "data.tokenizer=words"}
	mixture   = []string{"data.mixture=[{text: text.txt, weight: 1}, {text: other.txt, weight: 1}]"}
	spikes    = []string{"train.steps=12", "train.spike_window=3"}
	losing    = []string{"train.steps=12", "train.spike_window=3", "train.spike_loss=0.001", "optimizer.learning_rate=0", "optimizer.schedule.learning_rate_end=0"}
	adapted   = []string{"model.from=pretrained"}
	lora      = []string{"model.from=pretrained", "lora.rank=2"}
	orpo      = []string{"model.from=pretrained", "lora.rank=2", "data.jsonl=pairs.jsonl", "preference.loss=orpo"}
	kto       = []string{"model.from=pretrained", "lora.rank=2", "data.jsonl=labelled.jsonl", "preference.loss=kto"}
	simpo     = []string{"model.from=pretrained", "lora.rank=2", "data.jsonl=pairs.jsonl", "preference.loss=simpo"}
	rewards   = []string{"model.from=pretrained", "data.jsonl=pairs.jsonl", "head.objective=reward"}
	classes   = []string{"model.from=pretrained", "data.jsonl=classes.jsonl", "head.objective=classes"}
	embed     = []string{"model.from=pretrained", "data.jsonl=queries.jsonl", "head.objective=embed", "train.batch=6"}
	drawing   = []string{
		"data.jsonl=prompts.jsonl", "rollout.loss=dapo", "rollout.samples=4", "rollout.updates=2", "rollout.tokens=4", "train.batch=4",
		"rewards=[{kind: regex, pattern: '[a-z]'}, {kind: regex, name: b, pattern: '[0-9A-Z]', weight: 0.5}, {kind: regex, name: c, pattern: '[!-/]', weight: 0.3}]",
	}
	taught  = []string{"distil.teacher=pretrained"}
	listed  = []string{"data.jsonl=documents.jsonl", "distil.teacher=lists.jsonl"}
	stages  = []string{"pipeline.stages=2", "model.layers=4", "train.batch=4", "pipeline.microbatches=4"}
	profile = []string{"--profile"}
)

// A conversation, which is a text too, and how it is written: with the year.
const (
	chatRow = `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, you"}, ` +
		`{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Bye"}], "text": "no conversation, a text"}`
	chatTemplate = `{{ strftime_now('%Y') }}{% for m in messages %}{{ '<|im_start|>' + m.role + ':' + m.content + '<|im_end|>' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}`
)

// learnedShare is the share of the tokens of documents that are learned, as a run tells at its start.
var learnedShare = says(`(\d+) % of the tokens learned`)

func with(settings []string, more ...string) []string {
	return append(append([]string(nil), settings...), more...)
}

func list(items ...any) []any { return items }

// adapterOfQ begins the names of a layer's adapter.
const adapterOfQ = "base_model.model.model.layers.0.self_attn.q_proj."

// effects are in the order of the run file.
var effects = []effect{
	{key: "model.from", value: "pretrained", over: still, sees: weights, like: pretrained},
	{key: "model.allow_missing", value: "['^h.1[.]']", over: with(still, "model.from=lacking"), sees: exit, from: 6, want: 0},
	{key: "model.base", value: "bf16", over: []string{"optimizer.rates=[{match: wte, multiplier: 0}]"}, sees: weights},
	{key: "model.kind", value: "llama", sees: parameters(`^model\.embed_tokens`), from: 0, want: 1},
	{key: "model.layers", value: "2", sees: parameters(`^h\.\d+\.ln_1\.weight`), from: 1, want: 2},
	{key: "model.heads", value: "1", sees: losses},
	{key: "model.kv_heads", value: "1", over: llama, sees: shape("model.layers.0.self_attn.k_proj.weight"), from: "[16 16]", want: "[8 16]"},
	{key: "model.head_dim", value: "12", over: llama, sees: shape("model.layers.0.self_attn.k_proj.weight"), from: "[16 16]", want: "[24 16]"},
	{key: "model.width", value: "32", sees: shape("wte.weight"), from: "[256 16]", want: "[256 32]"},
	{key: "model.intermediate", value: "24", sees: shape("h.0.mlp.c_fc.weight"), from: "[16 64]", want: "[16 24]"},
	{key: "model.window", value: "3", over: []string{"model.kind=mistral"}, sees: first(losses)},
	{key: "model.context", value: "8", sees: first(column("metrics.jsonl", "tokens")), from: 2 * 16, want: 2 * 8},
	{key: "model.vocab", value: "300", sees: shape("wte.weight"), from: "[256 16]", want: "[300 16]"},
	{key: "model.dropout", value: "0.5", sees: first(losses)},
	// Logits of what attention and feed-forward parts add nothing to: the first loss is another.
	{key: "model.zero_outputs", value: "true", sees: first(losses)},
	{key: "model.tie_head", value: "true", over: llama, sees: parameters(`lm_head`), from: 1, want: 0},
	{key: "model.rope_theta", value: "4", over: llama, sees: first(losses)},
	{key: "model.router_aux_loss_coef", value: "9", over: []string{"model.kind=qwen3_moe"}, sees: losses},
	{key: "model.quantize.mode", value: "nf4", over: wide, sees: first(losses)},
	{key: "model.quantize.bits", value: "2", over: affine, sees: first(losses)},
	{key: "model.quantize.group", value: "16", over: affine, sees: first(losses)},
	{key: "model.quantize.match", value: "wte", over: affine, sees: first(losses)},

	{key: "lora.from", value: "adapters", over: adapted, sees: says(`adapters, rank (\d+)`), want: list("3")},
	{key: "lora.rank", value: "2", over: adapted, sees: parameters("lora_A"), from: 0, want: 2},
	{key: "lora.alpha", value: "1", over: lora, sees: losses},
	{key: "lora.rslora", value: "true", over: lora, sees: losses},
	{key: "lora.dora", value: "true", over: lora, sees: parameters("lora_magnitude_vector"), from: 0, want: 2},
	{key: "lora.dropout", value: "0.5", over: lora, sees: losses},
	{key: "lora.target", value: "k_proj", over: lora, sees: parameters(`k_proj\.lora_A`), from: 0, want: 1},
	{key: "lora.rank_pattern", value: "{q_proj: 3}", over: lora, sees: shape(adapterOfQ + "lora_A.weight"), from: "[2 16]", want: "[3 16]"},
	{key: "lora.alpha_pattern", value: "{q_proj: 1}", over: lora, sees: losses},
	{key: "lora.layers", value: "[1]", over: lora, sees: exit, from: 0, want: 2},
	{key: "lora.save", value: "lm_head", over: lora, sees: parameters(`lm_head\.weight`), from: 0, want: 1},
	{key: "lora.b_rate", value: "16", over: lora, sees: losses},

	{key: "preference.loss", value: "sigmoid", over: orpo, sees: losses},
	{key: "preference.reference", value: "start", over: []string{"model.from=pretrained", "lora.from=adapters", "data.jsonl=pairs.jsonl", "preference.loss=sigmoid"}, sees: losses},
	{key: "preference.packing", value: "true", over: []string{"model.context=64", "data.jsonl=pairs.jsonl", "preference.loss=orpo"}, sees: says(`in (\d+) windows of 64`), from: list("40"), want: list("8")},
	{key: "preference.beta", value: "2", over: simpo, sees: losses},
	{key: "preference.label_smoothing", value: "0.2", over: simpo, sees: losses},
	{key: "preference.discopop_tau", value: "2", over: with(orpo, "preference.loss=discopop"), sees: losses},
	{key: "preference.orpo_lambda", value: "2", over: orpo, sees: losses},
	{key: "preference.cpo_alpha", value: "2", over: simpo, sees: losses},
	{key: "preference.desirable_weight", value: "2", over: kto, sees: losses},
	{key: "preference.undesirable_weight", value: "2", over: kto, sees: losses},
	{key: "preference.simpo_gamma", value: "2", over: simpo, sees: losses},
	{key: "preference.simpo_alpha", value: "2", over: simpo, sees: losses},
	{key: "head.objective", value: "classes", over: []string{"data.jsonl=classes.jsonl"}, sees: parameters(`^score\.weight$`), from: 0, want: 1},
	{key: "head.num_labels", value: "5", over: classes, sees: shape("score.weight"), from: "[2 16]", want: "[5 16]"},
	{key: "head.labels", value: "[spam, ham]", over: classes, sees: losses},
	{key: "head.pooling", value: "mean", over: embed, sees: losses},
	{key: "head.temperature", value: "1", over: embed, sees: losses},
	{key: "head.negatives", value: "1", over: embed, sees: losses},
	{key: "head.center_rewards_coefficient", value: "2", over: rewards, sees: losses},

	{key: "rollout.loss", value: "dr_grpo", over: drawing, sees: norms},
	{key: "rollout.samples", value: "2", over: drawing, sees: count(rolledOut("text")), from: 2 * 2 * 4, want: 2 * 2 * 2},
	{key: "rollout.updates", value: "3", over: drawing, sees: distinct(column("rollouts.jsonl", "step")), from: list(1, 3), want: list(1)},
	{key: "rollout.tokens", value: "5", over: drawing, sees: rolledOut("tokens")},
	{key: "rollout.stop", value: "[" + strings.Join(strings.Split("abcdefghijklmopqrstuvwxzABCDEFGHIJKLMOPQRSTUVWXZ", ""), ", ") + "]", over: drawing, sees: rolledOut("tokens")},
	{key: "rollout.temperature", value: "0.5", over: drawing, sees: rolledOut("text")},
	{key: "rollout.top_k", value: "1", over: drawing, sees: rolledOut("text")},
	{key: "rollout.top_p", value: "1e-9", over: drawing, sees: rolledOut("text"), like: with(drawing, "rollout.top_k=1")},
	{key: "rollout.min_p", value: "1", over: drawing, sees: rolledOut("text"), like: with(drawing, "rollout.top_k=1")},
	{key: "rollout.epsilon", value: "0.00001", over: drawing, sees: norms},
	{key: "rollout.epsilon_high", value: "0.00001", over: drawing, sees: norms},
	{key: "rollout.delta", value: "1.00001", over: drawing, sees: norms},
	{key: "rollout.beta", value: "1", over: with(drawing, "model.from=pretrained", "lora.rank=2"), sees: norms},
	{key: "rollout.mask_truncated_completions", value: "true", over: drawing, sees: first(norms)},
	{key: "rollout.scale", value: "batch", over: drawing, sees: norms},
	{key: "rollout.aggregation", value: "apart", over: drawing, sees: norms},
	{key: "rollout.rows", value: "2", over: drawing, sees: says(`(?m)memory planned .*sampling ([0-9.]+ .iB)`)},
	{key: "rollout.eval_samples", value: "3", over: with(drawing, "data.validation=0.1"), sees: column("metrics.jsonl", "eval_tokens"), from: list(2), want: list(6)},
	{key: "rollout.shown", value: "1", over: drawing, sees: count(rolledOut("text")), from: 2 * 2 * 4, want: 2 * 1 * 4},

	{key: "rewards", value: "[{kind: regex, pattern: '[b-y]'}]", over: drawing, sees: rolledOut("rewards")},

	{key: "distil.teacher", value: "pretrained", sees: losses},
	{key: "distil.fingerprint", value: "00aa", over: taught, sees: exit, from: 0, want: 2},
	{key: "distil.beta", value: "1", over: taught, sees: losses},
	{key: "distil.temperature", value: "2", over: taught, sees: losses},
	{key: "distil.tail", value: "ignore", over: listed, sees: losses},

	{key: "data.text", value: "other.txt", over: []string{"data.validation=0.1"}, sees: losses, like: []string{"data.text=[other.txt]", "data.validation=0.1"}},
	{key: "data.jsonl", value: "others.jsonl", over: jsonl, sees: losses},
	{key: "data.held", value: "others.jsonl", over: jsonl, sees: says(`split (by document|held files)`), from: list("by document"), want: list("held files")},
	{key: "data.mixture", value: "[{text: text.txt, weight: 1}, {text: other.txt, weight: 1000}]", over: mixture, sees: losses},
	{key: "data.mixture_end", value: "all_exhausted", over: []string{"data.mixture=[{text: epoch.txt, weight: 1}, {text: text.txt, weight: 1}]", "data.mixture_end=first_exhausted", "data.epochs=1", "data.validation=0"}, sees: count(losses)},
	{key: "data.tokens", value: "u16", over: []string{"data.text=even.txt"}, sees: shape("wte.weight"), from: "[256 16]", want: "[65536 16]"},
	{key: "data.tokenizer", value: "words", over: []string{"data.text=text.txt", "data.validation=0.1"}, sees: shape("wte.weight"), from: "[256 16]", want: "[640 16]"},
	{key: "data.tokenizer_fingerprint", value: "00aa", over: words, sees: exit, from: 0, want: 2},
	{key: "data.invalid", value: "replace", over: []string{"data.text=latin1.txt", "data.validation=0.1", "data.tokenizer=words"}, sees: exit, from: 2, want: 0},
	{key: "data.cache", value: "text.txt", over: words, sees: exit, from: 0, want: 2},
	{key: "data.field", value: "other", over: jsonl, sees: losses, like: []string{"data.jsonl=others.jsonl"}},
	{key: "data.prompt_field", value: "prompt", over: with(jsonl, "data.packing=none"), sees: first(losses)},
	// One window a document: four tokens, of which the first has none before it; the second and third are masked.
	{key: "data.mask_field", value: "counted", over: with(ids, "data.packing=none"), sees: first(column("metrics.jsonl", "tokens")), from: 2 * 3, want: 2 * 1},
	{key: "data.format", value: "fields", over: chats, sees: losses},
	{key: "data.roles", value: "[user]", over: chats, sees: learnedShare},
	{key: "data.learn_last", value: "true", over: chats, sees: learnedShare},
	{key: "data.template", value: "chatml", over: chats, sees: losses},
	{key: "data.date", value: "2025-11-30", over: with(chats, "data.roles=[user]"), sees: losses},
	{key: "data.eos", value: "300", over: jsonl, sees: shape("wte.weight"), from: "[256 16]", want: "[301 16]"},
	{key: "data.packing", value: "none", over: with(ids, "data.packing=first_fit"), sees: first(column("metrics.jsonl", "tokens")), from: 2 * 4 * 3, want: 2 * 3},
	{key: "data.documents", value: "together", over: with(ids, "data.packing=first_fit"), sees: first(losses)},
	// 40 documents of three windows each, two of them in a batch.
	{key: "data.long", value: "keep_start", over: long, sees: count(losses)},
	{key: "data.validation", value: "0.5", over: []string{"data.text=text.txt", "data.validation=0.1", "train.eval_tokens=0"}, sees: column("metrics.jsonl", "eval_tokens")},
	{key: "data.epochs", value: "2", over: epoch, sees: count(losses), from: 16 / 2, want: 2 * 16 / 2},
	{key: "data.timeout", value: "0.000000001s", over: []string{"data.text=text.txt", "data.prefetch=0", "train.batch=128"}, sees: says("no batch within (.*?):"), want: list("1ns")},

	{key: "optimizer.name", value: "lion", sees: slots},
	{key: "optimizer.learning_rate", value: "0.02", over: constant, sees: rates, from: list(0.01, 0.01, 0.01), want: list(0.02, 0.02, 0.02)},
	{key: "optimizer.schedule.type", value: "linear", over: constant, sees: rates, from: list(0.01, 0.01, 0.01), want: list(0.01, 0.007, 0.004)},
	{key: "optimizer.schedule.warmup_steps", value: "2", over: linear, sees: first(rates), from: 0.01},
	{key: "optimizer.schedule.steps", value: "6", over: linear, sees: rates, want: list(0.01, 0.0085, 0.007)},
	{key: "optimizer.schedule.learning_rate_end", value: "0.004", over: linear, sees: rates, want: list(0.01, 0.008, 0.006)},
	{key: "optimizer.schedule.learning_rate_end_ratio", value: "0.4", over: append([]string{"optimizer.schedule.learning_rate_end=null"}, linear...), sees: rates, want: list(0.01, 0.008, 0.006)},
	{key: "optimizer.schedule.exponent", value: "2", sees: rates},
	{key: "optimizer.schedule.cooldown_steps", value: "1", over: []string{"optimizer.schedule.type=power"}, sees: rates, from: list(0.01, 0.007, 0.004), want: list(0.01, 0.01, 0.01)},
	{key: "optimizer.weight_decay", value: "0.5", sees: weights},
	{key: "optimizer.decay_mask", value: "ln_1", sees: weights},
	{key: "optimizer.rates", value: "[{match: 'ln_1', multiplier: 2}]", sees: weights},
	{key: "optimizer.clip_grad", value: "0.1", over: sgd, sees: weights},
	{key: "optimizer.numerics", value: "eformer", over: []string{"optimizer.name=quad"}, sees: weights},
	{key: "optimizer.hyperball", value: "true", sees: weights},
	{key: "optimizer.cautious_decay", value: "true", over: []string{"optimizer.weight_decay=5"}, sees: weights},
	{key: "optimizer.update_floor", value: "200", sees: weights},
	{key: "optimizer.floor_by", value: "matrix", over: []string{"optimizer.update_floor=200"}, sees: weights},
	{key: "optimizer.lookahead.scale", value: "0.5", sees: weights},
	{key: "optimizer.lookahead.decay", value: "0.5", over: lookahead, sees: weights},
	{key: "optimizer.lookahead.from", value: "2", over: lookahead, sees: weights},
	{key: "optimizer.lookahead.until", value: "1", over: lookahead, sees: weights, like: []string{"optimizer.lookahead.scale=0"}}, // there is no mean yet
	{key: "optimizer.average.horizon", value: "2", sees: column("metrics.jsonl", "eval_weights"), from: list(), want: list("averaged")},
	{key: "optimizer.average.from", value: "3", over: with(average, "train.eval_every=1"), sees: column("metrics.jsonl", "eval_weights"), want: list("trained", "trained", "averaged")},
	{key: "optimizer.average.blend", value: "0", over: average, sees: column("metrics.jsonl", "eval_loss"), like: []string{"optimizer.average.horizon=0"}},
	{key: "optimizer.average.without", value: "[.]", over: average, sees: column("metrics.jsonl", "eval_loss"), like: []string{"optimizer.average.horizon=0"}},
	{key: "optimizer.parameters", value: "{b1: 0.5}", sees: weights},

	{key: "train.steps", value: "5", over: []string{"train.steps=2"}, sees: count(losses), from: 2, want: 5},
	{key: "train.batch", value: "4", sees: first(column("metrics.jsonl", "tokens")), from: 2 * 16, want: 4 * 16},
	{key: "train.accumulate", value: "3", sees: first(column("metrics.jsonl", "tokens")), from: 2 * 16, want: 3 * 2 * 16},
	{key: "train.accumulation", value: "sequence", over: []string{"train.accumulate=2"}, sees: count(says(`sums of gradients ([0-9.]+ .iB)`)), from: 1, want: 0},
	{key: "train.eval_every", value: "1", sees: stepsWith("eval_loss"), from: list(3), want: list(1, 2, 3)},
	{key: "train.eval_tokens", value: "128", sees: column("metrics.jsonl", "eval_tokens"), from: list(64), want: list(128)},
	// A rate that is far too high makes each evaluation but the first worse.
	{key: "train.patience", value: "2", over: []string{"train.eval_every=1", "train.steps=9", "optimizer.learning_rate=3", "optimizer.schedule.warmup_steps=0"}, sees: count(losses), from: 9},
	{key: "train.save_every", value: "2", over: []string{"train.steps=5"}, sees: checkpoints, from: list(5), want: list(2, 4, 5)},
	// A run that diverges makes no last checkpoint.
	{key: "train.save_interval", value: "0.000001s", over: diverging, sees: checkpoints, from: list()},
	{key: "train.keep", value: "1", over: []string{"train.save_every=1", "train.steps=5"}, sees: checkpoints, from: list(3, 4, 5), want: list(5)},
	{key: "train.keep_best", value: "3", over: []string{"train.save_every=1", "train.steps=5", "train.keep=1", "train.eval_every=1"}, sees: checkpoints, from: list(5), want: list(3, 4, 5)},
	{key: "train.sample_every", value: "1", sees: column("samples.jsonl", "step"), from: list(3), want: list(1, 2, 3)},
	{key: "train.sample_tokens", value: "9", sees: column("samples.jsonl", "text")},
	{key: "train.prompt", value: "line", sees: column("samples.jsonl", "text")},
	{key: "train.ask", value: "[tell me, and me]", over: with(chats, "model.context=64", "train.eval_every=2", "data.validation=0.2"), sees: column("samples.jsonl", "asked"), from: list(), want: list(true, true, true, true)},
	{key: "train.ask_system", value: "be kind", over: with(chats, "model.context=64", "train.ask=[tell me]"), sees: column("samples.jsonl", "system"), from: list(), want: list("be kind")},
	{key: "train.temperature", value: "0", over: []string{"train.sample_tokens=20"}, sees: column("samples.jsonl", "text")},
	{key: "train.top_k", value: "1", over: []string{"train.sample_tokens=20"}, sees: column("samples.jsonl", "text"), like: []string{"train.sample_tokens=20", "train.temperature=0"}},
	{key: "train.top_p", value: "1e-9", over: []string{"train.sample_tokens=20"}, sees: column("samples.jsonl", "text"), like: []string{"train.sample_tokens=20", "train.temperature=0"}},
	{key: "train.min_p", value: "1", over: []string{"train.sample_tokens=20"}, sees: column("samples.jsonl", "text"), like: []string{"train.sample_tokens=20", "train.temperature=0"}},
	{key: "train.repetition_penalty", value: "2", over: []string{"train.sample_tokens=20"}, sees: column("samples.jsonl", "text")},
	{key: "train.histogram_every", value: "2", over: []string{"train.steps=4"}, sees: distinct(column("histograms.jsonl", "step")), want: list(2, 4)},
	{key: "train.histogram_match", value: "^params/wte", over: []string{"train.histogram_every=1"}, sees: distinct(column("histograms.jsonl", "name")), want: list("params/wte.weight")},
	{key: "train.log_every", value: "2", over: []string{"train.steps=4"}, sees: stepsWith("loss"), from: list(1, 2, 3, 4), want: list(2, 4)},
	{key: "train.tensorboard", value: "false", sees: files("tensorboard/events.out.tfevents.*"), from: 1, want: 0},
	{key: "train.nan_patience", value: "2", over: diverging, sees: count(column("metrics.jsonl", "left_out")), from: 3, want: 2},
	{key: "train.spike_loss", value: "0.001", over: with(still, spikes...), sees: distinct(column("metrics.jsonl", "left_out")), want: list("loss")},
	{key: "train.spike_grad_norm", value: "0.001", over: spikes, sees: distinct(column("metrics.jsonl", "left_out")), want: list("gradient norm")},
	{key: "train.spike_update_norm", value: "0.001", over: spikes, sees: distinct(column("metrics.jsonl", "left_out")), want: list("update norm")},
	{key: "train.spike_window", value: "11", over: losing, sees: leftOutBefore(12), from: true, want: false},
	{key: "train.spike_patience", value: "1", over: losing, sees: exit, from: 0, want: 4},
	{key: "train.time_limit", value: "0.001s", sees: exit, from: 0, want: 3},
	{key: "train.label_smoothing", value: "0.3", sees: losses},
	{key: "train.z_loss", value: "0.1", sees: losses},
	{key: "train.token_accuracy", value: "true", sees: stepsWith("figures"), from: list(), want: list(1, 2, 3)},
	{key: "train.seed", value: "8", sees: losses},
	{key: "train.recompute", value: "layers", over: []string{"model.layers=2"}, sees: says(`(?m)memory planned .*workspace ([0-9.]+ .iB)`)},
	{key: "train.storage", value: "bf16", sees: losses},
	{key: "train.products", value: "f16", sees: distinct(column("metrics.jsonl", "scale")), want: list(16384.)},
	{key: "train.memory_limit", value: "100kB", sees: exit, from: 0, want: 5},

	{key: "pipeline.stages", value: "2", over: []string{"model.layers=2"}, sees: count(says(`(?m)^stage (\d), `)), from: 0, want: 2},
	{key: "pipeline.adapters", value: "99", sees: exit, from: 0, want: 2},
	{key: "pipeline.schedule", value: "gpipe", over: stages, flags: profile, sees: order(0, 8), from: "0 1 0' 2 1' 3 2' 3'", want: "0 1 2 3 0' 1' 2' 3'"},
	{key: "pipeline.microbatches", value: "2", over: []string{"pipeline.stages=2", "model.layers=2"}, flags: profile, sees: order(0, 3), from: "0 0' 0", want: "0 1 0'"},
	{key: "pipeline.chunks", value: "3", over: with(stages, "pipeline.schedule=interleaved"), flags: profile, sees: parts(0), from: 2, want: 3},
	{key: "pipeline.ahead", value: "1", over: stages, flags: profile, sees: order(0, 8), from: "0 1 0' 2 1' 3 2' 3'", want: "0 1 2 0' 3 1' 2' 3'"},
	{key: "pipeline.devices", value: "stage", over: stages, flags: profile, sees: count(says(`(?m)^(group) +passes`)), from: 1, want: 2},
	{key: "pipeline.rules", value: "[{match: '^w|^h.0', stage: 0}, {match: '^h.[1-3]|^ln_f', stage: 1}]", over: stages, sees: says(`(?m)^stage 1, (.*?):`), want: list("h.1 to head")},

	{key: "device.submit_limit", value: "0.000001s", sees: count(says(`a step is cut into (\d+) submits`)), from: 0, want: 1},
	{key: "device.matrix", value: "auto", over: []string{"train.products=f16"}, sees: count(says(`(matrix units: off|by matrix units)`)), from: 0, want: 1},
	{key: "device.texels", value: "force", over: stages, sees: says(`(?m)^stage 0, .*texels ([0-9.]+ .iB)`)},
}

// leftOutBefore tells whether an update before a step was left out.
func leftOutBefore(step float64) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		require.Zero(t, l.code, l.err)
		for _, s := range stepsWith("left_out")(t, l).([]any) {
			if s.(float64) < step {
				return true
			}
		}
		return false
	}
}
