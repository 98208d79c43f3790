"""Make `caffe2_pb2.py` and its types from `caffe2.proto`. Needs the package ``grpcio-tools==1.62.3``.

That release's compiler writes modules that every protobuf runtime from 4.25 on reads.

    python docs/caffe2_messages.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def main() -> None:
    """Run the compiler."""
    schema = "netgrad/caffe2/caffe2.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--pyi_out=.", schema]
    subprocess.run(command, cwd=SOURCE, check=True)


if __name__ == "__main__":
    main()
