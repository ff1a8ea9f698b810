"""Check what `make dist` built: contents, metadata, and that the wheel works in environments with nothing else.

python .ci/check_dist.py dist
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
HEAVY = {"arviz", "blackjax", "flax", "matplotlib", "orbax-checkpoint", "pymc", "scikit-learn"}


def main(folder: Path) -> None:
    """Check the one wheel and the one sdist in a folder."""
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    metadata = check_wheel(wheel)
    check_sdist(sdist, str(metadata.version))
    changes = (ROOT / "CHANGELOG.md").read_text()
    expect(f"\n## [{metadata.version}]" in changes, f"CHANGELOG.md has no section [{metadata.version}].")
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    expect(cited and cited[1] == str(metadata.version), f"CITATION.cff has another version than {metadata.version}.")
    with tempfile.TemporaryDirectory() as empty:
        try_wheel(wheel, Path(empty))


def check_wheel(wheel: Path) -> Metadata:
    """Expect the files of the package and nothing else, and metadata that an index accepts; return these."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [described] = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(archive.read(described), validate=True)
    information = described.removesuffix("METADATA")
    expect_equal(
        {name for name in names if not name.startswith(information)}, tracked("steinflow", "steinflow_command.py")
    )
    expect(f"{information}licenses/LICENSE" in names, "The wheel has no licence.")
    expect(metadata.license_expression == "Apache-2.0", "The metadata do not name the licence.")
    expect(metadata.description_content_type == "text/markdown", "The index would not show the README.")
    needed = {requirement.name for requirement in metadata.requires_dist or () if requirement.marker is None}
    expect(not needed & HEAVY, f"A plain install brings {sorted(needed & HEAVY)}.")
    say(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.2f} MB; needs {', '.join(sorted(needed))}")
    return metadata


def check_sdist(sdist: Path, version: str) -> None:
    """Expect every file that git tracks, and nothing else but the metadata."""
    with tarfile.open(sdist) as archive:
        names = {member.name.removeprefix(f"steinflow-{version}/") for member in archive if member.isfile()}
    expect_equal(names - {"PKG-INFO"}, tracked())
    say(f"{sdist.name}: {len(names)} files, {sdist.stat().st_size / 1e6:.2f} MB")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel, alone and with extras, and use it from a folder that is not the checkout."""
    python = folder / "environment" / "bin" / "python"
    run(sys.executable, "-m", "venv", folder / "environment", inside=folder)

    def install(what):
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what, inside=folder)
        installed = run(python, "-m", "pip", "list", "--format=freeze", inside=folder).splitlines()
        return {line.split("==")[0].lower() for line in installed} - {"pip", "setuptools"}

    packages = install(str(wheel.resolve()))
    expect(not packages & HEAVY, f"A plain install brings {sorted(packages & HEAVY)}.")
    lines = readme_lines()
    plain = "\n".join(line for line in lines.splitlines() if not line.startswith("sf.plots."))
    run(python, "-W", "error", "-c", plain, inside=folder)
    say(f"a plain install: {len(packages)} packages; README's lines run, all but the plot")
    install(f"{wheel.resolve()}[plot]")
    run(python, "-c", lines, inside=folder)
    expect((folder / "marginals.png").stat().st_size > 1000, "README's lines drew no figure.")
    say("with the extra plot: README's lines run")
    install(f"{wheel.resolve()}[cli,plot]")
    run(python.with_name("steinflow"), "demo", inside=folder)
    [report] = (folder / "demo-output").rglob("*.html")
    say(f"with the extra cli: steinflow demo runs, and writes {report.name} of {report.stat().st_size / 1e6:.1f} MB")


def readme_lines() -> str:
    """Return the first example of the README."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    if example is None:
        raise SystemExit("README.md has no example.")
    return example[1]


def tracked(*paths: str) -> set[str]:
    """Return the files that git tracks, all or below these paths."""
    return set(run("git", "ls-files", "--", *paths, inside=ROOT).split("\n")) - {""}


def run(*command: object, inside: Path) -> str:
    """Run a command, return what it prints, and stop with all that it says where it fails."""
    done = subprocess.run([str(part) for part in command], cwd=inside, capture_output=True, text=True)
    expect(done.returncode == 0, f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect_equal(found: set[str], expected: Iterable[str]) -> None:
    """Stop where files are missing or too many."""
    missing, extra = sorted(set(expected) - found), sorted(found - set(expected))
    expect(not missing and not extra, f"Missing: {missing[:10]}. Not expected: {extra[:10]}.")


def expect(holds: object, message: str) -> None:
    """Stop with a message where something does not hold."""
    if not holds:
        raise SystemExit(message)


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
