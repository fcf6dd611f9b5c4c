package stranger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gputrain/internal/system"
)

// OpenFile is os.OpenFile of a regular file itself: no link is followed, and with os.O_CREATE nothing is made but at the path. It takes no os.O_TRUNC, which
// would come before the look at what was opened.
func OpenFile(path string, flag int) (*os.File, error) {
	f, err := itself(path, flag)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return f, nil
}

func itself(path string, flag int) (*os.File, error) {
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0 {
		f, err := os.OpenFile(path, flag|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) { // since a moment
			return itself(path, flag&^os.O_CREATE)
		}
		return f, reason(err)
	}
	if err != nil {
		return nil, reason(err)
	}
	if err := Regular(there); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag&^os.O_CREATE|system.NonBlock, 0)
	if err != nil {
		return nil, reason(err)
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(there, opened) {
		err = errors.New("was replaced while it was opened")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
