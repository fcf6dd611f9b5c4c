//go:build !unix

package ondisk

import "os"

// Lock is ErrNoLocks.
func Lock(*os.File, bool) error { return ErrNoLocks }

// SyncDir does nothing: NTFS journals directory entries and has no call for it.
func SyncDir(string) error { return nil }

// Together cannot tell, and leaves it to the rename.
func Together(string, string) (bool, error) { return true, nil }
