"""Policies: loading a Hugging Face model (load) and sampling from it (hf)."""
