"""Makes the bundled dataset `fashion-mnist-2k` from the Fashion-MNIST test split; prints what to write into its module.

python scripts/make_bundled_data.py             writes src/holdfast/datasets/bundled/fashion-mnist-2k.npz
python scripts/make_bundled_data.py --check     compares the content of the file there, byte for byte
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np

from holdfast.datasets import load

PER_CLASS = 200
TARGET = Path(__file__).parent.parent / "src/holdfast/datasets/bundled/fashion-mnist-2k.npz"


def main() -> int:
    whole = load("fashion-mnist")
    first = [np.flatnonzero(whole.labels == label)[:PER_CLASS] for label in range(len(whole.card.classes))]
    positions = np.sort(np.concatenate(first))
    arrays = {
        "images": whole.images(positions.tolist()).pixels[:, 0].numpy(),
        "labels": whole.labels[positions].astype(np.uint8),
        "positions": positions.astype(np.uint16),
    }
    if "--check" in sys.argv:
        with np.load(TARGET, allow_pickle=False) as bundled:
            same = all(np.array_equal(bundled[name], array) for name, array in arrays.items())
        print("the same" if same else "differs")
        return 0 if same else 1
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET.stat().st_size} bytes, sha256:{hashlib.sha256(TARGET.read_bytes()).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
