#!/usr/bin/env python3
"""Quantizes a GGUF file with llama.cpp, as llama-quantize does, or widens a quantized one: TYPE is llama.cpp's number of a type of files (0 F32, 1 F16, 2 Q4_0,
7 Q8_0, 15 Q4_K_M).

    tools/llama/quantize.py FOLDER-WITH-node_modules IN OUT TYPE [pure]
"""
import ctypes, os, sys

folder, source, to, kind = sys.argv[1:5]
at = folder + "/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/"
libs = {name: ctypes.CDLL(at + next(f for f in sorted(os.listdir(at)) if f.startswith(name + ".") and ".so" in f), ctypes.RTLD_GLOBAL) for name in ("libggml-base", "libggml", "libllama")}


class Params(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int32), ("ftype", ctypes.c_int32), ("output", ctypes.c_int32), ("embedding", ctypes.c_int32), ("requantize", ctypes.c_bool),
                ("quantize_output", ctypes.c_bool), ("only_copy", ctypes.c_bool), ("pure", ctypes.c_bool), ("rest", ctypes.c_byte * 232)]


log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, _: level == 4 and sys.stderr.buffer.write(text))  # errors
libs["libllama"].llama_log_set(log, None)
libs["libggml"].ggml_backend_load_all_from_path(at.encode())
libs["libllama"].llama_backend_init()
defaults = libs["libllama"].llama_model_quantize_default_params
defaults.restype = Params
p = defaults()
p.ftype, p.requantize, p.pure, p.threads = int(kind), True, "pure" in sys.argv[5:], 2
run = libs["libllama"].llama_model_quantize
run.argtypes, run.restype = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Params)], ctypes.c_uint32
sys.exit(run(source.encode(), to.encode(), ctypes.byref(p)))
