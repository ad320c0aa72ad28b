"""The files that come of a batch, and what becomes of keys' files in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lines import answer_of, line_of, read, write

from reame.batch.handing_out import expire, hand_out
from reame.batch.journal import Journal
from reame.batch.plan import Plan
from reame.batch.result import result_line
from reame.batch.shelf import Shelf, new_id
from reame.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400.0


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "shelf", room=1 << 20, keep_s=DAY)


def stored(shelf: Shelf, key: str, data: bytes = b"x", *, keep_s: float | None = None) -> dict[str, object]:
    path = shelf.begin(key)
    path.write_bytes(data)
    return shelf.add(path, filename="f.jsonl", purpose="batch", keep_s=keep_s)


def test_what_was_done_in_time_is_an_answer_and_the_rest_an_error(tmp_path: Path, shelf: Shelf) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i}") for i in range(4)), line_of("r4", "text 0"))
    plan, journal = Plan(source), Journal(tmp_path / "results")
    plan.scan({})
    plan.resume(journal, retry=False)
    done = next(plan.groups())
    journal.append(b"".join(result_line(each.id, each.custom_id, answer_of("yes")) for each in done))
    expire(plan, journal)
    told = {"id": "batch_1", "output_file_id": new_id("file"), "error_file_id": new_id("file")}
    made = hand_out(shelf, "ann", told, plan, journal)
    assert made == {"output_file_id": told["output_file_id"], "error_file_id": told["error_file_id"]}
    good, bad = (read(shelf.data_path("ann", told[name])) for name in ("output_file_id", "error_file_id"))
    assert [line["custom_id"] for line in good] == [each.custom_id for each in done]
    assert {line["error"]["code"] for line in bad} == {"batch_expired"}
    assert sorted(line["custom_id"] for line in good + bad) == [f"r{i}" for i in range(5)]
    assert hand_out(shelf, "ann", told, plan, journal) == made  # after a kill in the middle
    assert len(shelf.files("ann")) == 2
    plan.close()
    journal.close()


def test_files_go_when_their_time_is_over_but_not_from_under_a_batch(shelf: Shelf) -> None:
    short, needed, long = (stored(shelf, "ann", keep_s=keep_s) for keep_s in (10, 10, None))
    batch = {"id": new_id("batch"), "status": "in_progress", "input_file_id": needed["id"], "created_at": 0}
    shelf.save_batch("ann", batch)
    created = int(str(long["created_at"]))
    shelf.expire(created + 11)
    assert {file["id"] for file in shelf.files("ann")} == {needed["id"], long["id"]}
    shelf.save_batch("ann", batch | {"status": "completed"})
    shelf.expire(created + DAY + 1)
    assert (shelf.files("ann"), shelf.batches("ann")) == ([], [])
    with pytest.raises(RequestError, match="no such file"):
        shelf.file("ann", str(short["id"]))


def test_files_that_others_delete_meanwhile_are_no_trouble(shelf: Shelf) -> None:
    """A link to nothing is listed, and gone when it is looked at."""
    told = stored(shelf, "ann")
    (shelf.data_path("ann", str(told["id"])).parent / "file-gone.data").symlink_to("nowhere")
    shelf.check_room("ann", 1)
    shelf.expire(1e10)
    assert shelf.files("ann") == []


def test_keys_are_apart_whatever_their_names(shelf: Shelf) -> None:
    mine = stored(shelf, "..")
    stored(shelf, ".")
    assert [file["id"] for file in shelf.files("..")] == [mine["id"]]
    for name in (str(mine["id"]), "../key", "file-", ""):
        with pytest.raises(RequestError):
            shelf.file("bob", name)


def test_what_is_to_go_on_is_known_oldest_first(shelf: Shelf) -> None:
    names = [new_id("batch") for _ in range(4)]
    for name, status in zip(names, ("in_progress", "completed", "validating", "cancelling"), strict=True):
        shelf.save_batch("ann", {"id": name, "status": status, "input_file_id": "f", "created_at": 0})
    assert list(shelf.unfinished()) == [("ann", names[0]), ("ann", names[2]), ("ann", names[3])]


def test_the_room_of_a_key_is_its_own(shelf: Shelf) -> None:
    stored(shelf, "ann", b"x" * (1 << 20))
    with pytest.raises(RequestError, match="1 of 1 MiB"):
        shelf.begin("ann")
    stored(shelf, "bob", b"x" * 1000)
