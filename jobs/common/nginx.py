# SPDX-License-Identifier: GPL-3.0-or-later
"""nginx for the jobs that serve files with it: their files/ have links to this file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from command import started
from ports import wait_listening

CONFIGURATION = """
daemon off; master_process off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr{level};
events {{ worker_connections 64; }}
http {{
    access_log off; types {{ }} default_type application/octet-stream;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    {options}
    server {{ {server} }}
}}
"""


@contextmanager
def serving(
    directory: Path, port: int, server: str, options: str = "", level: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """nginx, listening on a port, until the end of the block; it keeps its own files in `directory`. `server` and `options`
    are directives of nginx's server and http blocks, `level` is that of what it writes to stderr."""
    configuration = directory / "nginx.conf"
    text = CONFIGURATION.format(directory=directory, server=server, options=options, level=level and f" {level}")
    configuration.write_text(text)
    with started("nginx", "-p", str(directory), "-e", "stderr", "-c", str(configuration)) as nginx:
        wait_listening(nginx, "nginx", port)
        yield nginx
