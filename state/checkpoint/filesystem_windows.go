package checkpoint

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// Lock opens the file so that others may read it, or so that nobody may. The exclusive one only looks whether others have the file and lets go
// at once, since a directory with an open file in it cannot be renamed here: a reader that comes later makes the rename fail.
func (osFileSystem) Lock(path string, exclusive bool) (io.Closer, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	share := uint32(windows.FILE_SHARE_READ)
	if exclusive {
		share = 0
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		err = ErrInUse
	}
	if err != nil {
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(h), path)
	if !exclusive {
		return f, nil
	}
	return io.NopCloser(nil), f.Close()
}
