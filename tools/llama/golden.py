#!/usr/bin/env python3
"""Makes tests/testdata/gguf: small models in GGUF files, and what llama.cpp says of them.

    tools/llama/golden.py FOLDER-WITH-node_modules
"""
import json, os, struct, subprocess, sys, tempfile

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
gputrain, text, to = root + "/bin/gputrain", root + "/CONTRIBUTING.md", root + "/tests/testdata/gguf"
sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 2, "intermediate_size": 48,
         "vocab_size": 320, "max_position_embeddings": 128}
models = {
    "llama": ("f32", "llama3", {"model_type": "llama", "tie_word_embeddings": False, "rope_theta": 100, "rope_scaling": {
        "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}}),
    "gemma2": ("q8_0", "gpt2", {"model_type": "gemma2", "query_pre_attn_scalar": 8, "sliding_window": 16}),
    "phi3": ("f16", "o200k", {"model_type": "phi3", "tie_word_embeddings": True, "partial_rotary_factor": 0.5, "max_position_embeddings": 1024,
                              "original_max_position_embeddings": 512, "rope_scaling": {"type": "longrope", "short_factor": [1, 1.5], "long_factor": [1, 24.5]}}),
}


def run(*command, given=None):
    return subprocess.run(command, input=given, check=True, text=True, stdout=subprocess.PIPE).stdout


os.makedirs(to, exist_ok=True)
for name, (kind, pattern, config) in models.items():
    with tempfile.TemporaryDirectory() as at:
        os.mkdir(at + "/new")
        with open(at + "/new/config.json", "w") as f:
            json.dump(sizes | config, f)
        with open(at + "/new/model.safetensors", "wb") as f:
            f.write(struct.pack("<Q", 2) + b"{}")  # no tensors: all are drawn
        run(gputrain, "tokenize", "train", at + "/tok", "--text", text, "--vocab-size", "310", "--pattern", pattern, "--special", "<|endoftext|>")
        with open(at + "/run.yaml", "w") as f:
            json.dump({"data": {"text": [text], "tokenizer": at + "/tok"}, "model": {"from": at + "/new", "allow_missing": [".*"], "context": 64},
                       "optimizer": {"name": "adamw", "learning_rate": 0.003}, "train": {"steps": 200, "batch": 4, "eval_every": 0, "sample_every": 0}}, f)
        run(gputrain, "train", at + "/run.yaml", "--run-dir", at + "/run", "--progress", "none")
        path = f"{to}/{name}.gguf"
        if os.path.exists(path):
            os.remove(path)
        run(gputrain, "export", at + "/run", "--to", path, "--type", kind)
    passage = open(text).read()[1000:1120]
    prompt = "The "
    ids, begin = (json.loads(run(gputrain, "tokenize", "encode", path, "--json", given=t)) for t in (passage, prompt))
    asked = [{"tokenize": passage}, {"loss": ids}, {"greedy": begin, "tokens": 20}]
    said = [json.loads(line) for line in run("node", root + "/tools/llama/judge.mjs", sys.argv[1], json.dumps({"model": path, "context": 256 if name == "phi3" else 128}),
                                             given="".join(json.dumps(q) + "\n" for q in asked)).splitlines()]
    with open(f"{to}/{name}.json", "w") as f:
        json.dump({"passage": passage, "ids": said[0], "loss": said[1], "prompt": prompt, "greedy": said[2]}, f, indent=1)
        f.write("\n")
