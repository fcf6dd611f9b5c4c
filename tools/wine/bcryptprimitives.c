// The one function of this library that Go and Rust ask for at their start. Windows has it since version 8; wine before version 9 has no such library.
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T bytes) {
    for (; bytes > 0xffffffffu; to += 0xffffffffu, bytes -= 0xffffffffu) {
        if (!RtlGenRandom(to, 0xffffffffu)) return FALSE;
    }
    return RtlGenRandom(to, (ULONG)bytes);
}
