"""A place in the archive is read on from, and back, by whoever holds it."""

from __future__ import annotations

from pathlib import Path

from generations import new_archive, text

FIRST, SECOND, THIRD = text(1, 80), text(2, 300), text(3, 50)


def test_it_is_read_to_both_ends_of_its_generation_and_no_further(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    for tokens in (FIRST, SECOND, THIRD):
        archive.append(tokens, namespace="")
    (site,) = archive.continuations(SECOND[90:100], namespace="", most=8)
    place = archive.place(site)
    assert list(place.after(5)) == SECOND[100:105]
    assert list(place.after(1000)) == SECOND[100:]
    assert list(place.before(5)) == SECOND[95:100]
    assert list(place.before(1000)) == SECOND[:100]


def test_each_site_has_its_own_whichever_chain_it_was_found_in(tmp_path: Path) -> None:
    """More than sixteen short matches, and among all only some that match in twelve tokens."""
    archive = new_archive(tmp_path)
    common = text(4, 20)
    for number in range(30):
        archive.append([*text(10 + number, 9), *common[-3 if number % 3 else -14 :], 1000 + number, 7], namespace="")
    for tail, count in ((common, 10), (common[-3:], 16)):
        sites = archive.continuations(tail, namespace="", most=8)
        assert len(sites) == count
        assert [archive.place(site).after(9) for site in sites] == [list(site.tokens) for site in sites]


def test_it_can_be_read_after_other_questions_and_after_its_file_is_gone(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    archive.append(FIRST, namespace="")
    (site,) = archive.continuations(FIRST[10:20], namespace="", most=8)
    place = archive.place(site)
    archive.append(SECOND, namespace="")
    assert archive.continuations(SECOND[10:20], namespace="", most=8)
    archive.forget(namespace="")
    assert place.after(4) == FIRST[20:24]


def test_what_is_forgotten_leaves_the_disk_though_it_was_asked_for_last(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    archive.append(FIRST, namespace="")
    (site,) = archive.continuations(FIRST[10:20], namespace="", most=8)
    archive.forget(namespace="")
    mine = [link for link in map(_link, Path("/proc/self/fd").iterdir()) if link.startswith(str(tmp_path))]
    assert mine == []
    place = archive.place(site)
    assert place.after(9) == place.before(9) == []


def _link(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # that of the directory itself
        return ""


def test_what_was_cut_short_ends_there(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    archive.append(FIRST, namespace="")
    (site,) = archive.continuations(FIRST[10:20], namespace="", most=8)
    place = archive.place(site)
    (file,) = tmp_path.glob("*/*/*.seg")
    file.write_bytes(b"")
    assert place.after(9) == place.before(9) == []
