"""ObjectIds: 12 bytes, generated in the process. Use them wherever a key needs no meaning.

They hold 4 bytes of seconds (until 2106), 5 random bytes a process (machine and process id in older drivers), and 3
bytes of a counter that begins at random. Not unique where more than 16.7 million are made in one process within a
second, or where two processes share the 5 bytes: a fork under a driver that does not renew them, a snapshot of a
running virtual machine that is started twice, containers with equal machine and process ids under older drivers.
Within one second they have no order across processes.
"""

from __future__ import annotations

from bson.objectid import ObjectId

from tallyglass.allocate.engine import forking


def new_object_id() -> ObjectId:
    """A new ObjectId. PyMongo renews its random part in the child of a fork."""
    began, made = forking.process, ObjectId()
    return made if forking.process is began else new_object_id()
