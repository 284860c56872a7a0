"""Programs that try to get out. Each prints REACHED when it got what it wanted; harmless to the machine even where nothing stops it.

Names in capitals are replaced by `check.Target`: files and processes that stand by to be attacked.
"""

from typing import NamedTuple

REACHED = "reached"
MEMORY_STEP_MIB = 64
FLOOD_MIB = 16


class Attack(NamedTuple):
    """`ends_by_itself` False: it has succeeded when it is still running after the time limit."""

    name: str
    tried: str
    code: str
    ends_by_itself: bool = True


ATTACKS = (
    Attack(
        "network", "connect to a TCP port of this machine", "import socket; socket.create_connection(('127.0.0.1', PORT)); won()"
    ),
    Attack("udp", "send a datagram", "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', PORT)); won()"),
    Attack(
        "unix_socket",
        "connect to a listening Unix socket",
        "import socket; socket.socket(socket.AF_UNIX).connect(SOCKET); won()",
    ),
    Attack("read_file", "read a file of ours", "won() if open(SECRET_FILE).read() == 'secret' else None"),
    Attack(
        "read_packages",
        "read an installed package, where tests and answers may lie",
        "won() if open(PACKAGE_FILE).read() else None",
    ),
    Attack("write_file", "write a file where everybody may", "open(WRITABLE, 'w').write('x'); won()"),
    Attack("change_file", "delete a file that everybody may delete", "import os; os.unlink(DELETABLE); won()"),
    Attack(
        "environment",
        "find a variable in the environment of any process",
        """
import glob
for path in glob.glob('/proc/[0-9]*/environ'):
    try:
        if b'SANDBOX_CHECK_SECRET' in open(path, 'rb').read(): won()
    except OSError:
        pass
""",
    ),
    Attack(
        "run_program",
        "run another program",
        "import subprocess; won() if subprocess.run(['/bin/true']).returncode == 0 else None",
    ),
    Attack("signal", "send a signal to a process outside", "import os; os.kill(VICTIM, 10); won()"),
    Attack(
        "ptrace",
        "attach to a process outside",
        """
import ctypes
won() if ctypes.CDLL(None).ptrace(0x4206, VICTIM, None, None) == 0 else None
""",
    ),
    Attack(
        "fork_bomb",
        "start 80 processes",
        """
import os, time
children = []
for _ in range(80):
    child = os.fork()
    if child == 0:
        time.sleep(2); os._exit(0)
    children.append(child)
won()
""",
    ),
    Attack(
        "daemon",
        "leave a process behind that has its own session",
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(20)
    os._exit(0)
won()
""",
    ),
    Attack("memory", "hold more memory than the limit", "held = [bytearray(STEP) for _ in range(STEPS)]; won()"),
    Attack(
        "memory_of_many",
        "hold more memory than the limit over many processes",
        """
import os, time
for _ in range(STEPS):
    if os.fork() == 0:
        held = bytearray(STEP); time.sleep(1); os._exit(0)
won()
""",
    ),
    Attack("endless", "never end", "while True: pass", ends_by_itself=False),
    Attack("asleep", "use no processor and never end", "import time; time.sleep(3600)", ends_by_itself=False),
    Attack(
        "ignores_signals",
        "ignore every signal and never end",
        """
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True: pass
""",
        ends_by_itself=False,
    ),
    Attack(
        "flood",
        "print more than the limit",
        "import sys\nfor _ in range(FLOOD): sys.stdout.write('x' * 2**20)\nsys.stdout.flush(); won()",
    ),
)
