// Which wgpu-native the binding links on this system, and what depends on that: its module has libraries of two versions
// under the headers of one. TestLibraries reads the versions from the libraries; TestABI holds native_abi.h to the headers
// of both.
#ifndef GPUTRAIN_NATIVE_LIBRARY_H
#define GPUTRAIN_NATIVE_LIBRARY_H

#if defined(_WIN32) && defined(__aarch64__)
#error "gputrain is not built for windows/arm64: the binding's library there is one of Microsoft's toolchain, which cgo does not link"
#elif defined(__linux__) && defined(__aarch64__)
#define GT_LIBRARY "22.1.0"
#define GT_ADAPTER_NAME device // whose description is the driver's version
#else
#define GT_LIBRARY "0.19.4"
#define GT_ADAPTER_NAME description // whose device is a number
#endif

#endif
