"""What of a system's root folders a jail repeats."""

from pathlib import Path

from mas.runtime.security.bind_mounts import bind_links


def test_links_are_repeated_folders_are_bound_and_the_rest_is_left_out(tmp_path: Path) -> None:
    folder, link, broken, file = (str(tmp_path / name) for name in ("lib", "bin", "lib64", "file"))
    Path(folder).mkdir()
    Path(link).symlink_to("usr/bin")
    Path(broken).symlink_to("usr/lib64")
    Path(file).touch()
    assert list(bind_links([link, folder, file, str(tmp_path / "none"), broken])) == [
        *("--symlink", "usr/bin", link),
        *("--ro-bind", folder, folder),
        *("--symlink", "usr/lib64", broken),
    ]
