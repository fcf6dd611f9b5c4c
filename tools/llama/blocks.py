#!/usr/bin/env python3
"""Makes hub/gguf/testdata/blocks.json with ggml itself: numbers, the blocks that ggml makes of them, and what these stand for.

    tools/llama/blocks.py FOLDER-WITH-node_modules > hub/gguf/testdata/blocks.json
"""
import ctypes, json, random, struct, sys

lib = ctypes.CDLL(sys.argv[1] + "/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so")
lib.ggml_quantize_chunk.restype = ctypes.c_size_t
lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
types = {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34),
         "q4_k": (12, 256, 144), "q5_k": (13, 256, 176), "q6_k": (14, 256, 210), "iq4_nl": (20, 32, 18)}
cases = []
for name, (number, elements, size) in types.items():
    random.seed(name)
    n = 1024
    rows = [random.gauss(0, 1) * 10 ** random.uniform(-4, 3) if i // elements % 4 else random.gauss(0, 0.02) for i in range(n)]
    rows[:elements] = [0.0] * elements  # a block of zeros
    if elements == 32:
        rows[32:64] = [(-1) ** i * 0.5 for i in range(32)]  # the same magnitude all over: the sign of the first counts
        rows[64:96] = [i / 2 - 8 for i in range(32)]  # ties
        rows[96:128] = [1e-40 * (i - 16) for i in range(32)]  # denormals
    floats = (ctypes.c_float * n)(*rows)
    out = (ctypes.c_uint8 * (n // elements * size))()
    written = lib.ggml_quantize_chunk(number, floats, out, 0, n // elements, elements, None)
    assert written == len(out), (name, written, len(out))
    back = (ctypes.c_float * n)()
    widen = getattr(lib, "dequantize_row_" + name.replace("_k", "_K"))
    widen.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    widen(out, back, n)
    cases.append({"type": name, "numbers": bytes(floats).hex(), "blocks": bytes(out).hex(), "values": bytes(back).hex()})
json.dump(cases, sys.stdout, indent=1)
print()
