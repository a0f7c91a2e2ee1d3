"""Trains a tiny language model on packed texts: samples of different lengths side by side in rows, without padding.

    python examples/language_model.py corpus.jsonl --steps 100

Every line of the file is a sample with a field "text". Tokens are bytes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import feedline as fl
import numpy as np
import torch
from feedline import samplers
from torch import Tensor, nn


class Model(nn.Module):
    """Embeddings of bytes and places, one layer of attention within each sample, and a guess of the next byte."""

    def __init__(self, width: int, longest: int) -> None:
        super().__init__()
        self.byte, self.place = nn.Embedding(256, width), nn.Embedding(longest, width)
        self.layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.guess = nn.Linear(width, 256)

    def forward(self, tokens: Tensor, places: Tensor, bounds: Tensor) -> Tensor:
        """Scores of every next byte."""
        values = (self.byte(tokens) + self.place(places))[None]
        sample = torch.bucketize(torch.arange(len(tokens)), bounds[1:], right=True)
        later = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
        hidden = self.layer(values, src_mask=later | (sample[:, None] != sample[None, :]))
        scores: Tensor = self.guess(hidden)[0]
        return scores


def main() -> list[float]:
    """Trains, and returns the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--tokens", type=int, default=512, help="tokens in a row")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    texts = [json.loads(line)["text"].encode()[: args.tokens] for line in args.corpus.read_text().splitlines()]
    ds = fl.open([{"tokens": np.frombuffer(text, np.uint8).astype(np.int64)} for text in texts if len(text) > 1])
    loader = fl.Loader(ds, batch_size=1, sampler=samplers.Packed(args.tokens, lengths="tokens"), seed=0)

    torch.manual_seed(0)
    model = Model(args.width, args.tokens)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses: list[float] = []
    while len(losses) < args.steps:
        for batch in loader:
            tokens, bounds = batch["tokens"].data, batch["cu_seqlens"].long()
            # The last byte of a sample has no successor.
            inner = torch.ones(len(tokens) - 1, dtype=torch.bool)
            inner[bounds[1:-1] - 1] = False
            guesses = model(tokens, batch["position_ids"], bounds)[:-1]
            loss = nn.functional.cross_entropy(guesses[inner], tokens[1:][inner])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == args.steps:
                break
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
