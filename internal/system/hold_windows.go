package system

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Hold takes memory of the system, so that release gives it back at once: the collector would keep the copy before beside the next one, and let garbage
// grow with its size.
func Hold(bytes int) (memory []byte, release func(), err error) {
	if bytes == 0 {
		return []byte{}, func() {}, nil
	}
	at, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, func() {}, err
	}
	memory = unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), bytes) // no memory of Go's
	return memory, func() { _ = windows.VirtualFree(at, 0, windows.MEM_RELEASE) }, nil
}
