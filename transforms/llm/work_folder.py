"""The work folder: what workers of a run leave for each other, beside the dataset's cache.

    <dataset>/work/<run>/leases/      what a lane may spend, see ``transforms.llm.leases``
    <dataset>/work/<run>/partitions/  p-00003.zip: frames that wait for their lane
    <dataset>/work/<run>/reports/     what was called so far, see ``transforms.llm.worker_reports``

It is there as long as the run is; what a run leaves that did not end well, the next one removes.
"""

from __future__ import annotations

import io
import uuid
import zipfile

from transforms.llm.settings import EngineSettings
from transforms.partitions import Frames, frame_pieces, frames_of
from transforms.publishing import storage


def new_work_folder(settings: EngineSettings) -> str:
    """Return the place of a new run's work folder."""
    return storage.join(settings.cache.rpartition("/")[0], "work", uuid.uuid4().hex)


def remove_work_folders(settings: EngineSettings) -> None:
    """Remove the work folders of this run and of earlier ones, of which no job works any more."""
    if settings.work is not None:
        storage.remove_tree(settings.work.rpartition("/")[0])


def leave_partition(folder: str, number: int, frames: Frames) -> None:
    """Leave a partition's frames in the work folder; written again they are the same.

    Raises:
        OSError: they could not be written.
    """
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:  # its members are compressed already
        for name, part, piece in frame_pieces(frames):
            archive.writestr(f"{name}/{part}", piece)
    storage.write_bytes(_place(folder, number), data.getvalue())


def take_partition(folder: str, number: int) -> Frames:
    """Return the frames of a partition that was left in the work folder, as they were.

    Raises:
        OSError: they are not there.
    """
    with zipfile.ZipFile(io.BytesIO(storage.read_bytes(_place(folder, number)))) as archive:
        members = (name.rpartition("/") for name in archive.namelist())
        return frames_of(
            (name, int(part), archive.read(f"{name}/{part}")) for name, _, part in members
        )


def _place(folder: str, number: int) -> str:
    return storage.join(folder, "partitions", f"p-{number:05d}.zip")
