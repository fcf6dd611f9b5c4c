"""Training with products of f16 by PyTorch's autograd in float64, operands rounded as kernels round them, beside the expectations of a case:
python3 products_f16.py cmd/gputrain/doctor/cases/gpt2_f16 (or llama_f16). It prints the largest differences, which are those of storing in f32."""
import json
import struct
import sys

import torch

torch.set_default_dtype(torch.float64)
folder = sys.argv[1]
case, config = (json.load(open(f"{folder}/{name}.json")) for name in ("case", "config"))
rounding = True


def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    types = {"F32": torch.float32, "I32": torch.int32, "U32": torch.int32}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            raw = bytearray(data[8 + size + start : 8 + size + end])
            yield name, torch.frombuffer(raw, dtype=types[entry["dtype"]]).reshape(entry["shape"])


def r(x):
    return x.float().half().double() if rounding else x


def turned(x):
    return x.transpose(-1, -2)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return r(a) @ r(b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return r(g) @ turned(r(b)), turned(r(a)) @ r(g)


class Attention(torch.autograd.Function):
    """Of heads, rows, width. Weights are rounded against the largest score of their row, and divided by a sum of weights that are not."""

    @staticmethod
    def forward(ctx, q, k, v):
        scores = r(q) @ turned(r(k)) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
        largest = scores.max(-1, True).values
        weights = (scores - largest).exp()
        total = weights.sum(-1, True)
        out = r(weights) @ r(v) / total
        ctx.save_for_backward(q, k, v, scores, largest + total.log(), out)
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, scores, lse, out = ctx.saved_tensors
        weights, g = (scores - lse).exp(), r(g)
        slopes = r(weights * (g @ turned(r(v)) - (g * out).sum(-1, True))) * q.shape[-1] ** -0.5
        return slopes @ r(k), turned(slopes) @ r(q), turned(r(weights)) @ g


product, attention = Product.apply, Attention.apply
weights = {name: w.double().requires_grad_() for name, w in tensors(f"{folder}/model.safetensors")}
expected = dict(tensors(f"{folder}/tensors.safetensors"))
tokens = next(t for t in expected.values() if t.dtype == torch.int32).long().reshape(-1)
width = case["head_dim"]


def heads(x):
    return x.reshape(len(x), -1, width).transpose(0, 1)


def joined(x):
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def gpt2(tokens):
    def norm(x, name):
        x = x - x.mean(-1, True)
        return x / ((x * x).mean(-1, True) + config["layer_norm_epsilon"]).sqrt() * weights[name + ".weight"] + weights[name + ".bias"]

    def linear(x, name):
        return product(x, weights[name + ".weight"]) + weights[name + ".bias"]

    x = weights["wte.weight"][tokens] + weights["wpe.weight"][: len(tokens)]
    for layer in range(config["n_layer"]):
        at = f"h.{layer}."
        q, k, v = linear(norm(x, at + "ln_1"), at + "attn.c_attn").chunk(3, -1)
        x = x + linear(joined(attention(heads(q), heads(k), heads(v))), at + "attn.c_proj")
        hidden = torch.nn.functional.gelu(linear(norm(x, at + "ln_2"), at + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, at + "mlp.c_proj")
    return product(norm(x, "ln_f"), turned(weights["wte.weight"]))


def llama(tokens):
    def norm(x, name):
        return x / ((x * x).mean(-1, True) + config["rms_norm_eps"]).sqrt() * weights[name + ".weight"]

    def linear(x, name):
        return product(x, turned(weights[name + ".weight"]))

    angles = torch.arange(len(tokens))[:, None] * config["rope_theta"] ** (-torch.arange(0, width, 2) / width)
    angles = torch.cat([angles, angles], -1)

    def rotated(x):
        return x * angles.cos() + torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1) * angles.sin()

    group = config["num_attention_heads"] // config["num_key_value_heads"]
    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        h = norm(x, at + "input_layernorm")
        q, k, v = (heads(linear(h, f"{at}self_attn.{name}_proj")) for name in "qkv")
        k, v = rotated(k).repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        x = x + linear(joined(attention(rotated(q), k, v)), at + "self_attn.o_proj")
        h = norm(x, at + "post_attention_layernorm")
        gate = torch.nn.functional.silu(linear(h, at + "mlp.gate_proj"))
        x = x + linear(gate * linear(h, at + "mlp.up_proj"), at + "mlp.down_proj")
    return product(norm(x, "model.norm"), turned(weights["lm_head.weight"]))


def apart(a, name):
    b = expected[name].double().reshape(a.shape)
    return (a - b).abs().max().item(), b.abs().max().item()


model = {"gpt2": gpt2, "llama": llama}[case["family"]]
loss = torch.nn.functional.cross_entropy(model(tokens)[:-1], tokens[1:])
(loss * case["loss_scale"]).backward()
gradient = parameter = 0.0
for name, w in weights.items():
    g, w = w.grad / case["loss_scale"], w.detach()
    difference, largest = apart(g, "expect/0/grads/" + name)
    gradient = max(gradient, difference / largest)
    rate = case["schedule"]["learning_rate"]
    w = w - rate * (g / (g.abs() + case["config"]["eps"]) + case["weight_decay"] * w)
    parameter = max(parameter, apart(w, "expect/final/params/" + name)[0])
rounding = False  # logits are of products without
logits = apart(model(tokens[:-1]).detach(), "expect/0/logits")[0]
print(f"loss {loss.item()}, {loss.item() - case['losses'][0]:.1e} apart; gradients {gradient:.1e} of their largest; "
      f"parameters {parameter:.1e}; logits {logits:.1e}")
