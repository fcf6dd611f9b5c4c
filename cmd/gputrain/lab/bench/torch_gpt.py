"""The default run's training step in PyTorch on the processor: prints tokens a second, the median of twelve steps."""
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, LAYERS, HEADS, CONTEXT, BATCH, VOCAB = 128, 4, 4, 128, 8, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        scores = (q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5).masked_fill(mask, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT).triu(1).bool())

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return self.norm(x) @ self.tokens.weight.t()


torch.manual_seed(1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
times = []
for step in range(15):
    batch = torch.randint(0, VOCAB, (BATCH, CONTEXT + 1))
    start = time.time()
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step >= 3:
        times.append(time.time() - start)
print(BATCH * CONTEXT / statistics.median(times))
