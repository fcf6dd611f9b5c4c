package state

import (
	"os"

	"golang.org/x/sys/windows"
)

// SyncDir does nothing: NTFS journals directory entries and has no call for it.
func (osFileSystem) SyncDir(string) error { return nil }

func (osFileSystem) Free(dir string) (uint64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "free space", Path: dir, Err: err}
	}
	return free, nil
}
