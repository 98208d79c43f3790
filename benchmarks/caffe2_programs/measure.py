"""What the programs share: measuring, and telling `benchmarks/caffe2.py` of it.

They also run under the interpreter of the original, which may be as old as Python 3.9.
"""

import json
import os
import resource
import time


def processor_time():
    """Seconds of processor time of the whole process, its engine's threads included."""
    return time.process_time()


def peak_memory():
    """The largest memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def report(name, unit, value, wall=None):
    """Print one figure, as a line that `benchmarks/caffe2.py` reads."""
    print(json.dumps({"name": name, "unit": unit, "value": value, "wall": wall}), flush=True)


def once(name, function):
    """Report the processor time of one call; what it returns is returned."""
    start, start_wall = processor_time(), time.perf_counter()
    result = function()
    report(name, "ms", 1e3 * (processor_time() - start), 1e3 * (time.perf_counter() - start_wall))
    return result


def repeated(name, function, calls, blocks=5):
    """Report the processor time of one call: the least mean of some blocks of calls."""
    least, least_wall = [], []
    for _ in range(blocks):
        start, start_wall = processor_time(), time.perf_counter()
        for _ in range(calls):
            function()
        least.append((processor_time() - start) / calls)
        least_wall.append((time.perf_counter() - start_wall) / calls)
    report(name, "ms", 1e3 * min(least), 1e3 * min(least_wall))


def fewer(count):
    """A number of calls, or a tenth of it in a quick run."""
    return max(2, count // 10) if os.environ.get("NETGRAD_BENCHMARK_QUICK") else count
