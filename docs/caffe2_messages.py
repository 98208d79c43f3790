"""Make `caffe2_pb2.py`, `caffe_pb2.py` and `hsm_pb2.py` from their schemas.

It needs the package ``grpcio-tools==1.62.3``: that release's compiler writes modules that every
protobuf runtime from 4.25 on reads.

    python docs/caffe2_messages.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def main() -> None:
    """Run the compiler."""
    schemas = [f"netgrad/caffe2/{name}.proto" for name in ("caffe2", "caffe", "hsm")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--pyi_out=.", *schemas]
    subprocess.run(command, cwd=SOURCE, check=True)


if __name__ == "__main__":
    main()
