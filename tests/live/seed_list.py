"""A DNS server on loopback that knows one deployment: its SRV seed list and its TXT options."""

from __future__ import annotations

import socket
import threading

import dns.message
import dns.rdatatype
import dns.rrset

NAME = "db.tallyglass.test"
"""The name for ``mongodb+srv://``. Its hosts are in the same domain."""
HOST = f"a.{NAME}"


class SeedList:
    """Answers on ``port`` until :meth:`close`, unless ``silent``. ``asked`` holds the questions received."""

    def __init__(self, mongod: int, text: str) -> None:
        self._answers = {
            (f"_mongodb._tcp.{NAME}.", dns.rdatatype.SRV): f"0 0 {mongod} {HOST}.",
            (f"{NAME}.", dns.rdatatype.TXT): f'"{text}"',
        }
        self.asked: list[str] = []
        self.silent = False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(10)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(4096)
            if not data:
                return
            question = dns.message.from_wire(data)
            answer = dns.message.make_response(question)
            wanted = question.question[0]
            self.asked.append(f"{wanted.name} {dns.rdatatype.to_text(wanted.rdtype)}")
            if self.silent:
                continue
            found = self._answers.get((str(wanted.name), wanted.rdtype))
            if found:
                answer.answer.append(dns.rrset.from_text(wanted.name, 60, "IN", wanted.rdtype, found))
            self._socket.sendto(answer.to_wire(), sender)
