package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shaderCases are what the doctor compiles, with its figures to the last bit, and the kernels of a step of models of
// true widths. A case of the other parts holds the texts that it compiles or plans besides.
func shaderCases(w *world) (all []work, err error) {
	// What measures speed is left out: it is named speed/.
	const unmeasured = "^([^s]|s[^p])"
	doctor := func(name, args string) {
		all = append(all, scene{name: "doctor/" + name, commands: []command{on("doctor --json "+args, "--only", unmeasured)}}.work())
	}
	doctor("built-in cases", "")
	if w.shared {
		for _, folder := range []string{"golden", "golden-options", "hf/dpo", "hf/kto", "hf/lora", "hf/losses", "hf/models", "hf/nf4", "hf/optimizers", "hf/packed", "hf/pairs", "hf/distill", "hf/embed", "hf/grpo", "hf/reward"} {
			if _, err := os.Stat(filepath.Join(w.tree, "..", "shared", folder)); err == nil {
				all = append(all, scene{name: "doctor/" + folder, commands: []command{on("doctor --json --cases shared/"+folder, "--only", "^([^sk]|s[^p]|k[^e])")}}.work())
			}
		}
		all = append(all, scene{name: "doctor/golden on stages", commands: []command{on("doctor --json --stages 2 --cases shared/golden", "--only", "gpt2|llama")}}.work())
	}
	planned := func(f, size string, sets ...string) error {
		text, err := output(w.old.program, "config", "template", "--family", f, "--size", size, "--vocab", "32000", "--context", "1024")
		if err != nil {
			return err
		}
		s := scene{name: strings.Join(append([]string{"step", f, size}, sets...), "/"), files: map[string]string{"run.yaml": text}}
		s.commands = []command{append(on("plan --step @/run.yaml --memory 80GiB"), set(append([]string{"data.text=text.txt", "train.batch=2"}, sets...)...)...)}
		all = append(all, s.work())
		return nil
	}
	for _, f := range families {
		frozen := "optimizer.rates=[{match: '^model.layers|^h[.]', multiplier: 0}]"
		jsonl := []string{"data.text=[]", "data.jsonl=documents.jsonl"}
		wide := [][]string{nil, {"train.products=f16"}, {frozen, "model.base=nf4"}, jsonl}
		for size, variants := range map[string][][]string{
			"8B": wide, "1B": wide, "100M": append(
				[][]string{
					{"train.accumulate=2"},
					{"train.accumulate=2", "train.accumulation=sequence"},
					{"train.storage=bf16"},
					{"train.products=f16", "train.storage=bf16"},
					{"train.products=f16", "device.matrix=auto"},
					{"train.recompute=attention"},
					{"train.recompute=layers"},
					{frozen, "model.base=bf16"},
					{frozen, "model.base=nf4-nested", "train.save_frozen=false"},
					{frozen, "model.base=nf4", "train.products=f16"},
					append([]string{"data.documents=together"}, jsonl...),
					{"pipeline.stages=2", "pipeline.microbatches=2"},
					{"data.text=[]", "data.jsonl=texts.jsonl", "preference.loss=simpo"},
					{"data.text=[]", "data.jsonl=texts.jsonl", "preference.loss=orpo"},
				}, wide...,
			),
		} {
			for _, sets := range variants {
				if err := planned(f, size, sets...); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, f := range []string{"gpt2", "qwen3"} {
		for _, o := range optimizers {
			for _, sets := range [][]string{
				nil,
				{"optimizer.state_dtype=8bit"},
				{"optimizer.mu_dtype=bf16"},
				{"optimizer.block_size=256"},
				{"optimizer.dtype=bf16"},
				{"optimizer.numerics=eformer"},
				{"train.spike_update_norm=3"},
			} {
				if err := planned(f, "100M", slices.Concat([]string{"optimizer.name=" + o}, sets)...); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, f := range families[2:4] {
		for _, mode := range []string{"affine", "nf4", "mxfp4", "mxfp8", "nvfp4", "q8_0", "q4_0", "f16"} {
			if err := planned(f, "100M", "model.quantize.mode="+mode); err != nil {
				return nil, err
			}
		}
		for _, bits := range []string{"2", "3", "5", "8"} {
			if err := planned(f, "100M", "model.quantize.mode=affine", "model.quantize.bits="+bits); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
