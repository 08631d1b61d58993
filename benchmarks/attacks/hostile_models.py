"""Factories that misbehave, as a table: a name, and what the factory's file says.

Some misbehave in the forward, with `x`, `self.a` and `self.b` at hand; some in the factory before it returns; some by
what they return; and some by the whole file.
"""

from __future__ import annotations

import textwrap

FORWARD = {
    "exit in the forward": "sys.exit(0)",
    "exit with a word in the forward": "sys.exit('bye')",
    "os exit in the forward": "os._exit(0)",
    "os exit 3 in the forward": "os._exit(3)",
    "abort in the forward": "os.abort()",
    "segfault in the forward": "import ctypes; ctypes.string_at(0)",
    "sleep in the forward": "time.sleep(10**6)",
    "loop in the forward": "while True: pass",
    "chdir in the forward": "os.chdir(os.path.dirname(os.getcwd()))",
    "printing in the forward": "print('chatter')",
    "printing to descriptor 1 in the forward": "os.write(1, b'chatter')",
    "printing a lot in the forward": "print('chatter ' * 10**6)",
    "closing descriptors in the forward": "[os.close(n) for n in range(3, 64) if _open(n)]",
    "closing the streams in the forward": "sys.stdout.close(); sys.stderr.close()",
    "raising in the forward": "raise KeyError('gone')",
    "raising lines in the forward": "raise ValueError('one\\ntwo\\n\\x1b[2Jthree')",
    "raising KeyboardInterrupt": "raise KeyboardInterrupt",
    "raising GeneratorExit": "raise GeneratorExit",
    "raising MemoryError": "raise MemoryError",
    "raising its own BaseException": "raise type('Odd', (BaseException,), {})('odd')",
    "an error that cannot be shown": "raise type('Mute', (Exception,), {'__str__': lambda s: 1 / 0})()",
    "recursion": "return self(x)",
    "a signal to itself": "os.kill(os.getpid(), signal.SIGTERM)",
    "interrupting itself": "os.kill(os.getpid(), signal.SIGINT)",
    "killing itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "stopping itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "an alarm": "signal.alarm(1); time.sleep(3)",
    "fork in the forward": "if _once() and os.fork() == 0: time.sleep(300)",
    "fork that returns": "_once() and os.fork()",
    "a process left behind": "_once() and subprocess.Popen(['sleep', '300'])",
    "a process of another session": "_once() and subprocess.Popen(['sleep', '300'], start_new_session=True)",
    "a thread that sleeps": "_once() and threading.Thread(target=time.sleep, args=(300,)).start()",
    "threads that compute": "_once() and [threading.Thread(target=_spin, daemon=True).start() for _ in range(2)]",
    "deleting files in the folder": "[os.remove(n) for n in os.listdir('.') if n.endswith('.txt')]",
    "writing files in the folder": "open('left.txt', 'w').write('here')",
    "default dtype in the forward": "torch.set_default_dtype(torch.float64)",
    "anomaly mode in the forward": "torch.autograd.set_detect_anomaly(True)",
    "gradients off": "torch.set_grad_enabled(False)",
    "threads in the forward": "torch.set_num_threads(2)",
    "seed in the forward": "torch.manual_seed(int(time.time_ns() % 2**31))",
    "random structure": "import random; x = torch.cat([x] * random.SystemRandom().randint(1, 3))[:4]",
    "data-dependent structure": "x = self.a(x) @ self.a.weight if x.sum() > 0 else x",
    "numpy work": "y = np.random.rand(200, 200); [y @ y for _ in range(20)]",
    "backward in the forward": "self.a(x).sum().backward()",
    "an optimizer in the forward": "torch.optim.SGD(self.parameters(), 0.1).step()",
    "a huge allocation": "torch.zeros(10**13)",
    "memory without end": "h = []\n        while True: h.append(torch.ones(10**7))",
    "a NaN loss": "x = x * float('nan')",
    "an infinite loss": "x = x / 0",
    "a list of a million strings": "self.h = ['x' * 10 for _ in range(10**6)]",
    "in-place error": "y = self.a(x).sigmoid(); y2 = y * 2; y += 1; return self.b(y2 + y)",
    "detached output": "return self.b(self.a(x)).detach()",
    "output None": "return None",
    "output a number": "return 3.0",
    "output a string": "return 'logits'",
    "output an empty tuple": "return ()",
    "output nested": "y = self.b(self.a(x)); return {'a': [y, (y, {'b': y})], 'n': None}",
    "output of integers": "return self.b(self.a(x)).argmax(-1)",
    "output complex": "return torch.complex(self.b(self.a(x)), self.b(self.a(x)))",
    "output of no elements": "return self.b(self.a(x))[:0]",
    "output a scalar": "return self.b(self.a(x)).sum()",
    "parameters made in the forward": "self.c = nn.Linear(8, 8); x = self.c(x)",
    "unused parameters": "return x @ torch.ones(8, 4)",
    "half of the graph without gradients": "with torch.no_grad(): x = self.a(x)",
    "removing itself": "del self.a",
    "checkpointing": "from torch.utils.checkpoint import checkpoint; x = checkpoint(self.a, x, use_reentrant=False)",
    "checkpointing, reentrant": "from torch.utils.checkpoint import checkpoint; x = checkpoint(self.a, x)",
    "autocast in the forward": "with torch.autocast('cpu'): return self.b(self.a(x))",
    "meta tensors": "x = x.to('meta')",
    "opening a socket": "import socket; s = socket.socket(); s.settimeout(1); s.connect_ex(('127.0.0.1', 9))",
    "a warning with escapes": "import warnings; warnings.warn('\\x1b[31mred\\x1b[0m')",
    "writing escapes to standard error": "sys.stderr.write('\\x1b[2Jgone\\n')",
}
FACTORY = {
    "exit in the factory": "sys.exit(0)",
    "os exit in the factory": "os._exit(0)",
    "sleep in the factory": "time.sleep(10**6)",
    "chdir in the factory": "os.chdir(os.path.dirname(os.getcwd()))",
    "printing to descriptor 1": "os.write(1, b'{\"a\": ')",
    "default dtype": "torch.set_default_dtype(torch.float64)",
    "anomaly mode": "torch.autograd.set_detect_anomaly(True)",
    "mkldnn off": "torch.backends.mkldnn.set_flags(False)",
    "deterministic algorithms": "torch.use_deterministic_algorithms(True)",
    "denormals and precision": "torch.set_flush_denormal(True); torch.set_float32_matmul_precision('medium')",
    "the default device": "torch.set_default_device('meta')",
    "no memory": "import resource; resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))",
    "no files": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))",
    "umask and niceness": "os.umask(0o777); os.nice(10)",
    "an environment cleared": "os.environ.clear()",
    "the path cleared": "sys.path.clear(); sys.modules.pop('json', None)",
    "monkeypatched linear": "nn.functional.linear = lambda *a: (_ for _ in ()).throw(TypeError('patched'))",
    "monkeypatched tensors": "torch.Tensor.backward = lambda *a, **k: None",
    "monkeypatched print and json": "import json, builtins; json.dumps = lambda *a, **k: 'x'; builtins.print = None",
    "atexit that sleeps": "import atexit; atexit.register(time.sleep, 300)",
    "atexit that raises": "import atexit; atexit.register(lambda: 1 / 0)",
    "signals ignored": "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)]",
    "a trace function": "sys.settrace(lambda *a: None)",
    "the recursion limit": "sys.setrecursionlimit(60)",
}
RETURNED = {
    "double": "Net().double(), x.double()",
    "double with inputs in float": "Net().double(), x",
    "half": "Net().half(), x.half()",
    "bfloat16": "Net().bfloat16(), x.bfloat16()",
    "complex": "nn.Linear(8, 4).to(torch.complex64), x.to(torch.complex64)",
    "no parameters": "nn.ReLU(), x",
    "frozen": "Net().requires_grad_(False), x",
    "eval": "Net().eval(), x",
    "on the meta device": "Net().to('meta'), x",
    "inputs on the meta device": "Net(), x.to('meta')",
    "batch of none": "Net(), x[:0]",
    "inputs a generator": "Net(), (t for t in (x,))",
    "inputs nested": "Net(), {'x': {'y': x}}",
    "inputs None": "Net(), None",
    "inputs of text": "Net(), 'x'",
    "inputs that need gradients": "Net(), x.clone().requires_grad_()",
    "inputs not contiguous": "Net(), torch.randn(8, 4).t()",
    "three things": "Net(), x, x",
    "a class": "Net",
    "nothing": "None",
    "a module list": "nn.ModuleList([Net()]), x",
    "an empty sequence": "nn.Sequential(), x",
    "data parallel": "nn.DataParallel(Net()), x",
    "spectral norm": "nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4)), x",
    "orthogonal": "nn.utils.parametrizations.orthogonal(nn.Linear(8, 8)), x",
    "weight norm": "nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)), x",
    "lazy": "nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(4)), x",
    "scripted": "torch.jit.script(Net()), x",
    "traced": "torch.jit.trace(Net(), x), x",
    "compiled": "torch.compile(Net(), backend='eager'), x",
    "quantised": "torch.ao.quantization.quantize_dynamic(Net(), {nn.Linear}), x",
    "sparse embeddings": "nn.Sequential(nn.Embedding(9, 8, sparse=True), nn.Linear(8, 4)), torch.arange(4)",
    "indices out of range": "nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 4)), torch.arange(40)",
    "weights not contiguous": "_weird(Net(), lambda m: setattr(m.a, 'weight', nn.Parameter(m.a.weight.t()))), x",
    "a parameter of no dimension": "_weird(Net(), lambda m: setattr(m, 'p', nn.Parameter(torch.tensor(1.)))), x",
    "weights of NaN": "_weird(Net(), lambda m: m.a.weight.data.fill_(float('nan'))), x",
    "shared weights": "_weird(Net(), lambda m: setattr(m, 'a', m.b) or setattr(m, 'b', nn.Linear(4, 4))), x",
    "escape sequences in names": "_weird(Net(), lambda m: m.add_module('\\x1b[2J\\n[bold]', nn.Linear(8, 8))), x",
    "a name of ten thousand letters": "_weird(Net(), lambda m: m.add_module('n' * 10**4, nn.Linear(8, 8))), x",
    "a class with escapes in its name": "type('\\x1b[31mRed', (Net,), {})(), x",
    "hooks that change outputs": "_weird(Net(), lambda m: m.a.register_forward_hook(lambda m, i, o: o * 2)), x",
    "hooks that raise": "_weird(Net(), lambda m: m.a.register_full_backward_hook(lambda *a: 1 / 0)), x",
    "a thousand layers": "nn.Sequential(*[nn.Linear(8, 8) for _ in range(1000)]), x",
    "nested a thousand deep": "_deep(1000), x",
    "a module in itself": "_weird(Net(), lambda m: m.__dict__['_modules'].update(me=m)), x",
    "a state dict that raises": "_weird(Net(), lambda m: setattr(m, 'state_dict', None)), x",
    "deep copies that raise": "type('Once', (Net,), {'__deepcopy__': lambda s, m: 1 / 0})(), x",
    "a repr that exits": "type('Rude', (Net,), {'__repr__': lambda s: sys.exit(1)})(), x",
}
FILES = {
    "exit at import": "import sys; sys.exit(0)",
    "os exit at import": "import os; os._exit(0)",
    "sleep at import": "import time; time.sleep(10**6)",
    "a syntax error": "def f(:\n",
    "bytes that are no text": "\udcff\udcfe",
    "a null byte": "x = 1\0\ndef f(): pass",
    "an import that is missing": "import nowhere_at_all\ndef f(): pass",
    "an import of itself": "import hostile, torch\ndef f(): return torch.nn.Linear(8, 4), torch.randn(4, 8)",
    "printing at import": "print('chatter')\nimport torch\ndef f(): return torch.nn.Linear(8, 4), torch.randn(4, 8)",
    "raising in the backward": """
        import torch
        class G(torch.autograd.Function):
            @staticmethod
            def forward(c, x): return x * 2
            @staticmethod
            def backward(c, g): raise RuntimeError('no way back')
        class M(torch.nn.Module):
            def __init__(self): super().__init__(); self.a = torch.nn.Linear(8, 4)
            def forward(self, x): return G.apply(self.a(x))
        def f(): return M(), torch.randn(4, 8)""",
    "a costly backward": """
        import torch
        class G(torch.autograd.Function):
            @staticmethod
            def forward(c, x): return x * 2
            @staticmethod
            def backward(c, g):
                w = torch.ones(300, 300)
                for _ in range(10): w = w @ w / 300
                return g * 2
        class M(torch.nn.Module):
            def __init__(self): super().__init__(); self.a = torch.nn.Linear(8, 4)
            def forward(self, x): return G.apply(self.a(x))
        def f(): return M(), torch.randn(4, 8)""",
    "sleep in the backward": """
        import time, torch
        class G(torch.autograd.Function):
            @staticmethod
            def forward(c, x): return x * 2
            @staticmethod
            def backward(c, g): time.sleep(10**6)
        class M(torch.nn.Module):
            def __init__(self): super().__init__(); self.a = torch.nn.Linear(8, 4)
            def forward(self, x): return G.apply(self.a(x))
        def f(): return M(), torch.randn(4, 8)""",
    "another model each call": """
        import random, torch
        def f(): return torch.nn.Linear(8, random.SystemRandom().randint(2, 64)), torch.randn(4, 8)""",
    "a factory that is a generator": "def f():\n    yield 1",
    "a factory that is a coroutine": "async def f(): return 1",
    "a factory that needs arguments": "def f(a, b): return a",
}
_TOP = """
import os, signal, subprocess, sys, threading, time
import numpy as np
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 4)
    def forward(self, x):
        @FORWARD@
        return self.b(self.a(x).relu())
def _once(seen=[]):
    seen.append(1)
    return len(seen) == 1
def _open(n):
    try: os.fstat(n)
    except OSError: return False
    return True
def _spin():
    while True: sum(range(1000))
def _weird(m, change):
    change(m)
    return m
def _deep(n):
    m = nn.Linear(8, 4)
    for _ in range(n): m = nn.Sequential(m)
    return m
def f():
    x = torch.randn(4, 8)
    @FACTORY@
    return @RETURNED@
"""
MODELS = (*FORWARD, *FACTORY, *RETURNED, *FILES)
PROFILED = (
    "exit in the forward", "chdir in the factory", "chdir in the forward", "double", "half", "bfloat16",
    "default dtype",
    "anomaly mode", "mkldnn off", "numpy work", "backward in the forward", "orthogonal", "spectral norm",
    "raising in the backward", "a costly backward", "another model each call", "fork in the forward",
    "a process left behind", "output None", "no parameters", "escape sequences in names", "a thousand layers",
)  # fmt: skip
"""Those that are also profiled on the simulated device …"""
TRAINED = (
    "os exit in the forward", "sleep in the forward", "sleep in the backward", "segfault in the forward", "double",
    "default dtype", "anomaly mode", "printing to descriptor 1 in the forward", "closing descriptors in the forward",
    "killing itself", "stopping itself", "a thread that sleeps", "fork in the forward", "memory without end",
    "a NaN loss", "raising in the backward",
)  # fmt: skip
"""… and those that are trained, on a processor."""
HARMLESS = (
    "chdir in the factory", "chdir in the forward", "printing in the forward", "printing a lot in the forward",
    "printing to descriptor 1 in the forward", "printing to descriptor 1", "printing at import", "double", "bfloat16",
    "weight norm", "spectral norm", "orthogonal", "shared weights", "a thousand layers", "an import of itself",
)  # fmt: skip
"""Those that train like any other model: they are not to be refused."""


def source(name: str) -> str:
    """The file of a factory `f` that misbehaves."""
    if name in FILES:
        return textwrap.dedent(FILES[name]).strip("\n") + "\n"
    return (
        _TOP.replace("@FORWARD@", FORWARD.get(name, "pass"))
        .replace("@FACTORY@", FACTORY.get(name, "pass"))
        .replace("@RETURNED@", RETURNED.get(name, "Net(), x"))
    )
