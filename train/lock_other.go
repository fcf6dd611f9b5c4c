//go:build !unix

package train

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockDir takes a run directory for this process: an open file cannot be removed here.
func lockDir(path string, _ *os.File) (unlock func() error, err error) {
	path = filepath.Join(path, lockFileName)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("%w: %w", errLocked, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}
