"""What is kept of compiled code: the newest, and not for ever."""

import os
import time

import jax
import pytest

from steinflow.devices import caches


@pytest.fixture
def no_cache():
    """JAX without a folder for compiled code; put back at the end."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_what_is_old_or_too_much_goes(no_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(caches, "_LARGEST", 250)
    days = {"jit_new-cache": 0, "jit_newer-cache": 1, "jit_older-cache": 2, "jit_old-cache": 91, "mine": 91}
    for name, age in days.items():
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (then := time.time() - age * 24 * 3600, then))
    caches.keep_compiled(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["jit_new-cache", "jit_newer-cache", "mine"]
    assert caches.compiled_folder() == str(tmp_path)


def test_the_user_has_the_first_word(no_cache, tmp_path):
    caches.keep_compiled(tmp_path / "first")
    caches.keep_compiled(tmp_path / "second")
    assert caches.compiled_folder() == str(tmp_path / "first")
