"""A connection's end that a proxy or a door writes to.

Receiver(pieces=1).got      # what was written to it before it was gone, "end" and "closed" included
"""


class Receiver:
    """Receiver that is gone after so many pieces."""

    def __init__(self, pieces: int = 9, takes_an_end: bool = True) -> None:
        self.left, self.takes_an_end = pieces, takes_an_end
        self.got: list[bytes | str] = []

    def write(self, piece: bytes) -> None:
        self.got.append(piece)

    async def drain(self) -> None:
        if not self.left:
            raise ConnectionResetError
        self.left -= 1

    def can_write_eof(self) -> bool:
        return self.takes_an_end

    def write_eof(self) -> None:
        self.got.append("end")

    def close(self) -> None:
        self.got.append("closed")
