"""Compare LoRA side branches with PEFT itself. Needs torch, peft and onnxscript, unlike the rest.

    python tools/check_peft.py

Adapters of a linear and a convolutional layer are created, saved and merged by PEFT. The base model
is exported by PyTorch, gets branches from lora-model-creator, and runs on the backend `cpu` with
each adapter. The outputs must be those of PEFT.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import dovetail as dt
from dovetail_onnx import OnnxOptions
from dovetail_onnx.lora.creator import create_model

# Sums of float32 in another order, over two layers.
ATOL = 1e-4
CONFIG = """
adapter:
- {name: a, lora_config: a}
- {name: b, lora_config: b}
use-case:
- {name: original, model_name: base.onnx}
- {name: a, adapter_names: [a]}
- {name: b, adapter_names: [b]}
"""


def main() -> int:
    """Run the comparison; return 0 if all outputs agree."""
    import torch
    from peft import LoraConfig, get_peft_model

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2)
            self.second = torch.nn.Linear(8 * 16, 10)

        def forward(self, x: Any) -> Any:
            return self.second(torch.relu(self.first(x)).flatten(1))

    torch.manual_seed(1)
    x = torch.randn(1, 3, 8, 8)
    base = Net().eval()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's own
            torch.onnx.export(base, (x,), folder / "base.onnx", dynamo=False)
        expected = {"original": base(x).detach().numpy()}
        for adapter, rank, options in (("a", 4, {}), ("b", 3, {"use_rslora": True})):
            config = LoraConfig(r=rank, lora_alpha=8, target_modules=["first", "second"], **options)
            net = Net().eval()
            net.load_state_dict(base.state_dict())
            tuned = get_peft_model(net, config)
            for weight_name, weight in tuned.named_parameters():
                if "lora_" in weight_name:
                    torch.nn.init.normal_(weight, std=0.2)
            tuned.save_pretrained(folder / adapter)
            expected[adapter] = tuned.merge_and_unload()(x).detach().numpy()
        (folder / "lora.yaml").write_text(CONFIG)
        made = create_model(folder / "lora.yaml", folder / "out")
        names = tuple(made.weight_list.read_text().split())
        worst = 0.0
        with dt.Session(dt.convert(made.model, OnnxOptions(updateable=names))) as session:
            (given,) = (t.name for t in session.graphs["base"].inputs)
            for case, wanted in expected.items():
                session.apply_adapter(folder / "out" / f"{case}.safetensors")
                (found,) = session.run({given: x.numpy()}).values()
                difference = float(np.abs(found - wanted).max())
                worst = max(worst, difference)
                print(f"{case}: maximum difference {difference:.2g}")
    return 0 if worst <= ATOL else 1


if __name__ == "__main__":
    sys.exit(main())
