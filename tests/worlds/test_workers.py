"""The process that forks workers: whoever asks it may be killed at any moment."""

from __future__ import annotations

import json
import os
import socket

import pytest

from tests.worlds import workers


@pytest.mark.parametrize("asks", [False, True])
def test_who_is_killed_before_the_answer_takes_nobody_along(asks: bool) -> None:
    address = workers.shared()
    assert address, "it needs Linux"
    for _ in range(20):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(f"\0{address}")
            if asks:
                pipe = os.pipe()
                asked = json.dumps({"memory": "0", "looks": "", "environ": {}})
                socket.send_fds(line, [asked.encode()], pipe)
                for each in pipe:
                    os.close(each)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(f"\0{address}")
        pipe = os.pipe()
        socket.send_fds(line, [json.dumps({"memory": "0", "looks": "", "environ": {}}).encode()], pipe)
        for each in pipe:
            os.close(each)
        assert int(line.recv(64)) > 0
